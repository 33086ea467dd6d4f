"""Watching keys in the data plane: how many there are, and which of them are the heaviest.

In one batch of some, Spark is told to count beside its own work (`Dataset.observe`, put into the
plan by Replan.java); in the others the plan is as it was, so they cost nothing. Event time needs no
counting: Spark reports it with every batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from laxity.spark.control import jvm
from laxity.spark.control.errors import UnfitOperationError
from laxity.spark.control.operation import SparkOperation

if TYPE_CHECKING:
    from laxity.spark.control.query import QueryControl

METRICS = "laxity"
EVERY = 10
"""Batches from one that counts to the next; see docs/control-on-spark.md for what that costs."""


@dataclass(frozen=True)
class Monitor(SparkOperation):
    """Count keys in one of so many batches; 0 stops it. `columns` names what to count by, else the
    query's own keys: of its join, its aggregation or its deduplication."""

    name: ClassVar[str] = "spark-monitor"

    every: int = EVERY
    columns: tuple[str, ...] = ()

    def check(self, query: QueryControl) -> None:
        if type(self.every) is not int or self.every < 0:
            raise UnfitOperationError(
                f"every is a whole number of batches, 0 to stop; got {self.every!r}"
            )

    def at_boundary(self, query: QueryControl, batch: int) -> dict[str, Any]:
        before = query.monitor_order
        query.order_monitoring(Monitor(self.every, tuple(self.columns)))
        return {"undo": {"operation": self.name, "arguments": before.arguments()}}


@dataclass(frozen=True, slots=True)
class HeavyKey:
    key: str
    rows: int
    share: float


@dataclass(frozen=True, slots=True)
class Monitoring:
    """What the last batch that counted has found."""

    batch: int
    rows: int
    keys: int
    """About how many different ones; a standard error of 2 %."""
    heaviest: tuple[HeavyKey, ...]
    """Most rows first. Empty before Spark 4.1, which has no sketch for it."""
    event_time: Mapping[str, str]
    """min, max, avg and watermark of the batch, where the query has a watermark."""
    lag: float | None
    """Seconds from its newest event to the moment the batch started."""


def find_monitoring(reports: Iterable[Mapping[str, Any]]) -> Monitoring | None:
    """From Spark's progress reports, oldest first."""
    for report in reversed(list(reports)):
        found = (report["observedMetrics"] or {}).get(METRICS)
        if found is None:
            continue
        values = found.asDict(recursive=True) if hasattr(found, "asDict") else dict(found)
        rows = int(values["rows"])
        if rows == 0:
            continue  # a batch without data, which only moves the watermark
        times = dict(report["eventTime"] or {})
        return Monitoring(
            batch=int(report["batchId"]),
            rows=rows,
            keys=int(values["keys"]),
            heaviest=tuple(
                HeavyKey(str(item["item"]), int(item["count"]), int(item["count"]) / rows)
                for item in values.get("heaviest") or []
            ),
            event_time=times,
            lag=_lag(times.get("max"), str(report["timestamp"])),
        )
    return None


def _lag(newest: str | None, started: str) -> float | None:
    if newest is None:
        return None
    return (datetime.fromisoformat(started) - datetime.fromisoformat(newest)).total_seconds()


def await_monitoring(query: QueryControl, after: int, timeout: float) -> Monitoring:
    """The findings of a batch later than `after`."""
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        found = query.monitoring()
        if found is not None and found.batch > after:
            return found
        problem = str(jvm.static(query.spark, "Replan", "problem", query.id))
        if problem:
            raise UnfitOperationError(
                f"the keys of query {query.name!r} cannot be counted: {problem}"
            )
        time.sleep(0.25)
    raise UnfitOperationError(
        f"query {query.name!r} has not finished a batch with data that counts keys within "
        f"{timeout:.0f} s; try again once it has data"
    )
