"""Figures 14 and 15: what Cameo loses when it knows less, or knows it wrong."""

from __future__ import annotations

from typing import Any, NamedTuple

from laxity.sim.reproduce import plots
from laxity.sim.reproduce.mix import Mix, rows_of, run_mix
from laxity.sim.reproduce.report import Claim, Report
from laxity.sim.reproduce.runner import Bench
from laxity.sim.results import RunResult
from laxity.sim.workloads import GROUP_1, GROUP_2, TARGET_1


class NamedRuns(NamedTuple):
    """Figures 14 and 15: a workload or two, several schedulers."""

    name: str
    title: str
    workloads: dict[str, Mix]
    full: tuple[str, ...]
    quick: tuple[str, ...]

    def run(self, bench: Bench) -> Report:
        times = {"duration": bench.pick(60.0, 12.0), "warmup": bench.pick(11.0, 4.0)}
        points = {
            (label, name): tuple(mix._replace(scheduler=name, seed=bench.seed, **times))
            for label, mix in self.workloads.items()
            for name in bench.pick(self.full, self.quick)
        }
        results: dict[Any, RunResult] = bench.compute(run_mix, points)
        claims: list[Claim] = []
        for label in self.workloads:
            own = {name: result for (which, name), result in results.items() if which == label}
            claims += _claims_14(own) if self.name == "14" else _claims_15(label, own)
        report = Report(self.name, self.title, rows_of("workload", results), claims)
        first = next(iter(self.workloads))
        by_name = {name: result for (label, name), result in results.items() if label == first}
        path = bench.out / f"{self.name}.png"
        with plots.figure(path, 2, title=f"Figure {self.name}: {self.title}") as axes:
            for axis, group in zip(axes, (GROUP_1, GROUP_2), strict=True):
                for index, (name, result) in enumerate(by_name.items()):
                    latencies = result.group(group).latencies
                    axis.bar(index - 0.2, latencies.p50, 0.4, color=plots.colour(name) or "#777777")
                    axis.bar(index + 0.2, latencies.p99, 0.4, color="#bbbbbb")
                axis.set_xticks(range(len(by_name)), list(by_name), fontsize=8)
                axis.set_ylabel("latency (s): p50, p99 (grey)")
                axis.set_title(group, fontsize=9)
            plots.target_line(axes[0], TARGET_1)
        report.files.append(path)
        return report


def _claims_14(results: dict[str, RunResult]) -> list[Claim]:
    def p50(name: str, group: str) -> float:
        return results[name].group(group).latencies.p50

    increase = p50("no semantics", GROUP_2) / p50("cameo", GROUP_2) - 1
    gain_1 = 1 - p50("no semantics", GROUP_1) / max(p50("orleans", GROUP_1), p50("fifo", GROUP_1))
    gain_2 = 1 - p50("no semantics", GROUP_2) / max(p50("orleans", GROUP_2), p50("fifo", GROUP_2))
    return [
        Claim("group 2 median is longer without semantics, by", 0.19, increase, increase > 0, "%"),
        Claim("without semantics, group 1 median below a baseline by up to", 0.38, gain_1,
              gain_1 > 0, "%"),
        Claim("without semantics, group 2 median below a baseline by up to", 0.22, gain_2,
              gain_2 > 0, "%",
              "the fuller the cluster, the larger; the paper does not say how full it was"),
    ]  # fmt: skip


def _claims_15(label: str, results: dict[str, RunResult]) -> list[Claim]:
    def at(name: str, percent: float) -> float:
        own = results[name].group(GROUP_1).latencies.percentile(percent)
        return own / results["sigma=0"].group(GROUP_1).latencies.percentile(percent)

    why = (
        "a wrong priority only changes the order of what waits: a second is little beside group "
        "2's target of two hours, and group 1 alone is done with a window before the next one "
        "closes; the paper does not say how full its cluster was"
    )
    return [
        Claim(f"{label}: median with σ = 1 s, against exact profiles", "stable",
              f"{at('sigma=1', 50):.2f} ×", at("sigma=1", 50) < 1.3),
        Claim(f"{label}: p90 is longer with σ = 1 s, by", 0.555, at("sigma=1", 90) - 1,
              at("sigma=1", 90) > 1.0, "%", why),
        Claim(f"{label}: p90 with σ = 0.1 s", "robust", f"{at('sigma=0.1', 90):.2f} ×",
              at("sigma=0.1", 90) < 1.25),
    ]  # fmt: skip


_SIGMAS = ("sigma=0", "sigma=0.001", "sigma=0.01", "sigma=0.1", "sigma=1")
_NEXT_TO_EACH_OTHER = ("cameo", "no semantics", "orleans", "fifo")
EXPERIMENTS = (
    NamedRuns("14", "without query semantics", {"mixed": Mix("", 12, 15_000.0)},
              _NEXT_TO_EACH_OTHER, _NEXT_TO_EACH_OTHER),
    NamedRuns("15", "perturbed profiles",
              {"mixed": Mix("", 12, 15_000.0),
               "12 group 1 jobs alone": Mix("", 0, 15_000.0, sensitive=12)},
              _SIGMAS, (_SIGMAS[0], *_SIGMAS[3:])),
)  # fmt: skip
