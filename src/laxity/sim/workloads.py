"""The workloads of §6: latency-sensitive jobs (group 1), bulk analytics (group 2), IPQ1–IPQ4.

The paper gives rates, windows, sources and targets. It gives no costs, but what it says of capacity
implies them, and one line of cost serves every stage, every job and every scheduler:

- 3 ms a message: figure 12 saturates one thread with 300 to 350 no-op messages a second.
- 10,000 rows/s from each source of group 2: twelve such jobs are what keeps up in figure 8b, and
  as much as four at 30,000 rows/s, which is what keeps up in figure 8a.
- 10.4 us a row: beyond that both overload. With these costs 128 cores are full at 35,000 rows/s
  (8a) and at fourteen jobs (8b), halfway to the next step. A message of 1,000 rows takes 13.4 ms,
  longer than the 1 ms grain, as §6 says.
- A partial result has at most 1,000 rows, as a message has. This number is ours. A check: by the
  paper's rule (twice the p95 at half load) group 1's target would be near 1 s; it has 800 ms.
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

BULK_RATE = 10_000.0

COST = StageCost(fixed=0.003, per_row=10.4e-6, noise=0.2, groups=1000)


def aggregation(
    name: str,
    group: str,
    target: float,
    window: Window,
    sources: tuple[SourceSpec, ...],
    *,
    tokens: float | None = None,
    cost: StageCost = COST,
) -> Dataflow:
    """Four stages of windowed aggregation: local at each source, then a tree to one result."""
    stages = [
        Stage("local", len(sources), window),
        Stage("partial", max(1, len(sources) // 8), window),
        Stage("group", max(1, len(sources) // 32), window),
        Stage("final", 1, window),
    ]
    costs = {stage.name: cost for stage in stages}
    job = Job.of(name, target, stages)
    return Dataflow(job, costs, {"local": sources}, group=group, tokens=tokens)


def latency_sensitive(number: int, *, target: float = TARGET_1) -> Dataflow:
    """Group 1: one message of 1,000 events a second from each source, windows of a second."""
    spec = SourceSpec(rows=1000, interval=1.0)
    return aggregation(f"ls{number}", GROUP_1, target, Window.tumbling(1.0), (spec,) * SOURCES)


def bulk(
    number: int,
    rate: float = BULK_RATE,
    *,
    batch: float = 1000.0,
    target: float = TARGET_2,
    volume: Volume | None = None,
) -> Dataflow:
    """Group 2: `rate` events a second from each source in messages of `batch`, windows of 10 s."""
    interval = batch / rate
    specs = tuple(
        SourceSpec(
            rows=batch,
            interval=interval,
            delay=0.05 + phase * interval,
            volume=volume,
        )
        for phase in _phases(number)
    )
    return aggregation(f"ba{number}", GROUP_2, target, Window.tumbling(10.0), specs)


def _phases(job: int) -> list[float]:
    """Sources that are not in step: fractions of an interval, spread evenly for any number of
    jobs (multiples of the golden ratio)."""
    return [((job * SOURCES + n) * 0.6180339887) % 1.0 for n in range(SOURCES)]


def mixed(
    bulk_jobs: int, rate: float = BULK_RATE, *, sensitive: int = 4, batch: float = 1000.0
) -> list[Dataflow]:
    jobs = [latency_sensitive(n) for n in range(sensitive)]
    return jobs + [bulk(n, rate, batch=batch) for n in range(bulk_jobs)]


class ParetoVolume:
    """Rows that follow a power law in time: every `hold` seconds a job draws a factor, at most
    `cap` times the least one, for all its sources together (the spikes of figure 2c last one to a
    few seconds; spikes of single sources average out over 64 of them)."""

    def __init__(
        self, mean: float, seed: str, *, shape: float = 1.3, cap: float = 1000.0, hold: float = 2.0
    ) -> None:
        self._seed = seed
        self._shape = shape
        self._cap = cap
        self._hold = hold
        self._period = -1
        self._rows = 0.0
        self._least = mean / _mean_of_capped_pareto(shape, cap)

    def __call__(self, random: Random, progress: float) -> float:
        period = int(progress / self._hold - 1e-9)
        if period != self._period:
            self._period = period
            factor = Random(f"{self._seed}/{period}").paretovariate(self._shape)
            self._rows = self._least * min(factor, self._cap)
        return self._rows


def _mean_of_capped_pareto(shape: float, cap: float) -> float:
    """E[min(X, cap)] for X ≥ 1 with P(X > x) = x^−shape."""
    return 1.0 + (1.0 - float(cap ** (1.0 - shape))) / (shape - 1.0)


# The single-tenant queries of §6.1, on one machine. Their load is ours: up to 90 % of the machine
# for IPQ1 to IPQ3, half of it for IPQ4, which the paper calls the lighter one (§6.3).

IPQ = ("IPQ1", "IPQ2", "IPQ3", "IPQ4")
_PINNED = replace(COST, locality=0.5)
"""Costs half as much again on a worker whose caches do not hold its state; a guess."""


def single_tenant(name: str, workers: int = 4, *, load: float | None = None) -> Dataflow:
    """IPQ1: sums over tumbling windows. IPQ2: the same over sliding ones. IPQ3: counts by twice as
    many keys. IPQ4: two streams joined in windows, then aggregated, with state that caches miss.
    Sources send as often as keeps the machine below `load`."""
    window = Window.sliding(3.0, 1.0) if name == "IPQ2" else Window.tumbling(1.0)
    if load is None:
        load = 0.5 if name == "IPQ4" else 0.9

    def flow(interval: float) -> Dataflow:
        specs = tuple(
            SourceSpec(rows=1000, interval=interval, delay=0.05 + phase * interval)
            for phase in _phases(0)
        )
        if name == "IPQ4":
            return _windowed_join(specs, window)
        cost = replace(COST, groups=2000) if name == "IPQ3" else COST
        return aggregation(name, name, TARGET_1, window, specs, cost=cost)

    # Windows must be whole numbers of batches; the finest such grid below the load is taken.
    batches = 1
    while flow(1 / (batches + 1)).demand() <= load * workers:
        batches += 1
    return flow(1 / batches)


def _windowed_join(specs: tuple[SourceSpec, ...], window: Window) -> Dataflow:
    half = len(specs) // 2
    stages = [
        Stage("left", half, window),
        Stage("right", half, window),
        Stage("join", 8, window),
        Stage("sum", 1, window),
    ]
    job = Job.of("IPQ4", TARGET_1, stages, [("left", "join"), ("right", "join"), ("join", "sum")])
    costs = {"left": _PINNED, "right": _PINNED, "join": _PINNED, "sum": COST}
    sources = {"left": specs[:half], "right": specs[half:]}
    return Dataflow(job, costs, sources, group="IPQ4")
