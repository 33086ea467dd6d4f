"""What `lx.status()` tells: every query at a glance."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from laxity.core.durations import format_duration
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
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        columns = ("target", ">8"), ("state", "<10"), ("p50", ">8"), ("p99", ">8"), ("met", ">6")
        header = " ".join(f"{name:{width}}" for name, width in columns)
        lines = [f"{'query':<20} {header} {'rows/s':>9}"]
        for q in sorted(self.queries, key=lambda q: q.target if q.target is not None else 1e18):
            target = "–" if q.target is None else format_duration(q.target)
            p50, p99 = (
                "–" if v is None else format_duration(v) for v in (q.latency.p50, q.latency.p99)
            )
            met = "–" if q.latency.met is None or q.target is None else f"{q.latency.met:.0%}"
            lines.append(
                f"{q.name:<20} {target:>8} {q.state:<10} {p50:>8} {p99:>8} {met:>6} "
                f"{q.rows_per_second:>9.0f}"
            )
        if self.overload is not None:
            lines.append(f"overloaded: the worst query takes {self.overload:.1f} × its target")
        return "\n".join(lines)
