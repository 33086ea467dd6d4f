"""The translator seam, and what all translators share."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from laxity.host.errors import InvalidHostConfigError
from laxity.host.journal import Journal
from laxity.host.kernel import Kernel
from laxity.host.normalise import (
    Scale,
    Spacing,
    exact_nice,
    log_min_max,
    min_max,
    proportional,
)
from laxity.host.notices import Notices


class Format(StrEnum):
    """Which schedule a translator takes."""

    SINGLE = "single"
    GROUPING = "grouping"
    NESTED = "nested"


class Normalisation(StrEnum):
    """`AUTO`: min-max for linear priorities; for those meant as ratios, exactly those ratios."""

    AUTO = "auto"
    MIN_MAX = "min-max"
    LOG_MIN_MAX = "log-min-max"
    EXACT = "exact"

    @classmethod
    def parse(cls, name: str) -> Normalisation:
        try:
            return cls(name)
        except ValueError:
            raise InvalidHostConfigError(
                f"no normalisation is named {name!r}; known are {', '.join(cls)}"
            ) from None


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that was made, for reports."""

    what: str
    value: str


@dataclass(frozen=True, slots=True)
class Tools:
    """What every translator works with. `owner` is the name its changes are journalled under."""

    kernel: Kernel
    journal: Journal
    notices: Notices
    owner: str


class Translator(Protocol):
    """`apply` makes a schedule true and puts back the threads that left it; it raises nothing
    for threads that have ended, and tells `notices` once about what it may not do."""

    @property
    def name(self) -> str: ...

    @property
    def format(self) -> Format: ...

    def unavailable(self) -> str | None:
        """Why it cannot work on this machine, or None."""
        ...

    def apply(self, schedule: Any) -> list[Change]: ...

    def release(self) -> None:
        """Put everything back."""
        ...


_SCALERS: Mapping[tuple[Normalisation, bool], Callable[[Mapping[Any, float], Scale], Any]] = {
    (Normalisation.MIN_MAX, True): min_max,
    (Normalisation.MIN_MAX, False): min_max,
    (Normalisation.LOG_MIN_MAX, True): log_min_max,
    (Normalisation.LOG_MIN_MAX, False): log_min_max,
    (Normalisation.EXACT, True): exact_nice,
    (Normalisation.EXACT, False): proportional,
}


def normalise(
    priorities: Mapping[Any, float],
    scale: Scale,
    spacing: Spacing,
    how: Normalisation,
    *,
    logarithmic: bool,
) -> dict[Any, float]:
    """`logarithmic`: a step of the scale is a factor of CPU time (nice), not a share of it."""
    if how is Normalisation.AUTO:
        how = Normalisation.MIN_MAX if spacing is Spacing.LINEAR else Normalisation.EXACT
    scaled: dict[Any, float] = _SCALERS[how, logarithmic](priorities, scale)
    return scaled


def is_gone(error: OSError) -> bool:
    return error.errno in (errno.ESRCH, errno.ENOENT)


def is_denied(error: OSError) -> bool:
    return error.errno in (errno.EPERM, errno.EACCES)
