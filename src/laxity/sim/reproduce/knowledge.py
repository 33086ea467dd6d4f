"""Figures 14 and 15: what Cameo loses when it knows less, or knows it wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from laxity.sim.reproduce import plots
from laxity.sim.reproduce.mix import Mix, rows_of, run_mix
from laxity.sim.reproduce.report import Claim, Report, Row
from laxity.sim.reproduce.runner import Bench
from laxity.sim.reproduce.single import run_query
from laxity.sim.results import Latencies, RunResult
from laxity.sim.workloads import GROUP_1, GROUP_2, TARGET_1

_COMPARED = ("cameo", "no semantics", "orleans", "fifo")
_SIGMAS = ("sigma=0", "sigma=0.001", "sigma=0.01", "sigma=0.1", "sigma=1")
_HALF_FULL = 34
"""Group 1 jobs that keep the cluster half busy."""

Named = dict[str, RunResult]
"""Results by scheduler."""


class Semantics(NamedTuple):
    name: str = "14"
    title: str = "without query semantics"

    def run(self, bench: Bench) -> Report:
        usual = Mix("").bulk_jobs
        others = bench.pick((4, 12), (4,))
        duration = bench.pick(60.0, 10.0)
        points = {
            (jobs, name): tuple(Mix(name, jobs, duration=duration, warmup=11.0, seed=bench.seed))
            for jobs in (usual, *others)
            for name in _COMPARED
        }
        results: dict[Any, RunResult] = bench.compute(run_mix, points)
        by_jobs = {n: {name: results[n, name] for name in _COMPARED} for n in (usual, *others)}
        own = by_jobs.pop(usual)

        def elsewhere(of: Callable[[Named], float]) -> str:
            return ", ".join(f"{of(found):.0%} with {n}" for n, found in by_jobs.items())

        def gain(group: str) -> Callable[[Named], float]:
            return lambda found: _gain(found, group)

        full = "it grows as the cluster fills, and the paper does not say how full it was: "
        small = (
            "without load group 2 takes 0.09 s here, so each wait counts for much. Bulk jobs: "
            f"{_increase(own):.0%} with {usual}, {elsewhere(_increase)}"
        )
        report = Report(self.name, self.title, rows_of("group 2 jobs", results), [
            Claim("group 2 median is longer without semantics, by", 0.19, _increase(own),
                  _increase(own) > 0, "%", small),
            Claim("without semantics, group 1 median below a baseline by up to", 0.38,
                  gain(GROUP_1)(own), gain(GROUP_1)(own) > 0, "%",
                  f"{full}{elsewhere(gain(GROUP_1))} bulk jobs"),
            Claim("without semantics, group 2 median below a baseline by up to", 0.22,
                  gain(GROUP_2)(own), gain(GROUP_2)(own) > 0, "%",
                  f"{full}{elsewhere(gain(GROUP_2))} bulk jobs"),
        ])  # fmt: skip
        path = bench.out / f"{self.name}.png"
        with plots.figure(path, 2, title=f"Figure 14: {self.title}", claims=report.claims) as axes:
            for axis, group in zip(axes, (GROUP_1, GROUP_2), strict=True):
                _bars(axis, {name: own[name].group(group).latencies for name in _COMPARED})
                axis.set_title(group, fontsize=9)
            plots.target_line(axes[0], TARGET_1)
        report.files.append(path)
        return report


def _gain(found: Named, group: str) -> float:
    """By how much Cameo without semantics is below the worse baseline, at the median."""
    p50 = {name: result.group(group).latencies.p50 for name, result in found.items()}
    return 1 - p50["no semantics"] / max(p50["orleans"], p50["fifo"])


def _increase(found: Named) -> float:
    p50 = {name: result.group(GROUP_2).latencies.p50 for name, result in found.items()}
    return p50["no semantics"] / p50["cameo"] - 1


class Profiles(NamedTuple):
    """The paper does not say which jobs these were, nor how full the cluster was. So: the mix most
    figures have, group 1 alone, and a query that nearly fills its machine."""

    name: str = "15"
    title: str = "perturbed profiles"

    def run(self, bench: Bench) -> Report:
        sigmas = bench.pick(_SIGMAS, (_SIGMAS[0], *_SIGMAS[3:]))
        duration = bench.pick(60.0, 12.0)
        mixes = {
            "four group 1 jobs beside group 2": Mix(""),
            f"{_HALF_FULL} group 1 jobs alone": Mix("", 0, sensitive=_HALF_FULL),
        }
        mixed: dict[Any, RunResult] = bench.compute(run_mix, {
            (label, sigma): tuple(
                mix._replace(scheduler=sigma, duration=duration, warmup=6.0, seed=bench.seed)
            )
            for label, mix in mixes.items() for sigma in sigmas
        })  # fmt: skip
        single: dict[Any, RunResult] = bench.compute(
            run_query, {("IPQ1", s): ("IPQ1", s, 2 * duration, bench.seed) for s in sigmas}
        )
        found = {key: result.group(GROUP_1).latencies for key, result in mixed.items()}
        found |= {key: result.group("IPQ1").latencies for key, result in single.items()}
        busy = {key: result.busy for key, result in (mixed | single).items()}
        rows: list[Row] = [
            {"workload": label, "profiles": sigma, "p50_s": own.p50, "p90_s": own.percentile(90),
             "p99_s": own.p99, "utilisation": busy[label, sigma]}
            for (label, sigma), own in found.items()
        ]  # fmt: skip
        labels = (*mixes, "IPQ1")
        by_label = {label: {s: found[label, s] for s in sigmas} for label in labels}
        tails = [
            f"{_ratio(own, 'sigma=1', 90):.2f} × for {label}, {busy[label, 'sigma=0']:.0%} busy"
            for label, own in by_label.items()
        ]
        why = (
            "a wrong priority only changes the order of what waits. Beside group 2 (target two "
            "hours) and in a half-empty cluster little of group 1 does; where a query nearly fills "
            "its machine much does. The p90 with σ = 1 s against exact profiles: "
            + "; ".join(tails)
        )
        claims = [claim for label, own in by_label.items() for claim in _robust(label, own, why)]
        report = Report(self.name, self.title, rows, claims)
        path = bench.out / f"{self.name}.png"
        with plots.figure(
            path, len(labels), title=f"Figure 15: {self.title}", claims=claims
        ) as axes:
            for axis, (label, own) in zip(axes, by_label.items(), strict=True):
                _bars(axis, {s.replace("sigma=", "σ = ") + " s": own[s] for s in sigmas})
                axis.set_title(label, fontsize=9)
        report.files.append(path)
        return report


def _ratio(found: dict[str, Latencies], sigma: str, percent: float) -> float:
    return found[sigma].percentile(percent) / found["sigma=0"].percentile(percent)


def _robust(label: str, found: dict[str, Latencies], why: str) -> list[Claim]:
    middle, tail = _ratio(found, "sigma=1", 50), _ratio(found, "sigma=1", 90)
    slight = _ratio(found, "sigma=0.1", 90)
    return [
        Claim(f"{label}: median with σ = 1 s, against exact profiles", "stable", f"{middle:.2f} ×",
              middle < 1.3, why=why),
        Claim(f"{label}: p90 is longer with σ = 1 s, by", 0.555, tail - 1, tail > 1.0, "%", why),
        Claim(f"{label}: p90 with σ = 0.1 s", "robust", f"{slight:.2f} ×", slight < 1.25, why=why),
    ]  # fmt: skip


def _bars(axis: Any, found: dict[str, Latencies]) -> None:
    """The median of each in its colour, the p99 in grey."""
    for index, (name, own) in enumerate(found.items()):
        shade = plots.colour(name) or "#0b6e4f"
        axis.bar(index - 0.2, own.p50, 0.4, color=shade, label=None if index else "p50")
        axis.bar(index + 0.2, own.p99, 0.4, color="#bbbbbb", label=None if index else "p99")
    axis.set_xticks(range(len(found)), list(found), fontsize=8)
    axis.set_ylabel("latency (s)")
    axis.legend(fontsize=8)


EXPERIMENTS = (Semantics(), Profiles())
