"""A job inside a simulation: its operators, wired, and what was measured of it."""

from __future__ import annotations

import math
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING

from laxity.core.jobs import OperatorId
from laxity.sim.dataflow import Dataflow, Routing
from laxity.sim.operators import NOISE, Operator
from laxity.sim.results import JobResult

if TYPE_CHECKING:
    from laxity.sim.contexts import JobContexts
    from laxity.sim.sources import Source


class JobRun:
    """`congested` counts operators below the sources whose mailbox is full; while there is one,
    the job's sources are held. `blocked` are those that wait."""

    def __init__(self, dataflow: Dataflow, first_number: int, seed: int) -> None:
        job = dataflow.job
        self.dataflow = dataflow
        self.job = job
        self.name = job.name
        self.target = job.target
        self.contexts: JobContexts | None = None
        self.congested = 0
        self.blocked: list[Source] = []
        self.result = JobResult(job.name, dataflow.group or job.name, job.target)
        self.stages: dict[str, list[Operator]] = {}
        number = first_number
        for name in job.topological_order:
            cost = dataflow.costs[name]
            noise = noise_factors(cost.noise, seed)
            window = job.stages[name].window
            self.stages[name] = []
            for partition in range(job.stages[name].parallelism):
                operator = Operator(self, name, partition, window, cost, noise, number)
                self.stages[name].append(operator)
                number += 1
        for name, operators in self.stages.items():
            if not job.upstream[name]:
                for operator in operators:
                    operator.add_input()
            for down in job.downstream[name]:
                self._connect(operators, self.stages[down], down)

    def _connect(self, senders: list[Operator], receivers: list[Operator], stage: str) -> None:
        routing = self.dataflow.routing_between(senders[0].stage, stage)
        for sender in senders:
            if routing is Routing.SHUFFLE:
                chosen = receivers
            else:
                chosen = [receivers[sender.partition % len(receivers)]]
            sender.targets.append((stage, [(each, each.add_input()) for each in chosen]))

    @property
    def operators(self) -> list[Operator]:
        return [operator for stage in self.stages.values() for operator in stage]

    def id_of(self, operator: Operator) -> OperatorId:
        return OperatorId(self.name, operator.stage, operator.partition)

    def results_due(self, start: float, end: float) -> float:
        """Window results whose event time falls into the measured stretch and whose deadline has
        passed, over all sinks. Zero where a sink has no window before it (then nothing can be
        said)."""
        end -= self.target
        due = 0.0
        first = min(spec.start for specs in self.dataflow.sources.values() for spec in specs)
        last = max(spec.stop for specs in self.dataflow.sources.values() for spec in specs)
        for sink in self.job.sinks:
            slide = self.job.emission_slide(sink)
            if slide > 0:
                span = min(end, last) - max(start, first)
                due += max(0.0, math.floor(span / slide)) * len(self.stages[sink])
        return due


@lru_cache(maxsize=64)
def noise_factors(variation: float, seed: int) -> tuple[float, ...]:
    """Log-normal factors with mean one. A table: drawing each would cost as much as the heap.
    Operators start at different places in it, so every scheduler meets the same costs."""
    if variation == 0:
        return (1.0,) * NOISE
    sigma2 = math.log(1 + variation**2)
    random = Random(seed)
    return tuple(random.lognormvariate(-sigma2 / 2, math.sqrt(sigma2)) for _ in range(NOISE))
