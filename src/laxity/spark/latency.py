"""Latency of results: how long after the last event it needed did each one leave?

A batch of a regular query is as late as its *earliest* row: each row is a result of its own, and
the first one in has waited longest. A window is as late as its last event: the one that took the
stream past its end and the watermark's delay.

When an event arrived is not in the data Spark reports, so every figure says how it was found.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from laxity.core.progress import ProgressLine
from laxity.core.windows import Window, next_boundary
from laxity.spark.batches import Phase, Span, attribute, behind_whom
from laxity.spark.wire import BatchDone

BUCKETS = (
    *(0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0),
    *(10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0),
)
"""Bounds of the histogram of latencies, in seconds: fine where alerts are promised."""


class ArrivalSource(Enum):
    """How the arrival of a result's last event is known."""

    EVENT_TIME = "event time mapped to arrival by the progress map"
    OFFSETS = "when offsets were read before it: an upper bound of the latency"


@dataclass(frozen=True, slots=True)
class Result:
    """One result (a window, or a batch of a regular query) and what became of it."""

    batch: int
    arrival: float
    emitted: float
    target: float | None
    phases: dict[Phase, float]
    behind: dict[str, float]
    source: ArrivalSource
    window_end: float | None = None

    @property
    def latency(self) -> float:
        return self.emitted - self.arrival

    @property
    def own(self) -> float:
        """What it took by itself: without being held, and with a slot at once."""
        others = self.phases.get(Phase.HELD, 0.0) + self.phases.get(Phase.WAITING, 0.0)
        return self.latency - others

    @property
    def met(self) -> bool:
        return self.target is None or self.latency <= self.target


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Percentiles in seconds over the last `period` seconds; None where nothing was emitted."""

    count: int
    p50: float | None
    p95: float | None
    p99: float | None
    maximum: float | None
    met: float | None
    """Share of results within the target that held when they left."""
    target: float | None
    period: float
    arrival: str
    """How arrivals are known."""
    error: float
    """Standard deviation of the arrival estimate, in seconds."""

    def __str__(self) -> str:
        if not self.count:
            return "no results yet"
        met = "" if self.target is None or self.met is None else f", {self.met:.0%} met"
        return f"p50 {self.p50:.3f} s, p99 {self.p99:.3f} s over {self.count} results{met}"


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of them do not exceed."""
    rank = max(1, -(-len(ordered) * share // 1))
    return ordered[int(rank) - 1]


def completed_windows(
    window: Window, before: float, after: float, *, most: int = 50
) -> Iterable[float]:
    """Ends of the windows that a watermark moving from `before` to `after` completes; the last
    `most` of them, for a stream that catches up."""
    first = next_boundary(before, window.slide, window.origin)
    count = int((after - first) // window.slide) + 1
    for step in range(max(0, count - most), count):
        yield first + step * window.slide


@dataclass
class LatencyLog:
    """The results of one query over a sliding period."""

    period: float = 300.0
    results: deque[Result] = field(default_factory=lambda: deque(maxlen=10_000))
    fastest: float | None = None
    floor: float | None = None
    """What the fastest would have taken, had it neither been held nor waited for others."""
    total: int = 0
    total_met: int = 0
    total_seconds: float = 0.0
    total_phases: dict[Phase, float] = field(default_factory=lambda: dict.fromkeys(Phase, 0.0))
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    """Results by bucket of `BUCKETS`; the last counts those above all of them."""
    _spans: deque[list[Span]] = field(default_factory=lambda: deque(maxlen=8))

    def add_batch(
        self,
        batch: BatchDone,
        batch_spans: list[Span],
        *,
        arrivals: Iterable[tuple[float, ArrivalSource, float | None]],
        target: float | None,
    ) -> list[Result]:
        """Note a batch and the results it emitted, each as (arrival, how known, window end)."""
        self._spans.append(batch_spans)
        recent = [span for spans in self._spans for span in spans]
        added = []
        for arrival, source, window_end in arrivals:
            arrival = min(arrival, batch.ended)
            result = Result(
                batch.batch,
                arrival,
                batch.ended,
                target,
                attribute(recent, arrival, batch.ended),
                behind_whom(recent, arrival, batch.ended),
                source,
                window_end,
            )
            self.results.append(result)
            added.append(result)
            self.total += 1
            self.total_met += result.met
            self.total_seconds += result.latency
            self.counts[bisect_left(BUCKETS, result.latency)] += 1
            for phase, seconds in result.phases.items():
                self.total_phases[phase] += seconds
            if self.fastest is None or result.latency < self.fastest:
                self.fastest = result.latency
            if self.floor is None or result.own < self.floor:
                self.floor = result.own
        return added

    def recent(self, now: float) -> list[Result]:
        return [r for r in self.results if r.emitted >= now - self.period]

    def summary(self, now: float, target: float | None, error: float) -> LatencySummary:
        recent = self.recent(now)
        ordered = sorted(r.latency for r in recent)
        if not ordered:
            return LatencySummary(0, None, None, None, None, None, target, self.period, "", error)
        return LatencySummary(
            len(ordered),
            percentile(ordered, 0.50),
            percentile(ordered, 0.95),
            percentile(ordered, 0.99),
            ordered[-1],
            sum(r.met for r in recent) / len(recent),
            target,
            self.period,
            recent[-1].source.value,
            error,
        )


@dataclass(frozen=True, slots=True)
class Crossing:
    """A batch took the stream up to `progress`; its events came after `earliest` (offsets were
    read then, and it was not there yet) and by `latest` (offsets were read again)."""

    progress: float
    earliest: float
    latest: float


class ArrivalModel:
    """When the last events arrived that the results of a batch needed.

    The progress map says it to within its error; what was read when bounds it from both sides.
    """

    def __init__(self) -> None:
        self._crossings: deque[Crossing] = deque(maxlen=200)
        self._left_behind = True
        """Did the batch before leave events lying, so that reading says nothing of arrival?"""

    def note(self, batch: BatchDone) -> None:
        """A batch with data was read; call before asking for its results."""
        newest = batch.event_time.get("max")
        if batch.rows == 0 or newest is None:
            return
        if not self._crossings or newest > self._crossings[-1].progress:
            known = not (self._left_behind or math.isnan(batch.arrival))
            earliest = batch.arrival if known else -math.inf
            self._crossings.append(Crossing(newest, earliest, batch.started))

    def of_window(self, due: float, line: ProgressLine) -> float:
        """The arrival of the event that took the stream to `due`."""
        estimate = line(due)
        for crossing in self._crossings:
            if crossing.progress >= due:
                return min(max(estimate, crossing.earliest), crossing.latest)
        return estimate

    def of_batch(self, batch: BatchDone, line: ProgressLine | None) -> tuple[float, ArrivalSource]:
        """The arrival of the earliest row. Event time alone would be wrong for a row that is
        late: it cannot have come before offsets were read last."""
        bound = batch.started if math.isnan(batch.arrival) else batch.arrival
        earliest = batch.event_time.get("min")
        if line is None or earliest is None:
            return bound, ArrivalSource.OFFSETS
        estimate = line(earliest)
        if not self._left_behind:
            estimate = max(estimate, bound)
        return min(estimate, batch.started), ArrivalSource.EVENT_TIME

    def results(
        self,
        batch: BatchDone,
        *,
        window: Window | None,
        watermark_before: float | None,
        line: ProgressLine | None,
    ) -> list[tuple[float, ArrivalSource, float | None]]:
        """(arrival, how it is known, window end) of every result of this batch."""
        found: list[tuple[float, ArrivalSource, float | None]] = []
        if window is not None:
            watermark = batch.event_time.get("watermark")
            # A watermark of zero is Spark's way of saying there is none yet.
            if line is not None and watermark is not None and (watermark_before or 0.0) > 0:
                for end in completed_windows(window, watermark_before or 0.0, watermark):
                    arrival = self.of_window(end + window.delay, line)
                    found.append((arrival, ArrivalSource.EVENT_TIME, end))
        elif batch.rows > 0:
            found.append((*self.of_batch(batch, line), None))
        if batch.rows > 0:
            self._left_behind = batch.backlog
        return found
