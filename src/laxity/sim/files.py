"""`laxity simulate` files: YAML, TOML, or a recording of a real run.

nodes: 2
cores: 4                      # of each node
scheduler: cameo              # or fifo, orleans, slots
policy: llf                   # for cameo: any installed policy
queries:
  - name: alerts
    target: 800ms
    rate: 50000               # rows a second, all sources together
    batch: 500ms              # how often each source sends what it has
    window: 1s                # none: every batch gives a result
    slide: 1s
    stages:
      - {name: scan, parallelism: 4, cost: 2ms, per_row: 2us}
      - {name: sum, parallelism: 1, cost: 1ms, per_row: 4us, windowed: true}
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from laxity import recording
from laxity.core.errors import LaxityError
from laxity.core.jobs import Job, Stage
from laxity.core.windows import Window
from laxity.plugins import load_policy
from laxity.sim.cluster import Cluster
from laxity.sim.dataflow import Dataflow, SourceSpec, StageCost
from laxity.sim.located import Located, load
from laxity.sim.schedulers import Cameo, Fifo, Orleans, Scheduler, Slots

BEST_EFFORT = 86_400.0
"""The target that a query without one gets: a day."""

_SCHEDULERS = ("cameo", "fifo", "orleans", "slots")
_DEFAULT_BATCH = 0.5
_DELAY = 0.01
"""Seconds from the last event of a batch to its arrival; latencies count from the arrival."""


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A query, at any load: `flow(1.0)` is as described, `flow(2.0)` with twice the rows."""

    job: Job
    costs: dict[str, StageCost]
    rate: float
    batch: float
    has_target: bool
    rates: tuple[tuple[float, float], ...] = ()
    """(time, rows a second) where the rate varies; repeated from its start when it ends."""

    def flow(self, load: float) -> Dataflow:
        sources: dict[str, tuple[SourceSpec, ...]] = {}
        width = sum(self.job.stages[name].parallelism for name in self.job.sources)
        rows = self.rate * load * self.batch / width
        volume = _Replay(self.rates, load * self.batch / width) if self.rates else None
        index = 0
        for name in self.job.sources:
            specs = []
            for _ in range(self.job.stages[name].parallelism):
                phase = index * 0.6180339887 % 1.0
                index += 1
                specs.append(
                    SourceSpec(rows, self.batch, delay=_DELAY + phase * self.batch * 0.5,
                               jitter=self.batch * 0.1, volume=volume)
                )  # fmt: skip
            sources[name] = tuple(specs)
        return Dataflow(self.job, self.costs, sources, group=self.job.name)


class _Replay:
    """Rows of a batch from recorded rates."""

    def __init__(self, rates: tuple[tuple[float, float], ...], scale: float) -> None:
        self._times = [at - rates[0][0] for at, _ in rates]
        self._rates = [rate for _, rate in rates]
        self._scale = scale
        self._length = self._times[-1] + (self._times[-1] / max(1, len(rates) - 1) or 1.0)

    def __call__(self, random: Random, progress: float) -> float:
        at = bisect_right(self._times, progress % self._length) - 1
        return self._rates[at] * self._scale


@dataclass(frozen=True, slots=True)
class Scenario:
    cluster: Cluster
    queries: tuple[QueryPlan, ...]
    scheduler: str = "cameo"
    policy: str = "llf"
    duration: float | None = None

    def make_scheduler(self) -> Scheduler:
        if self.scheduler == "cameo":
            return Cameo(load_policy(self.policy), name=f"cameo ({self.policy})")
        plain: dict[str, type[Scheduler]] = {"fifo": Fifo, "orleans": Orleans, "slots": Slots}
        return plain[self.scheduler]()

    @property
    def longest_window(self) -> float:
        windows = [
            stage.window.size + stage.window.delay
            for query in self.queries
            for stage in query.job.stages.values()
            if stage.window is not None
        ]
        return max(windows, default=0.0)


def read_scenario(path: str | Path) -> Scenario:
    path = Path(path)
    if path.is_file() and recording.is_recording(path):
        return from_recording(recording.read(path), str(path))
    return _scenario(load(path))


def _scenario(root: Located) -> Scenario:
    root.table("nodes", "cores", "scheduler", "policy", "duration", "mailbox", "queries")
    cluster = Cluster(nodes=_count(root, "nodes", 1), workers=root.need("cores").count())
    if (mailbox := root.get("mailbox")) is not None:
        cluster = replace(cluster, mailbox=mailbox.count())
    queries = tuple(_query(item) for item in root.need("queries").items())
    seen: set[str] = set()
    for item, query in zip(root.need("queries").items(), queries, strict=True):
        if query.job.name in seen:
            raise item.need("name").error(
                f"is {query.job.name!r}, which is taken; names are unique"
            )
        seen.add(query.job.name)
    scheduler = "cameo"
    if (given := root.get("scheduler")) is not None:
        scheduler = given.text()
        if scheduler not in _SCHEDULERS:
            raise given.error(f"is {scheduler!r}; there are {', '.join(_SCHEDULERS)}")
    policy = "llf"
    if (given := root.get("policy")) is not None:
        policy = given.text()
        try:
            load_policy(policy)
        except LaxityError as error:
            raise given.error(str(error)) from error
    duration = root.get("duration")
    return Scenario(
        cluster, queries, scheduler, policy, duration.duration(positive=True) if duration else None
    )


def _count(table: Located, name: str, default: int) -> int:
    given = table.get(name)
    return default if given is None else given.count()


def _seconds(table: Located, name: str, default: float, *, positive: bool = False) -> float:
    given = table.get(name)
    return default if given is None else given.duration(positive=positive)


