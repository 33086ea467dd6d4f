"""The decisions of one attachment: reports in, decisions out. Pure; the loop feeds it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from laxity.core.durations import format_duration
from laxity.core.policies import Policy
from laxity.spark.errors import UnknownQueryError
from laxity.spark.latency import Result
from laxity.spark.model import QueryModel
from laxity.spark.settings import Settings
from laxity.spark.wire import Decisions, Report, StreamSeen

log = logging.getLogger("laxity")

_RESULTS_BEFORE_JUDGING = 20


@dataclass
class Capacity:
    cores: int = 0
    reserved: int = 0
    driver_cores: int = 1
    running: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    sorts: int = 0
    sort_nanos: int = 0
    exchange_nanos: int = 0


class Controller:
    """Knows every query, what each was promised, and what to tell the hooks next."""

    def __init__(self, policy: Policy, settings: Settings, *, driver_cores: int = 1) -> None:
        self.policy = policy
        self.settings = settings
        self.models: dict[str, QueryModel] = {}
        self.caps: dict[str, int | float] = {}
        """Slots (an int) or a share of the cores (a float) a tenant may use at a time."""
        self.shares: dict[str, float] = {}
        """Token shares of tenants, for policies that share by tokens."""
        self.capacity = Capacity(driver_cores=driver_cores)
        self.on_result: Callable[[QueryModel, Result], None] | None = None
        self._told: set[str] = set()
        self._notices: dict[str, str] = {}
        self._ended: dict[str, QueryModel] = {}

    # Looking up.

    def named(self, name: str) -> QueryModel:
        for model in (*self.models.values(), *reversed(self._ended.values())):
            if name in (model.name, model.id):
                return model
        known = ", ".join(sorted(m.name for m in self.models.values())) or "none"
        raise UnknownQueryError(f"no query is named {name!r}; running are: {known}")

    def ended(self) -> list[QueryModel]:
        """Queries that have ended and were not started again, the last one last."""
        running = {m.name for m in self.models.values()}
        last = {m.name: m for m in self._ended.values() if m.name not in running}
        return list(last.values())

    def names(self) -> dict[str, str]:
        return {m.id: m.name for m in (*self._ended.values(), *self.models.values())}

    def add(self, model: QueryModel) -> None:
        self.models[model.id] = model

    # Events in.

    def handle(self, report: Report, now: float) -> list[StreamSeen]:
        """Take in a report. Returns streams nobody knows yet: their semantics are to be read."""
        capacity = self.capacity
        capacity.cores, capacity.reserved = report.cores, report.reserved
        capacity.running, capacity.waiting = report.running, report.waiting
        capacity.sorts, capacity.sort_nanos = report.sorts, report.sort_nanos
        capacity.exchange_nanos = report.exchange_nanos
        for notice in report.notices:
            self.tell(notice.message, key=notice.key)
        unknown = [seen for seen in report.streams if seen.id not in self.models]
        for seen in report.streams:
            model = self.models.get(seen.id)
            if model is not None:
                model.run = seen.run
                model.state, model.state_since = seen.state, seen.since
                model.unmanaged = seen.unmanaged
        for stage in report.stages:
            if stage.id in self.models:
                self.models[stage.id].stage_done(stage)
        urgent = [m for m in self.models.values() if m.is_urgent]
        for batch in report.batches:
            model = self.models.get(batch.id)
            if model is None:
                continue
            others = any(u is not model for u in urgent)
            for result in model.batch_done(batch, urgent_others=others):
                if self.on_result is not None:
                    self.on_result(model, result)
            self._judge_target(model)
        for ended in report.ended:
            model = self.models.get(ended.id)
            if model is not None and model.run in ("", ended.run):  # not an earlier run
                self._retire(ended.id, ended.error)
        alive = {seen.id for seen in report.streams}
        for gone in [i for i, m in self.models.items() if i not in alive and m.run]:
            self._retire(gone, "")
        return unknown

    def _retire(self, query_id: str, error: str) -> None:
        model = self.models.pop(query_id, None)
        if model is None:
            return
        self.withdraw(f"floor {query_id}")
        model.state, model.error = ("failed" if error else "stopped"), error
        self._ended[query_id] = model
        while len(self._ended) > 200:
            self._ended.pop(next(iter(self._ended)))

    def _judge_target(self, model: QueryModel) -> None:
        """A target no result has ever met: say so, with the floor. Below it no order of work
        helps; above it, others are in the way."""
        log = model.log
        if model.target is None or log.fastest is None or log.floor is None:
            return
        if log.total < _RESULTS_BEFORE_JUDGING or log.fastest <= model.target:
            self.withdraw(f"floor {model.id}")
            return
        fastest, floor = format_duration(log.fastest), format_duration(log.floor)
        if log.floor > model.target:
            why = f"took {floor} by itself: a target below that cannot be met"
        else:
            why = f"took {fastest}, {floor} of it by itself: others are in its way"
        self.tell(
            f"query {model.name!r} has not met its target of {format_duration(model.target)} "
            f"once in {log.total} results; its fastest {why}",
            key=f"floor {model.id} {model.target}",
        )

    def tell(self, message: str, *, key: str) -> None:
        """Say it once."""
        if key not in self._told:
            self._told.add(key)
            self._notices[key] = message
            log.warning(message)

    def withdraw(self, prefix: str) -> None:
        """It no longer holds. What was said is not said again."""
        for key in [key for key in self._notices if key.startswith(prefix)]:
            del self._notices[key]

    @property
    def notices(self) -> tuple[str, ...]:
        """What was said and still holds."""
        return tuple(self._notices.values())

    # Decisions out.

    def decide(self) -> Decisions:
        s = self.settings
        cores = self.capacity.cores
        return Decisions(
            queries=tuple(
                m.decide(self.policy, token_rate=self._tokens(m)) for m in self.models.values()
            ),
            caps={tenant: self._slots(cap) for tenant, cap in self.caps.items()},
            order=s.order,
            gate=s.moment,
            reserve=self._reserve(),
            horizon=s.horizon,
            planners=s.planners or max(1, self.capacity.driver_cores // 4),
            best_effort=s.best_effort,
            stale_after=s.stale_after if cores else max(s.stale_after, 5.0),
        )

    def _reserve(self) -> int:
        """Two extra slots an executor, or a quarter of a large one's cores. None while nobody
        urgent is there: extra slots would only be overcommitment."""
        if not any(m.is_urgent for m in self.models.values()):
            return 0
        if self.settings.reserve is not None:
            return self.settings.reserve
        return 2

    def _slots(self, cap: int | float) -> int:
        if isinstance(cap, int):
            return cap
        return max(1, int(cap * max(1, self.capacity.cores)))

    def _tokens(self, model: QueryModel) -> float:
        """A tenant's tokens: its share of the cores, in task-seconds a second. Tenants nobody
        gave a share have equal ones of what is left."""
        if not self.policy.needs_tokens:
            return 0.0
        tenants = {m.tenant for m in self.models.values()}
        given = sum(self.shares.get(t, 0.0) for t in tenants)
        others = [t for t in tenants if t not in self.shares]
        rest = max(0.0, 1.0 - given) / len(others) if others else 0.0
        return max(1e-3, self.shares.get(model.tenant, rest) * max(1, self.capacity.cores))


def overload(models: Iterable[QueryModel], now: float) -> float | None:
    """How far the worst of the queries that miss targets is over: its p95 as a multiple of its
    target. None while each meets nine in ten."""
    worst: float | None = None
    for model in models:
        if model.target is None:
            continue
        summary = model.log.summary(now, model.target, 0.0)
        if summary.count < 5 or summary.p95 is None or (summary.met or 0.0) >= 0.9:
            continue
        over = summary.p95 / model.target
        if worst is None or over > worst:
            worst = over
    return worst
