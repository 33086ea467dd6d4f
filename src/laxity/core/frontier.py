"""The progress that *all* sources of a job have reached (Cameo §4.2.2, frontier time)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable


class LowWatermark:
    """The least progress among a fixed set of sources; −∞ until each has been heard."""

    def __init__(self, sources: Iterable[Hashable]) -> None:
        self._progress: dict[Hashable, float] = dict.fromkeys(sources, -math.inf)
        if not self._progress:
            raise ValueError("a low watermark needs at least one source")
        self._low = -math.inf
        self._at_low = len(self._progress)

    @property
    def progress(self) -> float:
        return self._low

    def of(self, source: Hashable) -> float:
        """What one source has reached; −∞ until it has been heard."""
        return self._progress[source]

    def advance(self, source: Hashable, progress: float) -> bool:
        """Note what a source has reached; True if the low watermark moved with it."""
        before = self._progress[source]
        if progress <= before:
            return False
        self._progress[source] = progress
        if before > self._low:
            return False
        self._at_low -= 1
        if self._at_low:
            return False
        self._low = min(self._progress.values())
        self._at_low = sum(1 for p in self._progress.values() if p == self._low)
        return True
