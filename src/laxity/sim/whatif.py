"""Would these targets hold? With how many cores, and who breaks first as load grows?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from laxity.sim.cluster import Cluster
from laxity.sim.files import Scenario
from laxity.sim.results import RunResult
from laxity.sim.simulation import simulate

_MOST_CORES = 4096
_MOST_LOAD = 64.0
_LOAD_STEP = 1.05
"""Loads are told apart to 5 %."""

_PILING_UP = 0.05
"""Input piles up if the sources trail by more than this share of the measured time."""


@dataclass(frozen=True, slots=True)
class Break:
    """The least load, as a multiple of the file's, at which queries miss; the worst one first."""

    load: float
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """`cores` is None where no number up to 4,096 suffices; `breaks` where nothing breaks."""

    result: RunResult
    cores: int | None
    breaks: Break | None
    loads: tuple[tuple[float, dict[str, float]], ...]
    """What was tried: (load, success of each query)."""


class WhatIf:
    """Runs a scenario at any load and size. A query holds if `meet` of its due results are in time
    and its input does not pile up; best-effort queries always hold."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        meet: float = 0.99,
        duration: float | None = None,
        seed: int = 1,
        on_run: Callable[[str], None] = lambda what: None,
    ) -> None:
        self._scenario = scenario
        self._meet = meet
        window = scenario.longest_window
        self._warmup = window + 5.0
        self._duration = duration or scenario.duration or max(30.0, 10.0 * window)
        self._seed = seed
        self._on_run = on_run
        self._loads: dict[float, dict[str, float]] = {}

    def run(self, load: float = 1.0, cluster: Cluster | None = None) -> RunResult:
        scenario = self._scenario
        return simulate(
            [query.flow(load) for query in scenario.queries],
            cluster or scenario.cluster,
            scenario.make_scheduler(),
            duration=self._duration,
            warmup=self._warmup,
            seed=self._seed,
        )

    def missed(self, result: RunResult) -> list[str]:
        """Queries that do not hold, the worst first."""
        shares = {
            query.job.name: self._held(result, query.job.name)
            for query in self._scenario.queries
            if query.has_target
        }
        late = [name for name, share in shares.items() if share < self._meet]
        return sorted(late, key=lambda name: shares[name])

    def _held(self, result: RunResult, name: str) -> float:
        """The share of results in time; zero if input piles up, which misses any target in the
        end, or if results were due and none came."""
        job = result.jobs[name]
        if job.behind > _PILING_UP * result.measured:
            return 0.0
        return 1.0 if math.isnan(job.success) else job.success

    def answer(self) -> Answer:
        self._on_run("as described")
        result = self.run()
        self._note(1.0, result)
        cores = self.smallest_cores()
        breaks = self.first_break(result)
        return Answer(result, cores, breaks, tuple(sorted(self._loads.items())))

    def smallest_cores(self) -> int | None:
        """The fewest cores that hold all targets, up to whole nodes beyond the first. More cores
        are taken never to hurt."""
        per_node = self._scenario.cluster.workers
        demand = sum(query.flow(1.0).demand() for query in self._scenario.queries)
        sizes: list[int] = list(range(1, per_node + 1))
        sizes += range(2 * per_node, _MOST_CORES + 1, per_node)
        sizes = [size for size in sizes if size >= min(demand, _MOST_CORES)]

        def holds(size: int) -> bool:
            self._on_run(f"{size} cores")
            base = self._scenario.cluster
            nodes = max(1, size // per_node)
            cluster = replace(base, nodes=nodes, workers=size // nodes)
            return not self.missed(self.run(cluster=cluster))

        step = 1
        at = 0
        while at < len(sizes) and not holds(sizes[at]):
            at += step
            step *= 2
        if at >= len(sizes):
            if not sizes or not holds(sizes[-1]):
                return None
            at = len(sizes) - 1
        low = max(-1, at - step // 2)  # the last one known not to hold, or before the first
        while at - low > 1:
            middle = (low + at) // 2
            if holds(sizes[middle]):
                at = middle
            else:
                low = middle
        return sizes[at]

    def first_break(self, at_one: RunResult) -> Break | None:
        if late := self.missed(at_one):
            return Break(1.0, tuple(late))
        low, high = 1.0, 1.0
        late = []
        while not late:
            low, high = high, high * 1.5
            if high > _MOST_LOAD:
                return None
            late = self._late_at(high)
        while high / low > _LOAD_STEP:
            middle = math.sqrt(low * high)
            found = self._late_at(middle)
            if found:
                high, late = middle, found
            else:
                low = middle
        return Break(high, tuple(late))

    def _late_at(self, load: float) -> list[str]:
        self._on_run(f"load × {load:.2f}")
        result = self.run(load)
        self._note(load, result)
        return self.missed(result)

    def _note(self, load: float, result: RunResult) -> None:
        self._loads[load] = {name: self._held(result, name) for name in result.jobs}
