"""Not in the paper: how fast the simulator is, and how much its fitted numbers decide.

Speed is told by CPU time, because the question is what one core can do and machines are shared.
"""

from __future__ import annotations

import resource
import time
from dataclasses import replace
from typing import Any, NamedTuple

from laxity.sim.cluster import Cluster
from laxity.sim.engine import Engine
from laxity.sim.reproduce import plots
from laxity.sim.reproduce.bursts import pareto_mix
from laxity.sim.reproduce.mix import scheduler
from laxity.sim.reproduce.report import Claim, Report, Row
from laxity.sim.reproduce.runner import Bench
from laxity.sim.results import RunResult
from laxity.sim.simulation import Simulation, simulate
from laxity.sim.workloads import COST, GROUP_1, mixed

_OPERATORS, _WORKERS, _COST = 1000, 16, 0.01


def kernel_heap(until: float) -> float:
    """Events a second of an almost empty model on our loop: 1,000 periodic operators, one queue."""
    engine = Engine()
    idle, waiting, done = _WORKERS, 0, 0

    def finished(now: float, _: object) -> None:
        nonlocal idle, waiting, done
        done += 1
        if waiting:
            waiting -= 1
            engine.at(now + _COST, finished)
        else:
            idle += 1

    def tick(now: float, _: object) -> None:
        nonlocal idle, waiting
        engine.at(now + 1.0, tick)
        if idle:
            idle -= 1
            engine.at(now + _COST, finished)
        else:
            waiting += 1

    for n in range(_OPERATORS):
        engine.at(n / _OPERATORS, tick)
    started = time.process_time()
    engine.run(until)
    return 2 * done / (time.process_time() - started)


def kernel_simpy(until: float) -> float | None:
    """The same model as SimPy's documentation would write it; None without SimPy."""
    try:
        import simpy
    except ImportError:
        return None
    world = simpy.Environment()
    workers = simpy.Resource(world, _WORKERS)
    done = 0

    def message() -> Any:
        nonlocal done
        with workers.request() as request:
            yield request
            yield world.timeout(_COST)
        done += 1

    def source(n: int) -> Any:
        yield world.timeout(n / _OPERATORS)
        while True:
            world.process(message())
            yield world.timeout(1.0)

    for n in range(_OPERATORS):
        world.process(source(n))
    started = time.process_time()
    world.run(until=until)
    return 2 * done / (time.process_time() - started)


def speed_of(name: str, seed: int) -> tuple[float, float, int]:
    """(events a second, growth of memory in MiB over the second half, operators)."""
    flows = mixed(10)
    simulation = Simulation(flows, Cluster(), scheduler(name), seed=seed)
    operators = sum(len(job.operators) for job in simulation.jobs)
    simulation.engine.run(10.0)
    handled, peak = simulation.engine.handled, _peak()
    started = time.process_time()
    simulation.engine.run(30.0)
    rate = (simulation.engine.handled - handled) / (time.process_time() - started)
    return rate, _peak() - peak, operators


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Speed(NamedTuple):
    name: str = "speed"
    title: str = "events a second of CPU time"

    def run(self, bench: Bench) -> Report:
        names = ("cameo", "fifo", "orleans", "slots")
        rounds = bench.pick(3, 1)
        found = {name: max(speed_of(name, bench.seed) for _ in range(rounds)) for name in names}
        loop = max(kernel_heap(60.0) for _ in range(rounds))
        library = kernel_simpy(60.0)
        rows: list[Row] = [
            {"what": name, "events_per_s": rate, "memory_growth_mib": grown, "operators": operators}
            for name, (rate, grown, operators) in found.items()
        ]
        rows.append({"what": "empty model, our loop", "events_per_s": loop})
        claims = [
            Claim(f"{name}, {operators} operators: events/s", "goal 200,000", f"{rate:,.0f}",
                  rate >= 200_000)
            for name, (rate, _, operators) in found.items()
        ]  # fmt: skip
        growth = max(grown for _, grown, _ in found.values())
        claims.append(
            Claim("memory growth over 20 s more", "flat", f"{growth:.1f} MiB", growth < 16)
        )
        if library is not None:
            rows.append({"what": "empty model, simpy", "events_per_s": library})
            claims.append(Claim("the same almost empty model: our loop against SimPy", "(ours)",
                                f"{loop:,.0f} against {library:,.0f}", loop > library))  # fmt: skip
        return Report(self.name, self.title, rows, claims)


OVERLOADS = {"8a": (4, 50_000.0), "8b": (16, 10_000.0)}
"""Group 2 jobs and their rate at a point of each figure beyond what the cluster can carry."""


class Variant(NamedTuple):
    """What is different from the numbers everything else uses."""

    figure: str
    label: str
    mailbox: int = Cluster().mailbox
    groups: float = COST.groups