def _query(item: Located) -> QueryPlan:
    item.table("name", "tenant", "target", "rate", "batch", "window", "slide", "delay", "stages")
    name = item.need("name").text()
    window: Window | None = None
    if (size := item.get("window")) is not None:
        length = size.duration(positive=True)
        slide = _seconds(item, "slide", length, positive=True)
        if slide > length:
            raise item.need("slide").error(f"must be at most the window of {length:g} s")
        window = Window(length, slide, delay=_seconds(item, "delay", 0.0))
    else:
        for field in ("slide", "delay"):
            if (given := item.get(field)) is not None:
                raise given.error("needs a window")
    stages, costs, edges = _stages(item.need("stages"), window)
    target = item.get("target")
    tenant = item.get("tenant")
    try:
        job = Job.of(
            name,
            BEST_EFFORT if target is None else target.duration(positive=True),
            stages,
            edges,
            tenant="default" if tenant is None else tenant.text(),
        )
    except LaxityError as error:
        raise item.need("stages").error(str(error)) from error
    batch = _seconds(item, "batch", _DEFAULT_BATCH, positive=True)
    rate = item.need("rate").number(above=0.0)
    return QueryPlan(job, costs, rate, batch, target is not None)


def _stages(
    listed: Located, window: Window | None
) -> tuple[list[Stage], dict[str, StageCost], list[tuple[str, str]] | None]:
    stages: list[Stage] = []
    costs: dict[str, StageCost] = {}
    edges: list[tuple[str, str]] = []
    explicit = False
    items = list(listed.items())
    names = [item.table(*_STAGE_FIELDS).need("name").text() for item in items]
    for item, name in zip(items, names, strict=True):
        windowed = item.get("windowed")
        own = None
        if windowed is not None and windowed.flag():
            if window is None:
                raise windowed.error("needs the query to have a window")
            own = window
        if name in costs:
            raise item.need("name").error(f"is {name!r}, which is taken; names are unique")
        stages.append(Stage(name, _count(item, "parallelism", 1), own))
        costs[name] = _cost(item)
        if (after := item.get("after")) is not None:
            explicit = True
            if not isinstance(after.value, list):
                raise after.error(f"must be a list of stage names, got {after.value!r}")
            for upstream in after.value:
                if upstream not in names:
                    raise after.error(f"names {upstream!r}; the stages are {', '.join(names)}")
                edges.append((upstream, name))
    if window is not None and all(stage.window is None for stage in stages):
        # A window is kept where rows of all sources come together: in the last stage.
        stages[-1] = replace(stages[-1], window=window)
    return stages, costs, edges if explicit else None


_STAGE_FIELDS = (
    "name", "parallelism", "cost", "per_row", "spread", "selectivity", "groups", "windowed", "after"
)  # fmt: skip


def _cost(item: Located) -> StageCost:
    fixed = _seconds(item, "cost", 0.0)
    per_row = _seconds(item, "per_row", 0.0)
    if fixed == 0 and per_row == 0:
        raise item.error("needs a cost (of a batch) or per_row (of a row) above zero")
    spread = item.get("spread")
    selectivity = item.get("selectivity")
    groups = item.get("groups")
    return StageCost(
        fixed,
        per_row,
        noise=0.2 if spread is None else spread.number(),
        selectivity=1.0 if selectivity is None else selectivity.number(),
        groups=math.inf if groups is None else groups.number(above=0.0),
    )


def from_recording(recorded: recording.Recording, origin: str) -> Scenario:
    """What a real run measured, as a scenario.

    A stage's cost is taken to be in proportion to its rows where they were counted, and fixed
    where they were not; a mean cannot tell the two apart. Selectivities follow from the rows of
    neighbouring stages.
    """
    if not recorded.queries:
        raise recording.InvalidRecordingError(f"{origin}: the recording has no queries")
    return Scenario(
        Cluster(nodes=recorded.nodes, workers=recorded.cores),
        tuple(_recorded_query(query, origin) for query in recorded.queries),
    )


def _recorded_query(query: recording.QueryRecord, origin: str) -> QueryPlan:
    given = query.window
    window = None if given is None else Window(given.size, given.slide, delay=given.delay)
    by_name = {stage.name: stage for stage in query.stages}
    stages = [Stage(s.name, s.parallelism, window if s.windowed else None) for s in query.stages]
    costs: dict[str, StageCost] = {}
    for stage in query.stages:
        noise = stage.cost_spread / stage.cost_mean if stage.cost_mean > 0 else 0.0
        downs = [s for s in query.stages if stage.name in s.after and s.rows_mean > 0]
        selectivity = 1.0
        if downs and stage.rows_mean > 0:
            out = max(s.rows_mean * s.parallelism for s in downs)
            selectivity = out / (stage.rows_mean * stage.parallelism)
        counted = stage.rows_mean > 0
        costs[stage.name] = StageCost(
            fixed=0.0 if counted else stage.cost_mean,
            per_row=stage.cost_mean / stage.rows_mean if counted else 0.0,
            noise=noise,
            selectivity=selectivity,
        )
    edges = [(up, stage.name) for stage in query.stages for up in stage.after]
    target = query.target
    job = Job.of(
        query.name, target or BEST_EFFORT, stages, edges if edges else None, tenant=query.tenant
    )
    rates = tuple((sample.at, sample.rows_per_second) for sample in query.rates)
    if rates:
        rate = sum(value for _, value in rates) / len(rates)
    else:
        first = [by_name[name] for name in job.sources]
        rate = sum(s.rows_mean * s.parallelism for s in first) / query.batch_interval
    if rate <= 0:
        raise recording.InvalidRecordingError(
            f"{origin}: query {query.name!r} has neither rate samples nor rows at its first stage"
        )
    return QueryPlan(job, costs, rate, query.batch_interval, target is not None, rates)
