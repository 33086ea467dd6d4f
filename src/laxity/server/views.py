"""What a service shows, as plain data. These are the bodies of the REST API.

Times are seconds since the epoch, durations seconds. Numbers that are not known are None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles of the results of the last `period` seconds."""

    count: int = 0
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    maximum: float | None = None
    met: float | None = None
    """Share of results within the target that held when they left."""
    period: float = 300.0
    arrival: str = ""
    """How arrivals are known."""
    error: float = 0.0
    """Standard deviation of the arrival estimate."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Counted since the query was first seen; never going down while it runs."""

    results: int = 0
    met: int = 0
    rows: int = 0
    batches: int = 0
    restarts: int = 0
    latency_sum: float = 0.0
    latency_counts: tuple[int, ...] = ()
    """Results by bucket of `Overview.buckets`; the last counts those above all of them."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds of latency by where they were spent."""


@dataclass(frozen=True, slots=True)
class QueryView:
    name: str
    id: str = ""
    tenant: str = "default"
    target: float | None = None
    state: str = "starting"
    """running, held, paused, idle, starting, stopped, failed, restarting, or "left alone: …"."""
    paused: bool = False
    latency: Latency = Latency()
    laxity: float | None = None
    """Seconds its next batch could still wait; None without a target."""
    rows_per_second: float = 0.0
    rows_per_batch: int = 0
    batch_seconds: float = 0.0
    limit: int = 0
    """Rows or files a batch that Laxity allows it at the moment; 0 is no limit."""
    running_tasks: int = 0
    waiting_tasks: int = 0
    behind: Mapping[str, float] = field(default_factory=dict)
    """Seconds its results of the period waited for slots, by who held those."""
    overloaded: bool = False
    error: str = ""
    trend: tuple[float, ...] = ()
    """The latencies of its last results, oldest first."""
    totals: Totals = Totals()


@dataclass(frozen=True, slots=True)
class TenantView:
    name: str
    queries: int = 0
    running_tasks: int = 0
    waiting_tasks: int = 0
    rows_per_second: float = 0.0
    met: float | None = None
    cap_slots: int | None = None
    cap_share: float | None = None


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything at a glance; taken once a period and the same for every client."""

    at: float
    application: str
    policy: str
    cores: int
    reserved: int
    queries: tuple[QueryView, ...] = ()
    tenants: tuple[TenantView, ...] = ()
    overload: float | None = None
    """p95 of the worst query that misses, as a multiple of its target."""
    notices: tuple[str, ...] = ()
    loop_alive: bool = True
    loop_cpu: float = 0.0
    """CPU seconds that deciding has taken."""
    buckets: tuple[float, ...] = ()
    version: str = ""


@dataclass(frozen=True, slots=True)
class Points:
    """The results of a query as columns, oldest first."""

    at: tuple[float, ...] = ()
    latency: tuple[float, ...] = ()
    target: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Misses:
    """Where the time of missed results went, on average for each."""

    missed: int = 0
    of: int = 0
    latency: float | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    behind: Mapping[str, float] = field(default_factory=dict)
    explanation: str = ""


@dataclass(frozen=True, slots=True)
class StageView:
    position: str
    cost: float
    spread: float
    path_cost: float
    """What follows it on the way to the result."""
    tasks: int
    task_seconds: float
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """A line of the plan: its label and what was read."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class QueryDetail:
    at: float
    query: QueryView
    points: Points = Points()
    misses: Misses = Misses()
    plan: tuple[Fact, ...] = ()
    notes: tuple[str, ...] = ()
    stages: tuple[StageView, ...] = ()
    phases: Mapping[str, float] = field(default_factory=dict)
    """Where the time of all results of the period went, on average."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that took time, on the timeline."""

    query: str
    tenant: str
    phase: str
    start: float
    end: float
    batch: int
    stage: str = ""
    tasks: int = 0
    behind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Timeline:
    at: float
    seconds: float
    bars: tuple[Bar, ...] = ()


def plain(value: Any) -> Any:
    """As JSON takes it: dataclasses as objects, what is not finite as null."""
    if isinstance(value, float):
        # Six digits after the point are a microsecond; more is noise and bytes.
        return round(value, 6) if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if is_dataclass(value):
        return {name: plain(getattr(value, name)) for name in _names(type(value))}  # type: ignore[arg-type]
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    raise TypeError(f"no JSON form for {type(value).__name__}")


@cache
def _names(kind: type) -> tuple[str, ...]:
    """A timeline has thousands of bars: what a class looks like is asked once."""
    return tuple(field.name for field in fields(kind))
