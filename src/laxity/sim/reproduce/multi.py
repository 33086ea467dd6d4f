"""Figures 8, 13, 14 and 15: four latency-sensitive jobs beside bulk jobs."""

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
from laxity.sim.reproduce import plots
from laxity.sim.reproduce.report import Claim, Report, Row, factor
from laxity.sim.reproduce.runner import Bench
from laxity.sim.results import RunResult
from laxity.sim.schedulers import Cameo, Fifo, Orleans, Scheduler, Slots
from laxity.sim.simulation import simulate
from laxity.sim.workloads import GROUP_1, GROUP_2, TARGET_1, mixed

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
        "no semantics": Cameo(WithoutSemantics(), name="no semantics"),
        "llf": Cameo(LeastLaxityFirst()),
        "edf": Cameo(EarliestDeadlineFirst()),
        "sjf": Cameo(ShortestJobFirst()),
        "token": Cameo(TokenFairSharing()),
    }
    return known[name]


class Mix(NamedTuple):
    """Group 1 and group 2 jobs, and all else that a point needs."""

    scheduler: str
    bulk_jobs: int
    rate: float
    batch: float = 1000.0
    workers: int = CLUSTER.workers
    duration: float = 30.0
    warmup: float = 10.0
    seed: int = 1
    sensitive: int = 4


def run_mix(*fields: Any) -> RunResult:
    mix = Mix(*fields)
    flows = mixed(mix.bulk_jobs, mix.rate, sensitive=mix.sensitive, batch=mix.batch)
    cluster = replace(CLUSTER, workers=mix.workers)
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


def worst(results: dict[Any, RunResult], name: str, percent: float) -> float:
    """How many times worse than Cameo a scheduler gets for group 1, over all x."""
    values = {x for x, _ in results}
    return max(
        results[x, name].group(GROUP_1).latencies.percentile(percent)
        / results[x, "cameo"].group(GROUP_1).latencies.percentile(percent)
        for x in values
    )


_ALL = ("cameo", "orleans", "fifo")


class Sweep(NamedTuple):
    """A figure with one x-axis: latencies of group 1 and 2, and throughput of group 2."""

    name: str
    title: str
    x: str
    full: tuple[float, ...]
    quick: tuple[float, ...]
    field: str
    base: Mix
    schedulers: tuple[str, ...] = _ALL
    note: str = ""

    def run(self, bench: Bench) -> Report:
        base = self.base._replace(
            duration=bench.pick(30.0, 10.0), warmup=bench.pick(11.0, 4.0), seed=bench.seed
        )
        points = {
            (value, name): tuple(base._replace(**{self.field: value, "scheduler": name}))
            for value in bench.pick(self.full, self.quick)
            for name in self.schedulers
        }
        results: dict[Any, RunResult] = bench.compute(run_mix, points)
        claims = _CLAIMS[self.name](results)
        report = Report(self.name, self.title, rows_of(self.x, results), claims, self.note)
        self._plot(bench, report, results)
        return report

    def _plot(self, bench: Bench, report: Report, results: dict[Any, RunResult]) -> None:
        path = bench.out / f"{self.name}.png"
        with plots.figure(path, 3, title=f"Figure {self.name}: {self.title}") as axes:
            for name in self.schedulers:
                own = {x: result for (x, n), result in results.items() if n == name}
                for axis, group in zip(axes, (GROUP_1, GROUP_2), strict=False):
                    stats = [result.group(group).latencies for result in own.values()]
                    shade = plots.colour(name)
                    axis.plot(list(own), [s.p50 for s in stats], "o-", color=shade, label=name)
                    axis.plot(list(own), [s.p99 for s in stats], "x--", color=shade)
                    axis.set_title(f"{group}: p50 (solid), p99 (dashed)", fontsize=9)
                    axis.set_ylabel("latency (s)")
                    axis.set_yscale("log")
                rates = [result.throughput(GROUP_2) / 1e6 for result in own.values()]
                axes[2].plot(list(own), rates, "o-", color=plots.colour(name), label=name)
            plots.target_line(axes[0], TARGET_1)
            axes[2].set_title("group 2 throughput", fontsize=9)
            axes[2].set_ylabel("million rows/s")
            for axis in axes:
                axis.set_xlabel(self.x)
            axes[0].legend(fontsize=8)
        report.files.append(path)


def _claims_8a(results: dict[Any, RunResult]) -> list[Claim]:
    return [
        factor("Orleans against Cameo, group 1 median, up to", 1.6, worst(results, "orleans", 50)),
        factor("Orleans against Cameo, group 1 p99, up to", 1.5, worst(results, "orleans", 99)),
        factor("FIFO against Cameo, group 1 median, up to", 2.0, worst(results, "fifo", 50)),
        factor("FIFO against Cameo, group 1 p99, up to", 1.8, worst(results, "fifo", 99)),
        _stable(results),
        _throughput(results),
    ]


def _claims_8b(results: dict[Any, RunResult]) -> list[Claim]:
    return [
        factor("Orleans against Cameo, group 1 median, up to", 2.2, worst(results, "orleans", 50)),
        factor("Orleans against Cameo, group 1 p99, up to", 2.8, worst(results, "orleans", 99)),
        factor("FIFO against Cameo, group 1 median, up to", 4.6, worst(results, "fifo", 50)),
        factor("FIFO against Cameo, group 1 p99, up to", 13.6, worst(results, "fifo", 99)),
        _stable(results),
        _throughput(results),
    ]


