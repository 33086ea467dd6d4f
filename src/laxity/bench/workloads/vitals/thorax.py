"""Thorax extension (Neptune §5.2.1): the last ten seconds of each patient, for a monitor to draw,
and the running mean, minimum and maximum of all that was seen."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

HISTORY = 10.0


@dataclass(slots=True)
class Chest:
    seen: int = 0
    total: float = 0.0
    least: float = math.inf
    most: float = -math.inf
    times: list[float] = field(default_factory=list)
    extensions: list[float] = field(default_factory=list)

    def feed(self, times: NDArray[np.float64], extensions: NDArray[np.float64]) -> None:
        """In the order of their times."""
        if not times.size:
            return
        self.seen += int(times.size)
        self.total += math.fsum(extensions.tolist())
        self.least = min(self.least, float(extensions.min()))
        self.most = max(self.most, float(extensions.max()))
        all_times = np.concatenate([self.times, times])
        kept = all_times > all_times[-1] - HISTORY
        self.times = all_times[kept].tolist()
        self.extensions = np.concatenate([self.extensions, extensions])[kept].tolist()

    @property
    def mean(self) -> float:
        return self.total / self.seen if self.seen else math.nan

    @property
    def breaths_a_minute(self) -> float:
        """From the history: how often it rises through its middle."""
        values = np.array(self.extensions)
        if values.size < 3:
            return 0.0
        middle = (values.max() + values.min()) / 2
        band = 0.2 * (values.max() - values.min())  # noise at the middle is no breath
        above, rises = bool(values[0] > middle), 0
        for value in values:
            if not above and value > middle + band:
                above, rises = True, rises + 1
            elif above and value < middle - band:
                above = False
        return 60.0 * rises / max(self.times[-1] - self.times[0], 1e-9)
