"""What `lx.status()` tells: every query at a glance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from laxity.core.durations import format_duration
from laxity.spark.errors import UnknownQueryError
from laxity.spark.latency import LatencySummary
from laxity.spark.model import QueryModel

# Triggers that are left alone, by Spark's class name.
_TRIGGERS = {
    "AvailableNowTrigger$": "available-now",
    "OneTimeTrigger$": "once",
    "ContinuousTrigger": "continuous",
    "RealTimeTrigger": "real-time",
}


@dataclass(frozen=True, slots=True)
class QueryStatus:
    name: str
    id: str
    tenant: str
    target: float | None
    state: str
    """running, held, paused, idle, starting, stopped, failed, or "left alone: …"."""
    latency: LatencySummary
    laxity: float | None
    """Seconds its next batch could still wait, as of the last batch; None without a target."""
    rows_per_second: float
    rows_per_batch: int
    batches: int
    batch_seconds: float
    limit: int
    """Rows or files a batch that Laxity allows it at the moment; 0 is no limit."""
    overloaded: bool
    error: str

    @classmethod
    def of(cls, model: QueryModel, now: float, names: dict[str, str]) -> QueryStatus:
        latency = model.log.summary(now, model.target, model.progress.error())
        state = model.state
        if model.unmanaged:
            state = f"left alone: {_TRIGGERS.get(model.unmanaged, model.unmanaged)}"
        elif model.paused:
            state = "paused"
        laxity = None
        if model.target is not None and model.last_batch is not None:
            waited = now - model.last_batch.started
            laxity = model.target - model.batch_cost.mean - model.emission - waited
        missed = model.target is not None and latency.count >= 5 and (latency.met or 0.0) < 0.9
        return cls(
            name=model.name,
            id=model.id,
            tenant=model.tenant,
            target=model.target,
            state=state,
            latency=latency,
            laxity=laxity,
            rows_per_second=model.rate.per_second(now),
            rows_per_batch=model.last_rows,
            batches=model.batches,
            batch_seconds=model.batch_cost.mean,
            limit=model.sizer.limit,
            overloaded=missed,
            error=model.error,
        )


@dataclass(frozen=True, slots=True)
class Status:
    queries: tuple[QueryStatus, ...]
    policy: str
    cores: int
    reserved: int
    overloaded: bool
    overload: float | None
    """p95 of the worst query that misses, as a multiple of its target."""
    notices: tuple[str, ...]
    loop_alive: bool
    loop_cpu: float
    """CPU seconds the loop has taken, in Python and in the JVM."""
    sorts: int
    sort_seconds: float

    def __getitem__(self, name: str) -> QueryStatus:
        for query in self.queries:
            if query.name == name:
                return query
        known = ", ".join(sorted(q.name for q in self.queries)) or "none"
        raise UnknownQueryError(f"no query is named {name!r}; running are: {known}")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        """A table, the tightest target first, and below it whatever needs somebody's attention."""
        order = sorted(self.queries, key=lambda q: math.inf if q.target is None else q.target)
        rows = [_COLUMNS, *(_row(query) for query in order)]
        widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS))]
        lines = ["  ".join(_aligned(row, widths)).rstrip() for row in rows]
        if not self.queries:
            lines = ["no streaming queries are running"]
        if not self.loop_alive:
            lines.append("Laxity's loop has died: Spark schedules on its own")
        if self.overload is not None:
            who = ", ".join(q.name for q in order if q.overloaded)
            lines.append(
                f"overloaded: the worst query takes {self.overload:.1f} × its target ({who})"
            )
        return "\n".join([*lines, *(f"note: {notice}" for notice in self.notices)])


_COLUMNS = ("query", "tenant", "target", "state", "p50", "p99", "met", "rows/s")
_TEXTS = 0, 1, 3  # the columns that are not numbers


def _row(query: QueryStatus) -> tuple[str, ...]:
    def duration(seconds: float | None) -> str:
        return "–" if seconds is None else format_duration(seconds)

    latency = query.latency
    met = "–" if latency.met is None or query.target is None else f"{latency.met:.0%}"
    times = duration(latency.p50), duration(latency.p99)
    rate = f"{query.rows_per_second:,.0f}"
    return query.name, query.tenant, duration(query.target), query.state, *times, met, rate


def _aligned(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    for at, (text, width) in enumerate(zip(row, widths, strict=True)):
        yield text.ljust(width) if at in _TEXTS else text.rjust(width)
