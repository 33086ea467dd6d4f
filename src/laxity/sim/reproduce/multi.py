"""Figures 8 and 13: four latency-sensitive jobs beside bulk jobs, one number growing."""

from __future__ import annotations

from typing import Any, NamedTuple

from laxity.sim.reproduce import plots
from laxity.sim.reproduce.mix import Mix, rows_of, run_mix
from laxity.sim.reproduce.report import Claim, Report, factor
from laxity.sim.reproduce.runner import Bench
from laxity.sim.results import RunResult
from laxity.sim.workloads import GROUP_1, GROUP_2, TARGET_1

Results = dict[Any, RunResult]
"""By (x, scheduler)."""


def worst(results: Results, name: str, percent: float) -> float:
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
        claims = _CLAIMS[self.name](results, bench, base)
        report = Report(self.name, self.title, rows_of(self.x, results), claims, self.note)
        self._plot(bench, report, results)
        return report

    def _plot(self, bench: Bench, report: Report, results: dict[Any, RunResult]) -> None:
        path = bench.out / f"{self.name}.png"
        with plots.figure(
            path, 3, title=f"Figure {self.name}: {self.title}", claims=report.claims
        ) as axes:
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
                if max(x for x, _ in results) >= 10_000:
                    axis.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}K")
            axes[0].legend(fontsize=8)
        report.files.append(path)


def _claims_8a(results: Results, bench: Bench, base: Mix) -> list[Claim]:
    return [
        factor("Orleans against Cameo, group 1 median, up to", 1.6, worst(results, "orleans", 50)),
        factor("Orleans against Cameo, group 1 p99, up to", 1.5, worst(results, "orleans", 99)),
        factor("FIFO against Cameo, group 1 median, up to", 2.0, worst(results, "fifo", 50)),
        factor("FIFO against Cameo, group 1 p99, up to", 1.8, worst(results, "fifo", 99)),
        _stable(results),
        _throughput(results),
    ]


def _claims_8b(results: Results, bench: Bench, base: Mix) -> list[Claim]:
    def median(jobs: float, name: str) -> float:
        return results[jobs, name].group(GROUP_1).latencies.p50

    jobs = sorted({x for x, _ in results})
    growth = [f"{median(n, 'fifo') / median(n, 'cameo'):.1f} × at {n:g} jobs" for n in jobs]
    why = (
        f"an operator that merges waits once for each message behind every operator of its node, "
        f"and each job brings more of them: {', '.join(growth)}. The paper's steps are not given"
    )
    return [
        factor("Orleans against Cameo, group 1 median, up to", 2.2, worst(results, "orleans", 50)),
        factor("Orleans against Cameo, group 1 p99, up to", 2.8, worst(results, "orleans", 99)),
        factor("FIFO against Cameo, group 1 median, up to", 4.6, worst(results, "fifo", 50), why),
        factor("FIFO against Cameo, group 1 p99, up to", 13.6, worst(results, "fifo", 99)),
        _stable(results),
        _throughput(results),
    ]


def _stable(results: Results) -> Claim:
    p99 = [r.group(GROUP_1).latencies.p99 for (_, n), r in results.items() if n == "cameo"]
    return Claim(
        "Cameo stays stable: its worst group 1 p99 over its best",
        "stable",
        f"{max(p99) / min(p99):.2f} ×",
        max(p99) < 2 * min(p99),
    )


def _throughput(results: Results) -> Claim:
    """At the heaviest point, against the better baseline."""
    x = max(x for x, _ in results)
    best = max(results[x, name].throughput(GROUP_2) for name in ("orleans", "fifo"))
    loss = 1 - results[x, "cameo"].throughput(GROUP_2) / best
    return Claim(
        "Cameo's group 2 throughput is lower by", "2.5 %", f"{loss * 100:.1f} %", loss < 0.05
    )


