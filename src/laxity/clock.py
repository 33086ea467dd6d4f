"""Where time comes from. The core is given `now` and never asks; the edges hold a `Clock`."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since this clock's epoch. A wall clock may be set back; whoever needs order
        between events must not take it from here."""
        ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """Wall-clock time, in the epoch that Spark's drivers and event timestamps use."""

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))


class VirtualClock:
    """Time that moves only when told to: sleeping advances it at once."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.advance_to(self._now + max(0.0, seconds))

    def advance_to(self, instant: float) -> None:
        if instant < self._now:
            raise ValueError(f"time cannot go back from {self._now} to {instant}")
        self._now = instant
