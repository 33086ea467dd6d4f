"""Latency of results: how long after the last event it needed did each one leave?

A batch of a regular query is as late as its *earliest* row: each row is a result of its own, and
the first one in has waited longest. A window is as late as its last event: the one that took the
stream past its end and the watermark's delay.

When an event arrived is not in the data Spark reports, so every figure says how it was found.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from laxity.core.progress import ProgressLine
from laxity.core.windows import Window, next_boundary
from laxity.spark.batches import Phase, Span, attribute, behind_whom
from laxity.spark.wire import BatchDone


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
    total: int = 0
    total_met: int = 0
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
            if self.fastest is None or result.latency < self.fastest:
                self.fastest = result.latency
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


def result_arrivals(
    batch: BatchDone,
    *,
    window: Window | None,
    watermark_before: float | None,
    line: ProgressLine | None,
    had_backlog: bool,
) -> Iterable[tuple[float, ArrivalSource, float | None]]:
    """When the last events arrived that the results of this batch needed.

    No row of a batch arrived before offsets were read last, unless they were left lying then
    (`had_backlog`): that bounds what event time says of rows that come late.
    """
    if window is not None:
        watermark = batch.event_time.get("watermark")
        if line is None or watermark is None or not watermark_before or watermark_before <= 0:
            return
        for end in completed_windows(window, watermark_before, watermark):
            yield line(end + window.delay), ArrivalSource.EVENT_TIME, end
    elif batch.rows > 0:
        bound = batch.started if math.isnan(batch.arrival) else batch.arrival
        earliest = batch.event_time.get("min")
        if line is not None and earliest is not None:
            arrival = line(earliest)
            yield arrival if had_backlog else max(arrival, bound), ArrivalSource.EVENT_TIME, None
        else:
            yield bound, ArrivalSource.OFFSETS, None