def _claims_8c(results: Results, bench: Bench, base: Mix) -> list[Claim]:
    def met(x: float, name: str) -> float:
        return results[x, name].group(GROUP_1).success

    def kept(x: float, name: str) -> float:
        return _kept(results[x, name], results[4, name])

    return [
        Claim("Cameo meets group 1 deadlines with one thread", 0.9, met(1, "cameo"),
              met(1, "cameo") > max(met(1, "orleans"), met(1, "fifo")), "%"),
        Claim("Cameo keeps group 1 as it was with two threads", "yes", f"{met(2, 'cameo'):.0%} met",
              met(2, "cameo") > 0.95),
        Claim("Orleans and FIFO lose group 1 deadlines with one thread", "large penalties",
              f"{met(1, 'orleans'):.0%} and {met(1, 'fifo'):.0%} met",
              max(met(1, "orleans"), met(1, "fifo")) < 0.5),
        Claim("back-pressure lowers group 1 throughput under Orleans and FIFO, not under Cameo",
              "yes", ", ".join(f"{name} keeps {kept(1, name):.0%}" for name in _ALL),
              kept(1, "cameo") > 0.99 > max(kept(1, "orleans"), kept(1, "fifo")),
              why=_why_8c(results, bench, base)),
    ]  # fmt: skip


def _kept(result: RunResult, usual: RunResult) -> float:
    return result.throughput(GROUP_1) / usual.throughput(GROUP_1)


def _why_8c(results: Results, bench: Bench, base: Mix) -> str:
    """What else queues of two messages a channel, or twice the bulk jobs, would do to Orleans."""
    tried = {
        "two messages a channel under way": base._replace(mailbox=2),
        "twice the bulk jobs and two messages": base._replace(mailbox=2, bulk_jobs=16),
    }
    found = bench.compute(
        run_mix,
        {
            label: tuple(mix._replace(scheduler="orleans", workers=1))
            for label, mix in tried.items()
        },
    )
    outcomes = [
        f"{_kept(result, results[4, 'orleans']):.0%} with {label}"
        for label, result in found.items()
    ]
    return (
        "a group 1 source sends once a second, and is held only while its last message waits: with "
        "one message a channel under way no queue of Orleans is a second long. It would keep "
        + ", ".join(outcomes)
    )


def _claims_13(results: Results, bench: Bench, base: Mix) -> list[Claim]:
    def p99(found: Results, batch: float) -> float:
        return found[batch, "cameo"].group(GROUP_1).latencies.p99

    batches = sorted(x for x, _ in results)
    small = [p99(results, batch) / p99(results, batches[0]) for batch in batches if batch <= 20_000]
    large = p99(results, batches[-1]) / p99(results, batches[0])
    fewer = bench.compute(run_mix, {
        (batch, "cameo"): tuple(base._replace(scheduler="cameo", bulk_jobs=4, batch=batch))
        for batch in (batches[0], 20_000.0)
    })  # fmt: skip
    lighter = p99(fewer, 20_000.0) / p99(fewer, batches[0])
    why = (
        "a worker finishes what it has begun, and a message of 20,000 rows takes 0.2 s, which is "
        "more than group 1 takes without it. How often all workers of a node have begun one "
        f"depends on how many bulk jobs there are: with four instead of eight it is {lighter:.2f} ×"
    )
    return [
        Claim("group 1 p99 up to 20K batches, against 1K", "unaffected", f"{max(small):.2f} ×",
              max(small) < 1.5, why=why),
        Claim("group 1 p99 at the largest batch, against 1K", "degrades from 40K on",
              f"{large:.2f} ×", large > max(small)),
    ]  # fmt: skip


_CLAIMS = {"8a": _claims_8a, "8b": _claims_8b, "8c": _claims_8c, "13": _claims_13}

_K = 1000.0
_FITTED = (
    "Fitted: how many messages a channel may have under way was chosen with figures 8a and 8b in "
    "view; `laxity reproduce sensitivity` shows what other numbers give."
)
EXPERIMENTS = (
    Sweep("8a", "group 2 ingestion rate grows", "rows/s a source",
          (10 * _K, 20 * _K, 30 * _K, 40 * _K, 50 * _K, 60 * _K), (20 * _K, 50 * _K),
          "rate", Mix("", 4), note=_FITTED),
    Sweep("8b", "group 2 tenants grow", "group 2 jobs",
          (4, 8, 12, 14, 16), (8, 14, 16), "bulk_jobs", Mix("", 0),
          note=_FITTED),
    Sweep("8c", "worker threads shrink", "threads a node",
          (4, 3, 2, 1), (4, 2, 1), "workers", Mix("")),
    Sweep("13", "batch size grows at the same rate", "rows a message",
          (1 * _K, 5 * _K, 10 * _K, 20 * _K, 40 * _K, 80 * _K), (1 * _K, 20 * _K, 80 * _K),
          "batch", Mix(""), ("cameo",)),
)  # fmt: skip
