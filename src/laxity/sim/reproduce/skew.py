"""Figure 10: sources of one job that differ by a factor of 200."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from laxity.core.windows import Window
from laxity.sim.cluster import Cluster
from laxity.sim.dataflow import Dataflow, SourceSpec
from laxity.sim.reproduce import plots
from laxity.sim.reproduce.mix import scheduler
from laxity.sim.reproduce.report import Claim, Report, Row
from laxity.sim.reproduce.runner import Bench
from laxity.sim.results import RunResult
from laxity.sim.simulation import simulate
from laxity.sim.workloads import SOURCES, TARGET_1, aggregation

_SCHEDULERS = ("cameo", "orleans", "fifo")
_KINDS = ("type 1", "type 2")


def skewed(rows: float, instances: dict[str, int], targets: dict[str, float]) -> list[Dataflow]:
    """Dataflows with windows of a second and ten messages a second from each source. Those of
    type 1 have twice the events; the sources of type 2 differ by a factor of 200 (geometrically),
    with `rows` a message on average."""
    shares = [200 ** (n / (SOURCES - 1)) for n in range(SOURCES)]
    mean = math.fsum(shares) / SOURCES
    sources = {
        "type 1": tuple(SourceSpec(rows=2 * rows, interval=0.1) for _ in range(SOURCES)),
        "type 2": tuple(SourceSpec(rows=rows * share / mean, interval=0.1) for share in shares),
    }
    return [
        aggregation(f"{kind} {n}", kind, targets[kind], Window.tumbling(1.0), sources[kind])
        for kind, count in instances.items()
        for n in range(count)
    ]


_FOUR_OF_EACH = dict.fromkeys(_KINDS, 4)
_NO_TARGET = dict.fromkeys(_KINDS, TARGET_1)


def rows_for(load: float) -> float:
    """Rows a message with which four dataflows of each type need `load` of the cores."""
    low, high = 1.0, 1e6
    for _ in range(50):
        rows = (low + high) / 2
        flows = skewed(rows, _FOUR_OF_EACH, _NO_TARGET)
        if sum(flow.demand() for flow in flows) < load * Cluster().cores:
            low = rows
        else:
            high = rows
    return low


def isolated_target(kind: str, duration: float, seed: int) -> float:
    """The paper's rule: twice the p95 of as many instances of the job as make the cluster half
    busy, under the default scheduler (Orleans). The job is what full load is made of."""
    cluster, rows = Cluster(), rows_for(1.0)
    (one,) = skewed(rows, {kind: 1}, _NO_TARGET)
    instances = max(1, int(0.5 * cluster.cores / one.demand()))
    flows = skewed(rows, {kind: instances}, _NO_TARGET)
    result = simulate(
        flows, cluster, scheduler("orleans"), duration=duration, warmup=5.0, seed=seed
    )
    return 2 * result.group(kind).latencies.percentile(95)


def run_skewed(
    name: str, load: float, targets: dict[str, float], duration: float, seed: int
) -> RunResult:
    flows = skewed(rows_for(load), _FOUR_OF_EACH, targets)
    chosen = scheduler(name, seed)
    return simulate(flows, Cluster(), chosen, duration=duration, warmup=5.0, seed=seed)


class SkewedSources(NamedTuple):
    name: str = "10"
    title: str = "skewed sources: success rates"

    def run(self, bench: Bench) -> Report:
        duration = bench.pick(60.0, 15.0)
        loads = bench.pick((0.8, 0.9, 1.0, 1.2), (1.0, 1.2))
        targets: dict[Any, float] = bench.compute(
            isolated_target, {kind: (kind, duration, bench.seed) for kind in _KINDS}
        )
        points = {
            (load, name): (name, load, targets, duration, bench.seed)
            for load in loads
            for name in _SCHEDULERS
        }
        results: dict[Any, RunResult] = bench.compute(run_skewed, points)
        rows: list[Row] = []
        for (load, name), result in results.items():
            for kind in _KINDS:
                own = result.group(kind)
                rows.append(
                    {
                        "load": load,
                        "scheduler": name,
                        "type": kind,
                        "target_s": targets[kind],
                        "success": own.success,
                        "p50_s": own.latencies.p50,
                        "p99_s": own.latencies.p99,
                        "utilisation": result.busy,
                    }
                )
        claims = []
        paper = {
            ("orleans", "type 1"): 0.002, ("orleans", "type 2"): 0.015,
            ("fifo", "type 1"): 0.079, ("fifo", "type 2"): 0.095,
            ("cameo", "type 1"): 0.213, ("cameo", "type 2"): 0.455,
        }  # fmt: skip
        heaviest = max(loads)

        def rates(load: float) -> str:
            met = [f"{results[load, n].group(k).success:.0%}" for n in _SCHEDULERS for k in _KINDS]
            return f"{'/'.join(met)} at {load:g}"

        why = (
            "the load decides, which the paper does not give. Rates of Cameo, Orleans and FIFO for "
            f"types 1 and 2 by load: {', '.join(rates(load) for load in loads)}"
        )
        for (name, kind), value in paper.items():
            ours = results[heaviest, name].group(kind).success
            best = max(results[heaviest, other].group(kind).success for other in _SCHEDULERS[1:])
            cameo = results[heaviest, "cameo"].group(kind).success
            holds = ours > best if name == "cameo" else ours < cameo
            claims.append(Claim(f"{name}, {kind}: outputs in time", value, ours, holds, "%", why))
        note = (
            f"Load {heaviest:g} of the cores. Targets by the paper's rule (twice the p95 alone at "
            f"half load): {targets['type 1'] * 1000:.0f} and {targets['type 2'] * 1000:.0f} ms."
        )
        report = Report(self.name, self.title, rows, claims, note)
        path = bench.out / f"{self.name}.png"
        with plots.figure(path, 2, title=f"Figure 10: {self.title}", claims=report.claims) as axes:
            for axis, kind in zip(axes, _KINDS, strict=True):
                for name in _SCHEDULERS:
                    values = [results[load, name].group(kind).success for load in loads]
                    axis.plot(loads, values, "o-", label=name, color=plots.colour(name))
                axis.set_title(kind, fontsize=9)
                axis.set_xlabel("load (fraction of the cores)")
            axes[0].set_ylabel("success rate")
            axes[0].legend(fontsize=8)
        report.files.append(path)
        return report


EXPERIMENTS = (SkewedSources(),)
