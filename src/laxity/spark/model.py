"""What Laxity knows of one query, learned batch by batch, and what follows from it.

Pure: reports in, decisions out. The JVM side is in java/, the clock in the loop.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from laxity.core.cost_line import CostLine
from laxity.core.costs import CostProfile
from laxity.core.policies import Policy, Situation
from laxity.core.progress import EventTimeMap
from laxity.semantics import Semantics
from laxity.spark.batches import StageCost, spans, stage_costs, unobstructed
from laxity.spark.latency import ArrivalModel, LatencyLog, Result
from laxity.spark.settings import Settings
from laxity.spark.sizing import BatchSizer
from laxity.spark.wire import BatchDone, QueryDecision, StageDone

_HISTORY = 300
_BATCHES_BEFORE_PACING = 8
_MOST_PARTS = 6
"""A window is worked off in at most so many batches."""
_LEFT_FOR_LAST = 0.25
"""The share of a target that the rows of a window's last batch may take; what goes beyond is worked
off before."""
_ROWS_TO_FIXED = 4.0
"""A limited batch still spends so many times its fixed cost on rows."""
_SMALL_BATCH = 5000
"""Rows up to which a batch is cheaper interpreted than with code generated for it."""
_WELL_PREDICTED = 0.05
"""An error of the progress map, as a share of the target, below which frontiers are waited for."""


@dataclass(slots=True)
class StageProfile:
    """The running costs of one stage of the plan."""

    cost: CostProfile = field(default_factory=CostProfile)
    path_cost: CostProfile = field(default_factory=CostProfile)
    task: CostProfile = field(default_factory=CostProfile)
    tasks: int = 1
    parents: tuple[str, ...] = ()

    def learn(self, seen: StageCost) -> None:
        self.cost.update(seen.cost)
        self.path_cost.update(seen.path_cost)
        self.task.update(seen.task_seconds / max(1, seen.tasks))
        self.tasks, self.parents = seen.tasks, seen.parents


@dataclass(slots=True)
class RateMeter:
    """Rows a second over the last minute."""

    batches: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=600))
    since: float | None = None

    def add(self, at: float, rows: int) -> None:
        if self.since is None:
            self.since = at
        self.batches.append((at, rows))

    def per_second(self, now: float) -> float:
        start = max(now - 60.0, self.since or now)
        if now - start < 1e-3:
            return 0.0
        return sum(rows for at, rows in self.batches if at >= start) / (now - start)


class QueryModel:
    def __init__(
        self,
        query_id: str,
        name: str,
        *,
        settings: Settings,
        target: float | None = None,
        tenant: str = "default",
        semantics: Semantics | None = None,
    ) -> None:
        self.id = query_id
        self.run = ""
        """The run it was last seen in: a query keeps its id over restarts."""
        self.name = name
        self.target = target
        self.tenant = tenant
        self.paused = False
        self.semantics = semantics
        self.settings = settings
        self.state = "starting"
        self.state_since = 0.0
        self.unmanaged: str | None = None
        self.error = ""
        self.progress = EventTimeMap()
        self.arrivals = ArrivalModel()
        self.log = LatencyLog(settings.latency_period)
        self.stages: dict[str, StageProfile] = {}
        self.batch_cost = CostProfile()
        """A batch with data, had it found its slots free."""
        self.cost_line = CostLine()
        """The same by its rows; that of a batch without any is what emitting a window takes."""
        self.batch_work = CostProfile()
        self.interval = CostProfile()
        self.rows = CostProfile()
        self.rate = RateMeter()
        self.last_batch: BatchDone | None = None
        self.last_rows = 0
        self.total_rows = 0
        self.history: deque[tuple[BatchDone, list[StageDone]]] = deque(maxlen=_HISTORY)
        """The last batches with their stages, for the timeline."""
        self.batches = 0
        self._behind = 0
        """Batches in a row that left something for the next: once may be chance."""
        self.sizer = BatchSizer(settings.quantum, self._limit_unit(), 0)
        self._pending_limit: int | None = None
        self._decision: tuple[tuple[object, ...], QueryDecision] | None = None
        self._stages: dict[int, list[StageDone]] = defaultdict(list)

    def _limit_unit(self) -> str | None:
        if self.semantics is None or not self.settings.size:
            return None
        if not self.semantics.paced_by_laxity:
            return None  # how much such a batch takes is part of what its trigger promises
        units = {source.limit_by for source in self.semantics.sources}
        only = units.pop() if len(units) == 1 else None
        return only if only in ("rows", "files") else None

    def read(self, semantics: Semantics) -> None:
        self.semantics = semantics
        self.sizer.unit = self._limit_unit()

    # Learning.

    def stage_done(self, stage: StageDone) -> None:
        self._stages[stage.batch].append(stage)

    def batch_done(self, batch: BatchDone, *, urgent_others: bool) -> list[Result]:
        """A batch's report; its stages have come before. Returns the results it emitted."""
        stages = self._stages.pop(batch.batch, [])
        for old in [b for b in self._stages if b < batch.batch]:
            del self._stages[old]
        before, self.last_batch = self.last_batch, batch
        self.history.append((batch, stages))
        self.batches += 1
        self._behind = self._behind + 1 if batch.backlog else 0
        self._learn_costs(batch, stages)
        self._learn_progress(batch)
        self.arrivals.note(batch)
        if before is not None:
            self.interval.update(max(0.0, batch.started - before.started))
        if batch.rows:
            self.last_rows = batch.rows
            self.total_rows += batch.rows
            self.rows.update(float(batch.rows))
            self.rate.add(batch.ended, batch.rows)
            if self._pending_limit is None:  # else no batch has run under that one yet
                self._pending_limit = self._resize(batch, stages, urgent_others)
        window = self.semantics.window if self.semantics else None
        return self.log.add_batch(
            batch,
            spans(batch, stages),
            target=self.target,
            arrivals=self.arrivals.results(
                batch,
                window=window,
                watermark_before=before.event_time.get("watermark") if before else None,
                line=self.progress.line(),
            ),
        )

    def _learn_costs(self, batch: BatchDone, stages: Sequence[StageDone]) -> None:
        took = unobstructed(batch, stages)
        self.cost_line.update(batch.rows, took)
        if batch.rows == 0:
            return
        self.batch_cost.update(took)
        self.batch_work.update(sum(stage.task_seconds for stage in stages))
        tail = max(0.0, batch.ended - max((s.done for s in stages), default=batch.ended))
        for position, seen in stage_costs(stages, tail).items():
            self.stages.setdefault(position, StageProfile()).learn(seen)

    def _learn_progress(self, batch: BatchDone) -> None:
        """The newest event of a batch that took all there was arrived when offsets were read."""
        newest = batch.event_time.get("max")
        if batch.rows and newest is not None and not batch.backlog:
            self.progress.observe(newest, batch.started)

    def _resize(
        self, batch: BatchDone, stages: Sequence[StageDone], urgent_others: bool
    ) -> int | None:
        return self.sizer.after_batch(
            rows=batch.rows,
            longest_task=max((s.longest_task for s in stages), default=0.0),
            backlog=batch.backlog,
            worthwhile=self._worthwhile_rows(),
            constrained=urgent_others and not self.is_urgent,
        )

    def _worthwhile_rows(self) -> int:
        """Below this a batch mostly pays its fixed cost."""
        line = self.cost_line
        return int(_ROWS_TO_FIXED * line.fixed / line.per_row) if line.per_row > 0 else 0

    # Deciding.

    @property
    def effective_target(self) -> float:
        return self.target if self.target is not None else self.settings.best_effort

    @property
    def is_urgent(self) -> bool:
        """Must its answers come within moments, so that others make room?"""
        return self.target is not None and self.target <= self.settings.horizon

    @property
    def emission(self) -> float:
        """What follows a data batch before its window's result is out."""
        windowed = self.semantics is not None and self.semantics.window is not None
        return self.cost_line.fixed if windowed else 0.0

    def decide(self, policy: Policy, *, token_rate: float = 0.0) -> QueryDecision:
        """The same object until a batch, or the user, gives a reason for another."""
        limit, self._pending_limit = self._pending_limit, None
        reasons = (
            *(self.batches, self.target, self.tenant, self.paused, token_rate),
            *(id(policy), id(self.semantics)),
        )
        if limit is None and self._decision is not None and self._decision[0] == reasons:
            return self._decision[1]
        decision = self._decide(policy, token_rate, limit)
        # A limit is told once; what is kept must not repeat it.
        kept = decision if limit is None else replace(decision, source_limit=None)
        self._decision = reasons, kept
        return decision

    def _decide(self, policy: Policy, token_rate: float, limit: int | None) -> QueryDecision:
        batch = self.batch_cost.mean
        rule = policy.rule(self._situation(batch, self.emission))
        offsets = {
            at: policy.rule(
                self._situation(stage.cost.mean, stage.path_cost.mean + self.emission)
            ).offset
            for at, stage in self.stages.items()
        }
        return QueryDecision(
            id=self.id,
            tenant=self.tenant,
            rule=rule,
            stage_offsets=offsets,
            batch_offset=self._latest_start(),
            urgent=self.is_urgent,
            paused=self.paused,
            max_hold=self.settings.max_hold,
            pace=min(0.2, 0.02 * self.effective_target),
            step=self._step(),
            margin=0.01 + 2 * self.progress.error(),
            takes=batch,
            interpreted=self._is_small(),
            batch_work=self.batch_work.mean,
            token_rate=token_rate,
            source_limit=limit,
        )

    def _situation(self, cost: float, path_cost: float) -> Situation:
        window = self.semantics.window if self.semantics else None
        return Situation(self.effective_target, cost, path_cost, window, self.progress.line())

    def _step(self) -> float:
        """Seconds between the starts of an urgent query's batches, counted back from the moment
        its window is complete. As few batches as leave the last one small enough: each costs its
        fixed part, which others could use. Zero to start whenever there is data."""
        line, window = self.cost_line, self.semantics.window if self.semantics else None
        if not self.is_urgent or window is None or line.count < _BATCHES_BEFORE_PACING:
            return 0.0
        if self.last_batch is None or self._behind > 1:
            return 0.0
        if self.progress.error() > _WELL_PREDICTED * self.effective_target:
            return 0.0
        rows = self.rate.per_second(self.last_batch.ended) * window.slide
        parts = math.ceil(line.per_row * rows / (_LEFT_FOR_LAST * self.effective_target))
        return window.slide / min(max(1, parts), _MOST_PARTS)

    def _is_small(self) -> bool:
        """Are its batches so small that generating code costs more than it saves? Not asked of a
        query that reads tables beside its streams: nobody knows how large they are."""
        if not self.settings.interpret or self.semantics is None:
            return False
        if not self.semantics.only_streams or self.rows.count < _BATCHES_BEFORE_PACING:
            return False
        return max(self.rows.mean, float(self.last_rows)) <= _SMALL_BATCH

    def _latest_start(self) -> float:
        """How long after its due event the next batch may start: the target less what the batch
        takes, with room for its spread and a tenth of the target for what nobody foresaw."""
        takes = self.batch_cost.mean + self.emission
        return 0.9 * self.effective_target - 1.5 * takes - 3 * self.batch_cost.spread