VARIANTS = (
    Variant("8b", "as used"),
    Variant("8b", "mailbox 2", mailbox=2),
    Variant("8b", "mailbox 4", mailbox=4),
    Variant("8b", "mailbox 8", mailbox=8),
    Variant("8b", "mailbox 32", mailbox=32),
    Variant("8b", "partial results of 250 rows", groups=250),
    Variant("8b", "partial results of 2,000 rows", groups=2000),
    Variant("8a", "as used"),
    Variant("8a", "mailbox 2", mailbox=2),
    Variant("8a", "mailbox 8", mailbox=8),
)
LAWS: dict[str, dict[str, float]] = {
    "as used: shape 1.3, cap 1000, 2 s": {},
    "shape 1.3, cap 100, 1 s": {"cap": 100.0, "hold": 1.0},
    "shape 1.5, cap 100, 1 s": {"shape": 1.5, "cap": 100.0, "hold": 1.0},
    "shape 1.2, cap 1000, 1 s": {"shape": 1.2, "hold": 1.0},
    "shape 1.1, cap 1000, 1 s": {"shape": 1.1, "hold": 1.0},
    "shape 1.2, cap 1000, 3 s": {"shape": 1.2, "hold": 3.0},
}


def run_variant(variant: tuple[Any, ...], name: str, duration: float, seed: int) -> RunResult:
    chosen = Variant(*variant)
    flows = [
        replace(flow, costs={s: replace(c, groups=chosen.groups) for s, c in flow.costs.items()})
        for flow in mixed(*OVERLOADS[chosen.figure])
    ]
    cluster = replace(Cluster(), mailbox=chosen.mailbox)
    return simulate(flows, cluster, scheduler(name), duration=duration, warmup=10.0, seed=seed)


def run_law(law: dict[str, float], name: str, duration: float, seed: int) -> RunResult:
    flows = pareto_mix(seed, **law)
    return simulate(flows, Cluster(), scheduler(name), duration=duration, warmup=11.0, seed=seed)


class Sensitivity(NamedTuple):
    """How figures 8a, 8b (at a point of overload) and 9 move with the numbers that are ours."""

    name: str = "sensitivity"
    title: str = "the factors under other numbers than ours"

    def run(self, bench: Bench) -> Report:
        schedulers = ("cameo", "orleans", "fifo")
        duration = bench.pick(20.0, 8.0)
        variants = bench.compute(run_variant, {
            (v.figure, v.label, name): (tuple(v), name, duration, bench.seed)
            for v in bench.pick(VARIANTS, VARIANTS[:2])
            for name in schedulers
        })  # fmt: skip
        laws = bench.compute(run_law, {
            ("9", label, name): (law, name, bench.pick(200.0, 30.0), bench.seed)
            for label, law in bench.pick(LAWS, dict(list(LAWS.items())[:2])).items()
            for name in schedulers
        })  # fmt: skip
        rows: list[Row] = []
        claims: list[Claim] = []
        results: dict[Any, RunResult] = variants | laws
        for figure, label in dict.fromkeys(key[:2] for key in results):
            text = []
            worse = True
            cameo = results[figure, label, "cameo"].group(GROUP_1).latencies
            for name in schedulers[1:]:
                own = results[figure, label, name].group(GROUP_1).latencies
                median, tail = own.p50 / cameo.p50, own.p99 / cameo.p99
                worse = worse and (not own.count or min(median, tail) > 1)
                rows.append({"figure": figure, "variant": label, "scheduler": name,
                             "median_factor": median, "p99_factor": tail})  # fmt: skip
                text.append(f"{name} {median:.1f} × / {tail:.1f} ×" if own.count
                            else f"{name} gives no result at all")  # fmt: skip
            claims.append(Claim(f"figure {figure}, {label}", "Cameo is better",
                                "; ".join(text), worse))  # fmt: skip
        report = Report(self.name, self.title, rows, claims)
        path = bench.out / f"{self.name}.png"
        with plots.figure(path, 1, title=self.title, height=4.5) as (axis,):
            labels = list(dict.fromkeys(f"{r['figure']}: {r['variant']}" for r in rows))
            for name, offset in (("orleans", -0.2), ("fifo", 0.2)):
                factors = [r["p99_factor"] for r in rows if r["scheduler"] == name]
                at = [n + offset for n in range(len(labels))]
                axis.barh(at, factors, 0.35, label=name, color=plots.colour(name))
            axis.set_yticks(range(len(labels)), labels, fontsize=7)
            axis.set_xscale("log")
            axis.set_xlabel("group 1 p99 against Cameo's")
            axis.legend(fontsize=8)
        report.files.append(path)
        return report


EXPERIMENTS = (Speed(), Sensitivity())
