"""What is known of a query travels with its checkpoint.

Beside the lease lies what the node that released it had learned, for whoever opens it next. So a
move, a drained node and a restart all hand it over, and no orchestrator has to be there. It only
makes forecasts better: without it, or with one that cannot be read, they begin anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "forecast.json"


@dataclass(frozen=True, slots=True)
class Knowledge:
    step: float
    """Seconds between two rates."""
    at: float
    """Wall clock at the last of them."""
    seconds_per_row: float
    rates: Sequence[float]
    """Rows a second, oldest first."""

    def continued(self, step: float, season: int, now: float) -> list[float]:
        """The rates up to now, as a node with this step wants them. The steps in which nobody
        counted are taken from the season before; if that is more than a season, or the steps
        differ, nothing is known."""
        missed = max(0, round((now - self.at) / self.step))
        if step != self.step or missed > min(season, len(self.rates)):
            return []
        back = min(season, len(self.rates))
        rates = list(self.rates)
        for _ in range(missed):
            rates.append(rates[-back])
        return rates


def leave(folder: Path, knowledge: Knowledge) -> None:
    draft = folder / f".{FILE}.{os.getpid()}"
    with suppress(OSError):
        draft.write_text(json.dumps(asdict(knowledge)))
        os.replace(draft, folder / FILE)


def find(folder: Path) -> Knowledge | None:
    try:
        data = json.loads((folder / FILE).read_text())
        rates = [float(rate) for rate in data["rates"]]
        return Knowledge(
            float(data["step"]), float(data["at"]), float(data["seconds_per_row"]), rates
        )
    except (OSError, ValueError, LookupError, TypeError):
        return None
