"""Figures 1 and 6: utilisation against tail latency, and token shares over time."""

from __future__ import annotations

from typing import Any, NamedTuple

from laxity.core.windows import Window
from laxity.sim.cluster import Cluster
from laxity.sim.dataflow import Dataflow, SourceSpec
from laxity.sim.reproduce import plots
from laxity.sim.reproduce.mix import scheduler
from laxity.sim.reproduce.report import Claim, Report, Row
from laxity.sim.reproduce.runner import Bench
from laxity.sim.results import RunResult
from laxity.sim.simulation import Simulation, simulate
from laxity.sim.workloads import (
    COST,
    GROUP_1,
    GROUP_2,
    SOURCES,
    TARGET_1,
    TARGET_2,
    aggregation,
)

_OPERATORS = 8
"""Operators of a job of figure 1: five sources and three stages of merging."""


def small_jobs(count: int) -> list[Dataflow]:
    """Half latency-sensitive, half bulk; each source operator needs a quarter of a core."""
    flows = []
    for n in range(count):
        bulk = n % 2 == 1
        specs = tuple(
            SourceSpec(rows=1000, interval=0.05, delay=0.05 + ((5 * n + i) * 0.618 % 1.0) * 0.05)
            for i in range(_OPERATORS - 3)
        )
        window = Window.tumbling(10.0 if bulk else 1.0)
        group, target = (GROUP_2, TARGET_2) if bulk else (GROUP_1, TARGET_1)
        flows.append(aggregation(f"job{n}", group, target, window, specs))
    return flows


def run_jobs(name: str, count: int, duration: float, seed: int) -> RunResult:
    flows = small_jobs(count)
    chosen = scheduler(name, seed)
    return simulate(flows, Cluster(), chosen, duration=duration, warmup=4.0, seed=seed)


class Utilisation(NamedTuple):
    name: str = "1"
    title: str = "utilisation against tail latency"

    def run(self, bench: Bench) -> Report:
        slots = Cluster().cores // _OPERATORS  # each slot has a core to itself, as with YARN
        counts = bench.pick((16, 32, 48, 64, 72, 80), (16, 48, 80))
        points = {("slots", slots): ("slots", slots)}
        points |= {(name, n): (name, n) for name in ("orleans", "cameo") for n in counts}
        duration = bench.pick(20.0, 8.0)
        results: dict[Any, RunResult] = bench.compute(
            run_jobs, {key: (*value, duration, bench.seed) for key, value in points.items()}
        )
        rows: list[Row] = [
            {"scheduler": name, "jobs": n, "utilisation": result.busy,
             "p99_s": result.group(GROUP_1).latencies.p99}
            for (name, n), result in results.items()
        ]  # fmt: skip
        full = max(counts)

        def p99(name: str, n: int) -> float:
            return results[name, n].group(GROUP_1).latencies.p99

        report = Report(self.name, self.title, rows, [
            Claim("slot-based: utilisation with every core taken", "low",
                  f"{results['slots', slots].busy:.0%}", results["slots", slots].busy < 0.5),
            Claim("Orleans at high utilisation: p99 against slot-based", "high tail latency",
                  f"{p99('orleans', full) / p99('slots', slots):.1f} ×",
                  p99("orleans", full) > 2 * p99("slots", slots)),
            Claim("Cameo at the same utilisation: p99 against Orleans", "low tail latency",
                  f"{p99('cameo', full) / p99('orleans', full):.2f} × at "
                  f"{results['cameo', full].busy:.0%} utilisation",
                  p99("cameo", full) < 0.5 * p99("orleans", full)),
        ])  # fmt: skip
        path = bench.out / f"{self.name}.png"
        with plots.figure(path, 1, title=f"Figure 1: {self.title}", claims=report.claims) as (
            axis,
        ):
            for name in ("slots", "orleans", "cameo"):
                own = [row for row in rows if row["scheduler"] == name]
                axis.plot([r["utilisation"] for r in own], [r["p99_s"] for r in own], "o-",
                          label=name, color=plots.colour(name))  # fmt: skip
            axis.set_xlabel("utilisation")
            axis.set_ylabel("p99 latency (s), latency-sensitive jobs")
            axis.set_yscale("log")
            axis.legend(fontsize=8)
        report.files.append(path)
        return report


