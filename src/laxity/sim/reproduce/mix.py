"""What most figures run: group 1 jobs beside group 2 jobs, under a scheduler by its name."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from laxity.core.policies.api import Situation
from laxity.core.policies.deadline import EarliestDeadlineFirst, LeastLaxityFirst
from laxity.core.policies.simple import ShortestJobFirst
from laxity.core.policies.token import TokenFairSharing
from laxity.core.rules import PriorityRule
from laxity.sim.cluster import Cluster
from laxity.sim.reproduce.report import Row
from laxity.sim.reproduce.variants import MessageFifo
from laxity.sim.results import RunResult
from laxity.sim.schedulers import Cameo, Fifo, Orleans, Scheduler, Slots
from laxity.sim.simulation import simulate
from laxity.sim.workloads import BULK_RATE, GROUP_1, GROUP_2, mixed

CLUSTER = Cluster()


class WithoutSemantics:
    """LLF that knows the DAG and the target but not what operators mean (figure 14): no deadline
    is extended."""

    name = "llf-no-semantics"
    needs_tokens = False

    def rule(self, situation: Situation) -> PriorityRule:
        return LeastLaxityFirst().rule(replace(situation, window=None, line=None))


class Misjudge:
    """Profiles off by a normal distribution (figure 15)."""

    def __init__(self, deviation: float, seed: int) -> None:
        self._deviation = deviation
        self._random = Random(seed)

    def __call__(self, cost: float) -> float:
        return cost + self._random.gauss(0.0, self._deviation)


def scheduler(name: str, seed: int = 1) -> Scheduler:
    """By name, because points travel between processes."""
    if name.startswith("sigma="):
        return Cameo(perturb=Misjudge(float(name[6:]), seed), name=name)
    known: dict[str, Scheduler] = {
        "cameo": Cameo(),
        "fifo": Fifo(),
        "orleans": Orleans(),
        "slots": Slots(),
        "fifo by message": MessageFifo(),
        "no semantics": Cameo(WithoutSemantics(), name="no semantics"),
        "llf": Cameo(LeastLaxityFirst()),
        "edf": Cameo(EarliestDeadlineFirst()),
        "sjf": Cameo(ShortestJobFirst()),
        "token": Cameo(TokenFairSharing()),
    }
    return known[name]


class Mix(NamedTuple):
    """Group 1 and group 2 jobs, and all else that a point needs. Where the paper does not say how
    many, it is figure 9's mix: four and eight."""

    scheduler: str
    bulk_jobs: int = 8
    rate: float = BULK_RATE
    batch: float = 1000.0
    workers: int = CLUSTER.workers
    mailbox: int = CLUSTER.mailbox
    duration: float = 30.0
    warmup: float = 10.0
    seed: int = 1
    sensitive: int = 4


def run_mix(*fields: Any) -> RunResult:
    mix = Mix(*fields)
    flows = mixed(mix.bulk_jobs, mix.rate, sensitive=mix.sensitive, batch=mix.batch)
    cluster = replace(CLUSTER, workers=mix.workers, mailbox=mix.mailbox)
    chosen = scheduler(mix.scheduler, mix.seed)
    return simulate(flows, cluster, chosen, duration=mix.duration, warmup=mix.warmup, seed=mix.seed)


def rows_of(x: str, results: dict[Any, RunResult]) -> list[Row]:
    """One row for each (x, scheduler) and group."""
    rows: list[Row] = []
    for (value, name), result in results.items():
        for group in (GROUP_1, GROUP_2):
            job = result.group(group)
            rows.append(
                {
                    x: value,
                    "scheduler": name,
                    "group": group,
                    "p50_s": job.latencies.p50,
                    "p90_s": job.latencies.percentile(90),
                    "p99_s": job.latencies.p99,
                    "success": job.success,
                    "rows_per_s": result.throughput(group),
                    "utilisation": result.busy,
                }
            )
    return rows
