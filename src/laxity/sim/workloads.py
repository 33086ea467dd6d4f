"""The workloads of §6: latency-sensitive jobs (group 1), bulk analytics (group 2), IPQ1–IPQ4.

The paper gives rates, windows, sources and targets; it does not give costs. Ours are chosen once:

- 4 us a row at the first stage: 32 workers are then full with twelve group 2 jobs of 10,000
  rows/s a source, or four of 30,000 rows/s, which is where the paper's figures 8a and 8b turn.
- A window's result has a row for each of 250 keys, and merging a row of partial results costs
  twice a raw one.
- 20 % noise: "operator execution time is consistent within a stage" (§6.3).
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from laxity.core.jobs import Job, Stage
from laxity.core.windows import Window
from laxity.sim.dataflow import Dataflow, SourceSpec, StageCost, Volume

SOURCES = 64
GROUP_1 = "group 1"
GROUP_2 = "group 2"
TARGET_1 = 0.8
TARGET_2 = 7200.0

LOCAL = StageCost(fixed=0.0005, per_row=3.5e-6, noise=0.2, groups=250)
MERGE = StageCost(fixed=0.0005, per_row=8e-6, noise=0.2, groups=250)
LOCAL_1 = replace(LOCAL, groups=1000)
MERGE_1 = replace(MERGE, groups=1000)


def aggregation(
    name: str,
    group: str,
    target: float,
    window: Window,
    sources: tuple[SourceSpec, ...],
    *,
    tokens: float | None = None,
    local: StageCost = LOCAL,
    merge: StageCost = MERGE,
) -> Dataflow:
    """Four stages of windowed aggregation: local at each source, then a tree to one result."""
    stages = [
        Stage("local", len(sources), window),
        Stage("partial", max(1, len(sources) // 8), window),
        Stage("group", max(1, len(sources) // 32), window),
        Stage("final", 1, window),
    ]
    costs = {stage.name: merge for stage in stages} | {"local": local}
    job = Job.of(name, target, stages)
    return Dataflow(job, costs, {"local": sources}, group=group, tokens=tokens)


def latency_sensitive(number: int, *, target: float = TARGET_1) -> Dataflow:
    """Group 1: one message of 1,000 events a second from each source, windows of a second."""
    spec = SourceSpec(rows=1000, interval=1.0)
    window = Window.tumbling(1.0)
    return aggregation(
        f"ls{number}", GROUP_1, target, window, (spec,) * SOURCES, local=LOCAL_1, merge=MERGE_1
    )


def bulk(
    number: int,
    rate: float = 10_000.0,
    *,
    batch: float = 1000.0,
    target: float = TARGET_2,
    volume: Volume | None = None,
) -> Dataflow:
    """Group 2: `rate` events a second from each source in messages of `batch`, windows of 10 s."""
    interval = batch / rate
    specs = tuple(
        SourceSpec(rows=batch, interval=interval, delay=0.05 + phase * interval, volume=volume)
        for phase in _phases(number)
    )
    return aggregation(f"ba{number}", GROUP_2, target, Window.tumbling(10.0), specs)


def _phases(job: int) -> list[float]:
    """Sources that are not in step: fractions of an interval, spread evenly for any number of
    jobs (multiples of the golden ratio)."""
    return [((job * SOURCES + n) * 0.6180339887) % 1.0 for n in range(SOURCES)]


def mixed(
    bulk_jobs: int, rate: float, *, sensitive: int = 4, batch: float = 1000.0
) -> list[Dataflow]:
    jobs = [latency_sensitive(n) for n in range(sensitive)]
    return jobs + [bulk(n, rate, batch=batch) for n in range(bulk_jobs)]


def pareto(mean: float, shape: float, cap: float) -> Volume:
    """Rows that follow a power law with the given mean, at most `cap` times it."""
    scale = mean * (shape - 1) / shape

    def rows(random: Random, _: float) -> float:
        return min(scale * random.paretovariate(shape), cap * mean)

    return rows
