"""How far a query has come, read from its checkpoint: the last batch planned, the last done."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from laxity.fleet.refusals import StoreAwayError


@dataclass(frozen=True, slots=True)
class Progress:
    offsets: int
    """The last batch whose offsets are fixed; −1 before the first."""
    commits: int
    """The last batch that is done."""

    @property
    def clean(self) -> bool:
        """Nothing begun that is not done. If not, whoever resumes runs that batch again, from
        the same offsets."""
        return self.offsets == self.commits

    def reaches(self, other: Progress) -> bool:
        return self.offsets >= other.offsets and self.commits >= other.commits


def read_progress(checkpoint: Path) -> Progress:
    return Progress(_last(checkpoint / "offsets"), _last(checkpoint / "commits"))


def _last(log: Path) -> int:
    try:
        return max((int(name) for name in os.listdir(log) if name.isdigit()), default=-1)
    except FileNotFoundError:
        return -1
    except OSError as error:
        raise StoreAwayError(f"cannot read {log}: {error}") from error