TOKENS = (12.0, 24.0, 24.0)


def run_tokens(apart: float, lasting: float, step: float, seed: int) -> list[list[float]]:
    """Rows a second of three dataflows in each step of time. Each offers 2M rows/s; the cluster is
    so large that it processes as many messages as there are tokens (60 a source)."""
    cores = sum(TOKENS) * SOURCES * COST.of(1000)
    cluster = Cluster(nodes=round(cores / Cluster().workers))
    interval = 1000 * SOURCES / 2e6
    flows = []
    for n, tokens in enumerate(TOKENS):
        specs = tuple(
            SourceSpec(rows=1000, interval=interval, start=n * apart, stop=n * apart + lasting,
                       delay=0.05 + (i * 0.618 % 1.0) * interval)
            for i in range(SOURCES)
        )  # fmt: skip
        window = Window.tumbling(1.0)
        name = f"dataflow {n + 1}"
        flows.append(aggregation(name, name, TARGET_2, window, specs, tokens=tokens))
    simulation = Simulation(flows, cluster, scheduler("token"), seed=seed)
    rates: list[list[float]] = []
    before = [0.0] * len(flows)
    for end in range(1, round((2 * apart + lasting) / step) + 1):
        simulation.engine.run(end * step)
        rows = [job.result.rows for job in simulation.jobs]
        rates.append([(now - then) / step for now, then in zip(rows, before, strict=True)])
        before = rows
    return rates


class TokenShares(NamedTuple):
    name: str = "6"
    title: str = "throughput by tokens: 20 %, 40 %, 40 %"

    def run(self, bench: Bench) -> Report:
        apart = bench.pick(60.0, 10.0)
        lasting, step = 5 * apart, apart / 10
        rates: list[list[float]] = bench.compute(
            run_tokens, {"6": (apart, lasting, step, bench.seed)}
        )["6"]
        scale = 300.0 / apart
        rows: list[Row] = [
            {"time_s": (n + 1) * step * scale}
            | {f"dataflow_{i + 1}_rows_per_s": rate for i, rate in enumerate(line)}
            for n, line in enumerate(rates)
        ]
        alone = rates[5]
        contended = rates[25:50]  # all three run
        total = sum(sum(line) for line in contended)
        shares = [sum(line[i] for line in contended) / total for i in range(3)]
        report = Report(self.name, self.title, rows, [
            Claim("dataflow 1 alone gets all it offers (2M rows/s)", 2e6, alone[0],
                  alone[0] > 1.9e6, "rows/s", tolerance=1.1),
            *(
                Claim(f"share of dataflow {i + 1} while all three run", tokens / sum(TOKENS),
                      shares[i], abs(shares[i] - tokens / sum(TOKENS)) < 0.1, "%", tolerance=1.15)
                for i, tokens in enumerate(TOKENS)
            ),
        ])  # fmt: skip
        path = bench.out / f"{self.name}.png"
        with plots.figure(path, 1, title=f"Figure 6: {self.title}", claims=report.claims) as (
            axis,
        ):
            for i in range(3):
                axis.plot([row["time_s"] for row in rows], [line[i] / 1e6 for line in rates],
                          label=f"dataflow {i + 1} ({TOKENS[i]:.0f} tokens)")  # fmt: skip
            axis.set_xlabel(f"time (s; simulated {scale:.0f} times shorter)")
            axis.set_ylabel("million rows/s")
            axis.legend(fontsize=8)
        report.files.append(path)
        return report


EXPERIMENTS = (Utilisation(), TokenShares())
