"""A run: dataflows on a cluster under a scheduler, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import TYPE_CHECKING

from laxity.core.contexts import Message as CoreMessage
from laxity.sim.channels import Network
from laxity.sim.cluster import Cluster
from laxity.sim.engine import Engine
from laxity.sim.errors import InvalidSimulationError
from laxity.sim.jobrun import JobRun
from laxity.sim.operators import Message, Operator, Result
from laxity.sim.results import RunResult
from laxity.sim.sources import Source

if TYPE_CHECKING:
    from laxity.sim.dataflow import Dataflow
    from laxity.sim.nodes import Node
    from laxity.sim.schedulers.api import Scheduler

OnStart = Callable[[float, int, int, Message, float], None]
OnResult = Callable[[float, JobRun, float, float], None]


class Simulation:
    """`on_start(now, node, worker, message, cost)` and `on_result(now, job, progress, latency)`
    are for figures that draw more than percentiles; what they keep is their own affair."""

    def __init__(
        self,
        dataflows: Sequence[Dataflow],
        cluster: Cluster,
        scheduler: Scheduler,
        *,
        seed: int = 1,
        on_start: OnStart | None = None,
        on_result: OnResult | None = None,
    ) -> None:
        names = [flow.job.name for flow in dataflows]
        for name in names:
            if names.count(name) > 1:
                raise InvalidSimulationError(f"two jobs are named {name!r}; names are unique")
        self.cluster = cluster
        self.engine = Engine()
        self.scheduler = scheduler
        self.on_start = on_start
        self.on_result = on_result
        self.submitted = 0
        self.done = 0
        self._measure_from = 0.0
        self._network = Network(self.engine, cluster)
        self.nodes: list[Node] = [scheduler.node(self, n) for n in range(cluster.nodes)]
        self.jobs: list[JobRun] = []
        self.sources: list[Source] = []
        ids = count()
        number = 0
        for index, flow in enumerate(dataflows):
            run = JobRun(flow, number, seed)
            number += len(run.operators)
            run.contexts = scheduler.contexts(flow, ids)
            self.jobs.append(run)
            for operators in run.stages.values():
                for operator in operators:
                    # Round robin, each job from another node: small stages spread as well.
                    node = self.nodes[(operator.partition + index) % cluster.nodes]
                    operator.node = node
                    operator.bound = cluster.mailbox * operator.inputs
                    if run.contexts is not None:
                        operator.reports = run.contexts.reports(run.id_of(operator))
                    node.add_operator(operator)
            for stage, specs in flow.sources.items():
                for operator, spec in zip(run.stages[stage], specs, strict=True):
                    random = Random(f"{seed}/{flow.job.name}/{stage}/{operator.partition}")
                    self.sources.append(Source(self, operator, spec, random))

    # What nodes report.

    def completed(
        self,
        now: float,
        message: Message,
        cost: float,
        results: list[Result] | None,
        worker: int,
    ) -> None:
        operator = message.operator
        job = operator.job
        self.done += 1
        operator.pending -= 1
        if operator.reports is not None:
            operator.reports.learn(cost)
        source = message.source
        if source is not None:
            if now >= self._measure_from:
                job.result.rows += message.rows
            source.give_back(now)
        elif operator.congested and operator.pending <= operator.bound // 2:
            self._relieve(now, operator)
        if results is None:
            return
        for since, progress, arrival, rows in results:
            if operator.targets:
                self._emit(now, message, worker, since, progress, arrival, rows)
            elif now >= self._measure_from:
                job.result.latencies.add(now - arrival, job.target)
                if self.on_result is not None:
                    self.on_result(now, job, progress, now - arrival)

    def _emit(
        self,
        now: float,
        done: Message,
        worker: int,
        since: float,
        progress: float,
        arrival: float,
        rows: float,
    ) -> None:
        operator = done.operator
        job = operator.job
        contexts = job.contexts
        cause: CoreMessage | None = None
        if contexts is not None:
            assert done.context is not None
            cause = CoreMessage(
                job.id_of(operator),
                progress,
                arrival,
                done.context._replace(progress=progress),
                since,
            )
        for stage, receivers in operator.targets:
            share = rows / len(receivers)
            for receiver, channel in receivers:
                message = Message(receiver, channel, share, since, progress, arrival)
                if contexts is not None and cause is not None:
                    message.context = contexts.at_operator(cause, stage)
                self.submitted += 1
                receiver.pending += 1
                if receiver.pending > receiver.bound and not receiver.congested:
                    receiver.congested = True
                    job.congested += 1
                if receiver.node is operator.node:
                    receiver.node.submit(now, message, worker)
                else:
                    self._network.send(now, operator, message)

    def _relieve(self, now: float, operator: Operator) -> None:
        operator.congested = False
        job = operator.job
        job.congested -= 1
        if not job.congested:
            for source in list(job.blocked):
                if source.credit > 0:
                    source.resume(now)

    # Running.

    def run(self, duration: float, *, warmup: float = 0.0) -> RunResult:
        """Simulate `warmup` seconds, then measure `duration` seconds."""
        self._measure_from = warmup
        self.engine.run(warmup)
        busy = sum(node.busy_time for node in self.nodes)
        self.engine.run(warmup + duration)
        busy = sum(node.busy_time for node in self.nodes) - busy
        for job in self.jobs:
            job.result.expected = job.results_due(warmup, warmup + duration)
        for source in self.sources:
            result = source.job.result
            result.behind = max(result.behind, source.behind(warmup + duration))
        return RunResult(
            self.scheduler.name,
            duration,
            {job.name: job.result for job in self.jobs},
            busy / (duration * self.cluster.cores),
            self.engine.handled,
            self.submitted - self.done,
        )


def simulate(
    dataflows: Sequence[Dataflow],
    cluster: Cluster,
    scheduler: Scheduler,
    *,
    duration: float,
    warmup: float = 0.0,
    seed: int = 1,
) -> RunResult:
    return Simulation(dataflows, cluster, scheduler, seed=seed).run(duration, warmup=warmup)
