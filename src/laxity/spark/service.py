"""An attached Spark as the server's `Service`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from laxity import __version__
from laxity.control.errors import ControlError
from laxity.control.ledger import Entry
from laxity.semantics import Semantics
from laxity.server.control import Control, HeavyKey, Keys, Operation
from laxity.server.service import NotFoundError, RefusedError, UnavailableError
from laxity.server.views import (
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
from laxity.spark.batches import Phase, names
from laxity.spark.control.change import SETTINGS
from laxity.spark.control.query import QueryControl
from laxity.spark.control.remote import operate
from laxity.spark.controller import Controller, overload
from laxity.spark.errors import InvalidCapError, NotAttachedError, UnknownQueryError
from laxity.spark.latency import BUCKETS, LatencySummary, Result
from laxity.spark.model import QueryModel
from laxity.spark.query import explain_misses
from laxity.spark.session import Laxity
from laxity.spark.status import QueryStatus
from laxity.spark.timeline import bars

_T = TypeVar("_T")

_TREND = 40
_POINTS = 1500
"""Results that a page shows at most: a screen has no more dots."""
_SUMMARY_AGE = 5.0
"""A summary without new results is kept so long, though some of its results may have expired."""


@dataclass(frozen=True, slots=True)
class Supervision:
    """What a supervisor knows of a query that Spark does not: it is to run again."""

    restarts: int = 0
    state: str = ""
    """"restarting" or "failed" while it does not run, else empty."""
    error: str = ""
    target: float | None = None
    tenant: str = "default"


class SparkService:
    def __init__(
        self, laxity: Laxity, supervised: Callable[[], Mapping[str, Supervision]] | None = None
    ) -> None:
        self._laxity = laxity
        self._supervised = supervised or dict
        self._views: dict[str, tuple[tuple[object, ...], float, QueryView]] = {}

    # Looking.

    def overview(self) -> Overview:
        status = self._attached(self._laxity.status)
        with self._laxity.looking() as controller:
            now = self._laxity.now()
            queries = self._queries(controller, now)
            return Overview(
                at=now,
                application=self._laxity.application,
                policy=controller.policy.name,
                cores=controller.capacity.cores,
                reserved=controller.capacity.reserved,
                queries=queries,
                tenants=_tenants(queries, controller.caps),
                overload=overload(controller.models.values(), now),
                notices=status.notices,
                loop_alive=status.loop_alive,
                loop_cpu=status.loop_cpu,
                buckets=BUCKETS,
                version=__version__,
            )

    def _queries(self, controller: Controller, now: float) -> tuple[QueryView, ...]:
        supervised = dict(self._supervised())
        found = []
        for model in (*controller.models.values(), *controller.ended()):
            view = self._view(model, controller, now)
            above = supervised.pop(model.name, None)
            if above is not None:
                view = _under_supervision(view, above)
            found.append(view)
        for name, above in supervised.items():  # it never got as far as Spark
            view = QueryView(name, tenant=above.tenant, target=above.target)
            found.append(_under_supervision(view, above))
        return tuple(found)

    def _view(self, model: QueryModel, controller: Controller, now: float) -> QueryView:
        """Percentiles cost most, and change with batches only."""
        reason = (model.batches, model.target, model.tenant, id(model))
        kept = self._views.get(model.id)
        if kept is None or kept[0] != reason or now - kept[1] > _SUMMARY_AGE:
            kept = reason, now, _summarised(model, controller, now)
            self._views[model.id] = kept
            if len(self._views) > 1000:
                self._views.pop(next(iter(self._views)))
        return _current(kept[2], model, controller, now)

    def detail(self, name: str) -> QueryDetail:
        with self._laxity.looking() as controller:
            now = self._laxity.now()
            view = self._named(controller, name, now)
            if not view.id:
                return QueryDetail(now, view)
            model = controller.named(view.id)
            results = model.log.recent(now)
            known = controller.names()
            return QueryDetail(
                at=now,
                query=view,
                points=_points(results[-_POINTS:]),
                misses=_misses(model, results, known),
                plan=_facts(model.semantics),
                notes=() if model.semantics is None else model.semantics.notes,
                stages=_stages(model),
                phases=_phases(results),
            )

    def _named(self, controller: Controller, name: str, now: float) -> QueryView:
        self._attached(lambda: None)
        views = self._queries(controller, now)
        for view in views:
            if name in (view.name, view.id):
                return view
        known = ", ".join(v.name for v in views) or "none"
        raise NotFoundError(f"no query is named so; there are: {known}")

    def timeline(self, seconds: float) -> Timeline:
        self._attached(lambda: None)
        with self._laxity.looking() as controller:
            now = self._laxity.now()
            models = (*controller.models.values(), *controller.ended())
            return Timeline(now, seconds, bars(models, now, seconds, controller.names()))

    # Changing.

    def set_target(self, name: str, target: float | None) -> None:
        self._changing(lambda: self._laxity.set_target(name, target))

    def set_paused(self, name: str, paused: bool) -> None:
        change = self._laxity.pause if paused else self._laxity.resume
        self._changing(lambda: change(name))

    def set_cap(self, tenant: str, *, slots: int | None, share: float | None) -> None:
        self._changing(lambda: self._laxity.set_cap(tenant, slots, share=share))

    def control(self, name: str) -> Control:
        query = self._controlled(name)
        found, committed = query.monitoring(), query.files.committed()
        return Control(
            query=query.name,
            variables=query.variables(),
            settings={setting: query.setting(setting) for setting in SETTINGS},
            partitions=query.partitions(),
            batches=(committed[0], committed[-1]) if committed else (),
            keys=None
            if found is None
            else Keys(
                found.batch,
                found.rows,
                found.keys,
                tuple(HeavyKey(k.key, k.rows, k.share) for k in found.heaviest),
                found.lag,
            ),
            history=tuple(map(as_operation, query.history())),
        )

    def operate(
        self, name: str, operation: str, arguments: Mapping[str, Any], by: str
    ) -> Operation:
        query = self._controlled(name)
        try:
            return as_operation(operate(query, operation, arguments, by))
        except ControlError as error:
            raise RefusedError(str(error)) from error

    def _controlled(self, name: str) -> QueryControl:
        try:
            return self._attached(lambda: self._laxity.control(name))
        except UnknownQueryError as error:
            raise NotFoundError(str(error)) from error

    def _changing(self, change: Callable[[], None]) -> None:
        try:
            self._attached(change)
        except UnknownQueryError as error:
            raise NotFoundError(str(error)) from error
        except InvalidCapError as error:
            raise RefusedError(str(error)) from error

    def _attached(self, call: Callable[[], _T]) -> _T:
        if self._laxity.stopped:
            raise UnavailableError("the Spark session has stopped")
        try:
            return call()
        except NotAttachedError as error:
            raise UnavailableError("the Spark session has stopped") from error


def as_operation(entry: Entry) -> Operation:
    result = dict(entry.result or {})
    return Operation(
        id=entry.id,
        name=entry.name.removeprefix("spark-"),
        by=entry.by,
        at=entry.started_at,
        took=None if entry.ended_at is None else entry.ended_at - entry.started_at,
        batch=result.pop("batch", None),
        arguments=entry.arguments,
        result={key: value for key, value in result.items() if key != "undo"},
    )


def _latency(summary: LatencySummary) -> Latency:
    return Latency(
        summary.count,
        *(summary.p50, summary.p95, summary.p99, summary.maximum, summary.met),
        summary.period,
        summary.arrival,
        summary.error,
    )


def _summarised(model: QueryModel, controller: Controller, now: float) -> QueryView:
    status = QueryStatus.of(model, now, controller.names())
    log, recent = model.log, model.log.recent(now)
    behind: dict[str, float] = defaultdict(float)
    for result in recent:
        for who, seconds in result.behind.items():
            behind[who] += seconds
    return QueryView(
        name=model.name,
        id=model.id,
        tenant=model.tenant,
        target=model.target,
        latency=_latency(status.latency),
        rows_per_batch=status.rows_per_batch,
        batch_seconds=status.batch_seconds,
        behind=names(behind, controller.names()),
        overloaded=status.overloaded,
        trend=tuple(r.latency for r in recent[-_TREND:]),
        totals=Totals(
            results=log.total,
            met=log.total_met,
            rows=model.total_rows,
            batches=model.batches,
            latency_sum=log.total_seconds,
            latency_counts=tuple(log.counts),
            phases={phase.value: s for phase, s in log.total_phases.items()},
        ),
    )


def _current(view: QueryView, model: QueryModel, controller: Controller, now: float) -> QueryView:
    """What changes from moment to moment, on top of what was summarised."""
    laxity = None
    if model.target is not None and model.last_batch is not None:
        waited = now - model.last_batch.started
        laxity = model.target - model.batch_cost.mean - model.emission - waited
    state = model.state
    if model.unmanaged:
        state = f"left alone: {model.unmanaged}"
    elif model.paused and state not in ("failed", "stopped"):
        state = "paused"
    return replace(
        view,
        state=state,
        paused=model.paused,
        laxity=laxity,
        rows_per_second=model.rate.per_second(now),
        limit=model.sizer.limit,
        running_tasks=controller.capacity.running.get(model.id, 0),
        waiting_tasks=controller.capacity.waiting.get(model.id, 0),
        error=model.error,
    )


def _under_supervision(view: QueryView, above: Supervision) -> QueryView:
    totals = replace(view.totals, restarts=above.restarts)
    if above.state and view.state in ("starting", "failed", "stopped"):
        return replace(view, state=above.state, error=above.error, totals=totals)
    return replace(view, totals=totals)


def _tenants(
    queries: Iterable[QueryView], caps: Mapping[str, int | float]
) -> tuple[TenantView, ...]:
    members: dict[str, list[QueryView]] = defaultdict(list)
    for query in queries:
        members[query.tenant].append(query)
    found = []
    for name, mine in sorted(members.items()):
        promised = [q for q in mine if q.target is not None and q.latency.met is not None]
        results = sum(q.latency.count for q in promised)
        met = sum((q.latency.met or 0.0) * q.latency.count for q in promised)
        cap = caps.get(name)
        found.append(
            TenantView(
                name,
                queries=len(mine),
                running_tasks=sum(q.running_tasks for q in mine),
                waiting_tasks=sum(q.waiting_tasks for q in mine),
                rows_per_second=sum(q.rows_per_second for q in mine),
                met=met / results if results else None,
                cap_slots=cap if isinstance(cap, int) else None,
                cap_share=cap if isinstance(cap, float) else None,
            )
        )
    return tuple(found)


def _points(results: list[Result]) -> Points:
    return Points(
        tuple(r.emitted for r in results),
        tuple(r.latency for r in results),
        tuple(r.target for r in results),
    )


def _phases(results: list[Result]) -> dict[str, float]:
    total: dict[Phase, float] = defaultdict(float)
    for result in results:
        for phase, seconds in result.phases.items():
            total[phase] += seconds / len(results)
    return {phase.value: total[phase] for phase in Phase if phase in total}


def _misses(model: QueryModel, results: list[Result], known: dict[str, str]) -> Misses:
    missed = [r for r in results if not r.met]
    explanation = explain_misses(model.name, results, known, model.target)
    if not missed:
        return Misses(0, len(results), explanation=explanation)
    behind: dict[str, float] = defaultdict(float)
    for result in missed:
        for who, seconds in result.behind.items():
            behind[who] += seconds / len(missed)
    return Misses(
        len(missed),
        len(results),
        sum(r.latency for r in missed) / len(missed),
        _phases(missed),
        names(behind, known),
        explanation,
    )


def _facts(semantics: Semantics | None) -> tuple[Fact, ...]:
    return () if semantics is None else tuple(Fact(*fact) for fact in semantics.facts())


def _stages(model: QueryModel) -> tuple[StageView, ...]:
    return tuple(
        StageView(
            at,
            stage.cost.mean,
            stage.cost.spread,
            stage.path_cost.mean,
            stage.tasks,
            stage.task.mean,
            stage.parents,
        )
        for at, stage in sorted(model.stages.items())
    )