def _stable(results: dict[Any, RunResult]) -> Claim:
    p99 = [r.group(GROUP_1).latencies.p99 for (_, n), r in results.items() if n == "cameo"]
    return Claim(
        "Cameo stays stable: its worst group 1 p99 over its best",
        "stable",
        f"{max(p99) / min(p99):.2f} ×",
        max(p99) < 2 * min(p99),
    )


def _throughput(results: dict[Any, RunResult]) -> Claim:
    """At the heaviest point, against the better baseline."""
    x = max(x for x, _ in results)
    best = max(results[x, name].throughput(GROUP_2) for name in ("orleans", "fifo"))
    loss = 1 - results[x, "cameo"].throughput(GROUP_2) / best
    return Claim(
        "Cameo's group 2 throughput is lower by", "2.5 %", f"{loss * 100:.1f} %", loss < 0.05
    )


def _claims_8c(results: dict[Any, RunResult]) -> list[Claim]:
    def met(x: float, name: str) -> float:
        return results[x, name].group(GROUP_1).success

    def kept(x: float, name: str) -> float:
        return results[x, name].throughput(GROUP_1) / results[4, name].throughput(GROUP_1)

    return [
        Claim("Cameo meets group 1 deadlines with one thread", 0.9, met(1, "cameo"),
              met(1, "cameo") > max(met(1, "orleans"), met(1, "fifo")), "%"),
        Claim("Cameo keeps group 1 as it was with two threads", "yes", f"{met(2, 'cameo'):.0%} met",
              met(2, "cameo") > 0.95),
        Claim("Orleans and FIFO lose group 1 deadlines with one thread", "large penalties",
              f"{met(1, 'orleans'):.0%} and {met(1, 'fifo'):.0%} met",
              max(met(1, "orleans"), met(1, "fifo")) < 0.5),
        Claim("back-pressure lowers group 1 throughput under Orleans and FIFO, not under Cameo",
              "yes",
              ", ".join(f"{name} keeps {kept(1, name):.0%}" for name in _ALL),
              kept(1, "cameo") > 0.99 > max(kept(1, "orleans"), kept(1, "fifo")),
              why="a group 1 source sends one message a second and is held only where two of its "
              "messages wait, which takes latencies of seconds"),
    ]  # fmt: skip


def _claims_13(results: dict[Any, RunResult]) -> list[Claim]:
    def p99(batch: float) -> float:
        return results[batch, "cameo"].group(GROUP_1).latencies.p99

    batches = sorted(x for x, _ in results)
    small = [p99(batch) / p99(batches[0]) for batch in batches if batch <= 20_000]
    large = p99(batches[-1]) / p99(batches[0])
    return [
        Claim("group 1 p99 up to 20K batches, against 1K", "unaffected", f"{max(small):.2f} ×",
              max(small) < 1.5),
        Claim("group 1 p99 at the largest batch, against 1K", "degrades from 40K on",
              f"{large:.2f} ×", large > max(small)),
    ]  # fmt: skip


_CLAIMS = {"8a": _claims_8a, "8b": _claims_8b, "8c": _claims_8c, "13": _claims_13}

_K = 1000.0
_FITTED = (
    "Fitted: the mailbox, group 1's merge cost and group 2's rate were chosen with figures 8a and "
    "8b in view; `laxity reproduce sensitivity` shows what other numbers give."
)
SWEEPS = (
    Sweep("8a", "group 2 ingestion rate grows", "rows/s a source",
          (10 * _K, 20 * _K, 30 * _K, 40 * _K, 50 * _K, 60 * _K), (20 * _K, 60 * _K),
          "rate", Mix("", 4, 0.0), note=_FITTED),
    Sweep("8b", "group 2 tenants grow", "group 2 jobs",
          (4, 8, 12, 16, 18), (8, 18), "bulk_jobs", Mix("", 0, 15 * _K),
          note=_FITTED),
    Sweep("8c", "worker threads shrink", "threads a node",
          (4, 3, 2, 1), (4, 2, 1), "workers", Mix("", 4, 20 * _K)),
    Sweep("13", "batch size grows at the same rate", "rows a message",
          (1 * _K, 5 * _K, 10 * _K, 20 * _K, 40 * _K, 80 * _K), (1 * _K, 20 * _K, 80 * _K),
          "batch", Mix("", 8, 20 * _K), ("cameo",)),
)  # fmt: skip


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
        "a second is little beside group 2's target of two hours, and within group 1 all messages "
        "of a stage are off by the same amount until its rule is compiled anew (16 messages)"
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
NAMED = (
    NamedRuns("14", "without query semantics", {"mixed": Mix("", 12, 15 * _K)},
              _NEXT_TO_EACH_OTHER, _NEXT_TO_EACH_OTHER),
    NamedRuns("15", "perturbed profiles",
              {"mixed": Mix("", 12, 15 * _K),
               "12 group 1 jobs alone": Mix("", 0, 15 * _K, sensitive=12)},
              _SIGMAS, (_SIGMAS[0], *_SIGMAS[3:])),
)  # fmt: skip

EXPERIMENTS = (*SWEEPS, *NAMED)
