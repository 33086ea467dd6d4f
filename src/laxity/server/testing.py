"""A service without Spark, for tests of whatever shows one, and for load on the server alone."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from laxity.clock import Clock, SystemClock
from laxity.server.control import Control, Operation
from laxity.server.service import NotFoundError, RefusedError
from laxity.server.views import (
    Bar,
    Fact,
    Latency,
    Misses,
    Overview,
    Points,
    QueryDetail,
    QueryView,
    StageView,
    TenantView,
    Timeline,
    Totals,
)

BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass
class ScriptedQuery:
    """A query whose results are put in by hand."""

    name: str
    tenant: str = "default"
    target: float | None = None
    state: str = "running"
    error: str = ""
    paused: bool = False
    restarts: int = 0
    results: deque[tuple[float, float, float | None]] = field(
        default_factory=lambda: deque(maxlen=2000)
    )
    total: int = 0
    total_met: int = 0
    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    seconds: float = 0.0

    def emit(self, at: float, latency: float) -> None:
        self.results.append((at, latency, self.target))
        self.total += 1
        self.total_met += self.target is None or latency <= self.target
        self.counts[bisect_left(BUCKETS, latency)] += 1
        self.seconds += latency


class ScriptedService:
    """Keeps the contract of `Service`; what it shows is what tests put in."""

    def __init__(self, *queries: ScriptedQuery, cores: int = 4, clock: Clock | None = None) -> None:
        self.queries = {q.name: q for q in queries}
        self.caps: dict[str, int | float] = {}
        self.calls = 0
        self.done: list[Operation] = []
        self._cores = cores
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()

    @property
    def lock(self) -> threading.Lock:
        return self._lock

    def overview(self) -> Overview:
        with self._lock:
            self.calls += 1
            views = tuple(self._view(q) for q in self.queries.values())
            late = [v for v in views if v.overloaded and v.target and v.latency.p95]
            return Overview(
                at=self._clock.now(),
                application="scripted",
                policy="llf",
                cores=self._cores,
                reserved=2,
                queries=views,
                tenants=tuple(self._tenant(name, views) for name in self._tenants()),
                overload=max(((v.latency.p95 or 0) / (v.target or 1) for v in late), default=None),
                buckets=BUCKETS,
            )

    def _tenants(self) -> list[str]:
        return sorted({q.tenant for q in self.queries.values()})

    def _tenant(self, name: str, views: tuple[QueryView, ...]) -> TenantView:
        mine = [v for v in views if v.tenant == name]
        cap = self.caps.get(name)
        met = [v.latency.met for v in mine if v.latency.met is not None and v.target is not None]
        return TenantView(
            name,
            queries=len(mine),
            running_tasks=sum(v.running_tasks for v in mine),
            waiting_tasks=sum(v.waiting_tasks for v in mine),
            rows_per_second=sum(v.rows_per_second for v in mine),
            met=sum(met) / len(met) if met else None,
            cap_slots=cap if isinstance(cap, int) else None,
            cap_share=cap if isinstance(cap, float) else None,
        )

    def _view(self, q: ScriptedQuery) -> QueryView:
        ordered = sorted(latency for _, latency, _ in q.results)
        met = [t is None or latency <= t for _, latency, t in q.results]
        share = sum(met) / len(met) if met else None

        def at(rank: float) -> float | None:
            return ordered[max(0, math.ceil(rank * len(ordered)) - 1)] if ordered else None

        return QueryView(
            name=q.name,
            id=f"id-{q.name}",
            tenant=q.tenant,
            target=q.target,
            state="paused" if q.paused else q.state,
            paused=q.paused,
            latency=Latency(len(ordered), at(0.5), at(0.95), at(0.99), at(1.0), share),
            laxity=None if q.target is None else q.target - 0.2,
            rows_per_second=1000.0,
            rows_per_batch=500,
            batch_seconds=0.2,
            running_tasks=1,
            behind={other: 0.5 for other in self.queries if other != q.name},
            overloaded=share is not None and len(met) >= 5 and share < 0.9,
            error=q.error,
            trend=tuple(latency for _, latency, _ in q.results)[-40:],
            totals=Totals(
                *(q.total, q.total_met, 500 * q.total, q.total, q.restarts, q.seconds),
                latency_counts=tuple(q.counts),
                phases={"running": 0.6 * q.seconds, "waiting for a slot": 0.4 * q.seconds},
            ),
        )

    def _find(self, name: str) -> ScriptedQuery:
        for query in self.queries.values():
            if name in (query.name, f"id-{query.name}"):
                return query
        raise NotFoundError(f"no query is named so; there are: {', '.join(self.queries)}")

    def detail(self, name: str) -> QueryDetail:
        with self._lock:
            self.calls += 1
            query = self._find(name)
            missed = [lat for _, lat, t in query.results if t is not None and lat > t]
            mean = sum(missed) / len(missed) if missed else None
            return QueryDetail(
                at=self._clock.now(),
                query=self._view(query),
                points=Points(
                    tuple(at for at, _, _ in query.results),
                    tuple(latency for _, latency, _ in query.results),
                    tuple(target for _, _, target in query.results),
                ),
                misses=Misses(
                    len(missed),
                    len(query.results),
                    mean,
                    {}
                    if mean is None
                    else {"waiting for a slot": 0.7 * mean, "running": mean * 0.3},
                    {} if mean is None else {"bulk": 0.7 * mean},
                    f"{query.name} missed {len(missed)} of {len(query.results)} results",
                ),
                plan=(Fact("results leave", "with every batch"), Fact("output mode", "append")),
                stages=(
                    StageView("0.0", 0.12, 0.02, 0.08, 2, 0.2),
                    StageView("0.1", 0.05, 0.01, 0.03, 2, 0.1, ("0.0",)),
                ),
                phases={"running": 0.1, "planning": 0.05},
            )

    def timeline(self, seconds: float) -> Timeline:
        now = self._clock.now()
        with self._lock:
            bars = [
                Bar(q.name, q.tenant, "running", at - latency / 2, at, number, "0.0", 2)
                for q in self.queries.values()
                for number, (at, latency, _) in enumerate(q.results)
                if at >= now - seconds
            ]
        return Timeline(now, seconds, tuple(bars))

    def set_target(self, name: str, target: float | None) -> None:
        with self._lock:
            self._find(name).target = target

    def set_paused(self, name: str, paused: bool) -> None:
        with self._lock:
            self._find(name).paused = paused

    def set_cap(self, tenant: str, *, slots: int | None, share: float | None) -> None:
        with self._lock:
            if tenant not in self._tenants():
                raise RefusedError(f"no query belongs to tenant {tenant!r}")
            if slots is None and share is None:
                self.caps.pop(tenant, None)
            else:
                self.caps[tenant] = slots if slots is not None else float(share or 0.0)

    # Control, for what the API does with it.

    def control(self, name: str) -> Control:
        found = self._find(name)
        return Control(found.name, {"A": "10L"}, {"pace": 0.0}, 2, (0, 7), None, tuple(self.done))

    def operate(
        self, name: str, operation: str, arguments: Mapping[str, Any], by: str
    ) -> Operation:
        self._find(name)
        if operation not in ("change", "undo"):
            raise RefusedError(f"there is no operation {operation!r}; there are change, undo")
        number = len(self.done) + 1
        at = self._clock.now()
        self.done.append(Operation(f"{name}#{number}", operation, by, at, 0.1, 8, arguments))
        return self.done[-1]
