"""Tuning a running query's batch size to a target, phase by phase.

Spark has no batch of a given size, only a pause between two: at a steady rate of arrivals a pace
of size / rate makes batches of about that size. Each phase is an operation of its own, so the
history tells how the size was found, and undo goes back.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from laxity.control.tuning import BatchSizeSearch, TuningPhase
from laxity.core.durations import Duration, format_duration, parse_target
from laxity.spark.control.change import Change
from laxity.spark.control.errors import BoundaryTimeoutError, UnfitOperationError

if TYPE_CHECKING:
    from laxity.spark.control.query import QueryControl
    from laxity.spark.wire import BatchDone

BATCHES = 6
"""A phase lasts so many batches, after one that is left out: it may have begun before."""


@dataclass(frozen=True)
class TunePace(Change):
    """One phase: from this batch on, batches of about `rows`."""

    name: ClassVar[str] = "spark-tune"

    rows: int = 0

    def at_boundary(self, query: QueryControl, batch: int) -> dict[str, Any]:
        return {**super().at_boundary(query, batch), "rows": self.rows}


@dataclass(frozen=True, slots=True)
class Tuned:
    """What came of tuning."""

    rows: int
    pace: float
    rate: float
    fits: bool
    phases: tuple[TuningPhase, ...]

    def __str__(self) -> str:
        lines = [
            f"phase {number}: {phase.size:,} rows a batch, latency "
            f"{format_duration(phase.latency)}: {phase.verdict}"
            for number, phase in enumerate(self.phases, 1)
        ]
        found = "settled on" if self.fits else "nothing fits; left at"
        return "\n".join(
            [*lines, f"{found} {self.rows:,} rows, every {format_duration(self.pace)}"]
        )


def tune(
    query: QueryControl,
    target: Duration,
    *,
    start: int | None,
    rate: float | None,
    batches: int,
    by: str,
    on_phase: Callable[[TuningPhase], None] | None,
    timeout: float,
) -> Tuned:
    bound = parse_target(target)
    if rate is None:
        rate = _measured_rate(query)
    if rate <= 0:
        raise UnfitOperationError(
            f"query {query.name!r} has had no rows in the last minute; give rate= (rows a second)"
        )
    smallest = max(1, round(rate * bound / 16))
    search = BatchSizeSearch(bound, smallest if start is None else start, int(rate * bound * 4))
    last = False
    while not last:
        last = search.settled  # the size it comes to rest at is watched as well
        pace = search.size / rate
        entry = query.run(TunePace(settings={"pace": pace}, rows=search.size), by=by)
        done = _watch(query, int(entry.result["batch"]), batches, timeout)
        takes = statistics.fmean(b.ended - b.started for b in done)
        search.observe(_latency(done, pace), takes <= pace)
        if on_phase is not None:
            on_phase(search.phases[-1])
    return Tuned(search.size, search.size / rate, rate, search.fits, tuple(search.phases))


def _latency(batches: list[BatchDone], pace: float) -> float:
    """Of the first event of each batch, the one that waits longest, on average."""
    return statistics.fmean(
        b.ended - (b.arrival if b.arrival == b.arrival else b.started - pace) for b in batches
    )


def _measured_rate(query: QueryControl) -> float:
    model = query.laxity.model(query.id)
    if model.last_batch is not None and model.last_batch.backlog:
        raise UnfitOperationError(
            f"query {query.name!r} has a backlog, so its rate of arrivals does not show; give "
            f"rate= (rows a second)"
        )
    return model.rate.per_second(query.laxity.now())


def _watch(query: QueryControl, first: int, count: int, timeout: float) -> list[BatchDone]:
    """So many batches with data that began after the change."""
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        with query.laxity.looking():
            history = [batch for batch, _ in query.laxity.model(query.id).history]
        done = [b for b in history if b.batch > first and b.rows]
        if len(done) >= count:
            return done[:count]
        time.sleep(0.1)
    raise BoundaryTimeoutError(
        f"query {query.name!r} did not finish {count} batches within {timeout:.0f} s; undo() takes "
        f"the last phase back"
    )
