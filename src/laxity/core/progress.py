"""PROGRESSMAP: from the progress of a stream to the moment its sources reach it (Cameo §4.3).

Ingestion and processing time need no map: logical time is system time. Event time is mapped by
a line fitted over a bounded history. Where nothing can be said yet the answer is None, and the
caller treats the operator as regular, the conservative choice.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple, Protocol

from laxity.core.jobs import TimeDomain


class ProgressLine(NamedTuple):
    """t = t0 + slope · (p − p0). Anchored, because with seconds since 1970 an intercept at
    p = 0 would cost seven of a float's sixteen digits."""

    p0: float
    t0: float
    slope: float

    def __call__(self, progress: float) -> float:
        return self.t0 + self.slope * (progress - self.p0)


IDENTITY = ProgressLine(0.0, 0.0, 1.0)


class ProgressMap(Protocol):
    def observe(self, progress: float, arrival: float) -> None:
        """`progress` was seen at the sources at system time `arrival`."""
        ...

    def line(self) -> ProgressLine | None:
        """The current map, or None while it is unknown. The same object as long as nothing was
        observed that moves it, so that callers can tell."""
        ...


class IdentityMap:
    """Ingestion and processing time: progress is the time it was observed."""

    def observe(self, progress: float, arrival: float) -> None:
        pass

    def line(self) -> ProgressLine | None:
        return IDENTITY


class EventTimeMap:
    """A running least-squares line through the last `history` advances of a stream.

    - Late data (progress that does not advance) says nothing about when the frontier is
      reached, and is left out.
    - While all arrivals fall together, or time seems to run backwards, a slope cannot be told:
      the stream is taken to run in real time (slope 1) from its newest point on.
    - After a jump (a source that paused, replayed or changed its clock) the old line is wrong
      for good: `patience` points in a row that are far from it, and advance among themselves,
      start a new history.
    """

    def __init__(self, history: int = 64, *, jump: float = 8.0, patience: int = 3) -> None:
        if history < 2:
            raise ValueError(f"history must be at least 2 points, got {history}")
        self._points: deque[tuple[float, float]] = deque(maxlen=history)
        self._jump = jump
        self._patience = patience
        self._strays: list[tuple[float, float]] = []
        self._latest = -math.inf
        self._line: ProgressLine | None = None
        self._anchor()

    def _anchor(self) -> None:
        """Sums are kept relative to an anchor inside the history, for precision."""
        self._p0, self._t0 = self._points[0] if self._points else (0.0, 0.0)
        self._sum_p = self._sum_t = self._sum_pp = self._sum_pt = self._sum_tt = 0.0
        for point in self._points:
            self._add(point, 1.0)
        self._since_anchor = 0

    def _add(self, point: tuple[float, float], sign: float) -> None:
        self._line = None
        p, t = point[0] - self._p0, point[1] - self._t0
        self._sum_p += sign * p
        self._sum_t += sign * t
        self._sum_pp += sign * p * p
        self._sum_pt += sign * p * t
        self._sum_tt += sign * t * t

    def observe(self, progress: float, arrival: float) -> None:
        if not (math.isfinite(progress) and math.isfinite(arrival)):
            return
        point = (progress, arrival)
        if self._is_stray(point):
            if self._strays and progress <= self._strays[-1][0]:
                self._strays.clear()  # late data lies anywhere; a stream that jumped advances
            self._strays.append(point)
            if len(self._strays) >= self._patience:
                self._restart(self._strays)
            return
        if progress <= self._latest:
            return
        self._strays.clear()
        self._latest = progress
        points = self._points
        if not points:
            self._p0, self._t0 = point
        elif len(points) == points.maxlen:
            self._add(points[0], -1.0)
        points.append(point)
        self._add(point, 1.0)
        self._since_anchor += 1
        if self._since_anchor >= 4 * (points.maxlen or 1):
            self._anchor()  # subtracting what was added leaves rounding behind; start over

    def _is_stray(self, point: tuple[float, float]) -> bool:
        """Is this point so far from the line that the line no longer describes the stream?

        Far means many times the usual error, and more than the spacing of the points: a line
        through exact points would otherwise call every rounding error a jump. A point behind the
        frontier by more than the whole history is a replay, not late data.
        """
        points = self._points
        if len(points) < 4:
            return False
        span_p = self._latest - points[0][0]
        span_t = points[-1][1] - points[0][1]
        if point[0] <= self._latest:
            return self._latest - point[0] > max(span_p, 1e-9)
        line = self.line()
        if line is None or span_t <= 0.0:
            return False  # a single burst: the slope is a guess, nothing can be far from it
        usual = max(self.error(), span_t / len(points), 1e-6)
        return abs(point[1] - line(point[0])) > self._jump * usual

    def _restart(self, points: list[tuple[float, float]]) -> None:
        self._points.clear()
        self._latest = -math.inf
        for point in points:
            if point[0] > self._latest:
                self._points.append(point)
                self._latest = point[0]
        self._strays = []
        self._anchor()

    def line(self) -> ProgressLine | None:
        if self._line is None:
            self._line = self._fit()
        return self._line

    def _fit(self) -> ProgressLine | None:
        n = len(self._points)
        if n == 0:
            return None
        mean_p, mean_t = self._sum_p / n, self._sum_t / n
        var_p = self._sum_pp / n - mean_p * mean_p
        cov = self._sum_pt / n - mean_p * mean_t
        slope = cov / var_p if n > 1 and var_p > 1e-12 * (1.0 + mean_p * mean_p) else 0.0
        if not slope > 0.0:
            return ProgressLine(*self._points[-1], 1.0)
        return ProgressLine(self._p0 + mean_p, self._t0 + mean_t, slope)

    def error(self) -> float:
        """Standard deviation of the history around the line, in seconds."""
        n = len(self._points)
        if n < 2:
            return 0.0
        mean_p, mean_t = self._sum_p / n, self._sum_t / n
        var_p = self._sum_pp / n - mean_p * mean_p
        var_t = self._sum_tt / n - mean_t * mean_t
        cov = self._sum_pt / n - mean_p * mean_t
        explained = cov * cov / var_p if var_p > 0 else 0.0
        return math.sqrt(max(0.0, var_t - explained))


def progress_map(domain: TimeDomain, *, history: int = 64) -> ProgressMap:
    return EventTimeMap(history) if domain is TimeDomain.EVENT else IdentityMap()
