"""Neptune's evaluation (§5), at its scale: 15 nodes, 2,250 computations, 1,050 of them active after
the dormant ones on five nodes wake. Figures are named n4, n7 and so on; tables go with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from laxity.sim.fleet import CAPACITY, HOT, NODES, FleetRun, Setup, node_cost, run_fleet
from laxity.sim.reproduce import plots
from laxity.sim.reproduce.report import Claim, Report, Row
from laxity.sim.reproduce.runner import Bench

EXTERNAL = (0.3, 0.4, 0.5)
"""Part of a node that other processes take. The paper does not say, so three are shown."""
ACTIVE = 1050
CORE = "of one core here; of a whole node in the paper"
FITTED = (
    "The cost of contention is fitted to the +83.9 % of table 2; capacity, rates, thresholds and "
    "the share of external load are ours, for the paper does not give them."
)


def runs(bench: Bench, setups: dict[str, Setup]) -> dict[str, FleetRun]:
    minutes = bench.pick(70.0, 30.0)
    points = {
        key: (s.migrate, s.variable, s.external, s.even, s.amplifier, minutes, bench.seed)
        for key, s in setups.items()
    }
    return bench.compute(run_fleet, points)


def three(**fields: Any) -> dict[str, Setup]:
    """The paper's three lines: as it begins, with the fleet, and evenly placed."""
    ideal = {**fields, "external": 0.0, "even": True}
    return {
        "initial": Setup(migrate=False, **fields),
        "fleet": Setup(**fields),
        "near ideal": Setup(migrate=False, **ideal),
    }


def series(found: dict[str, FleetRun]) -> list[Row]:
    return [
        {"run": key, "minute": t / 60, "throughput": x, "p99": p, "deviation": d, "migrations": m}
        for key, run in found.items()
        for t, x, p, d, m in zip(
            run.times, run.throughput, run.p99, run.deviation, run.counts, strict=True
        )
    ]


def gain(found: dict[str, FleetRun], of: Callable[[FleetRun], list[float]], base: str) -> float:
    """How far the settled fleet deviates from another run."""
    own, other = found["fleet"], found[base]
    return own.settled(of(own)) / other.settled(of(other)) - 1


def lines(bench: Bench, name: str, title: str, found: dict[str, FleetRun], *what: str) -> Any:
    path = bench.out / f"{name}.png"
    with plots.figure(path, len(what), title=title) as axes:
        for axis, kind in zip(axes, what, strict=True):
            for key, run in found.items():
                axis.plot([t / 60 for t in run.times], getattr(run, kind), label=key, lw=1)
            axis.set_xlabel("minutes")
            axis.set_ylabel(kind)
            axis.legend(fontsize=7)
    return path


def percent(what: str, paper: float, ours: float, why: str = "") -> Claim:
    """A relative change; the direction holds if both go the same way."""
    what = f"{what}, {'more' if paper > 0 else 'less'}"
    ours = ours if paper > 0 else -ours
    return Claim(what, abs(paper), ours, ours > 0, "%", why)


class Forecast(NamedTuple):
    name: str = "n4"
    title: str = "Holt-Winters against the arrivals of one computation"

    def run(self, bench: Bench) -> Report:
        run = runs(bench, {"v": Setup(migrate=False, variable=True)})["v"]
        rows: list[Row] = [{"second": t, "expected": e, "seen": s} for t, e, s in run.forecast]
        late = np.array(run.forecast[len(run.forecast) // 2 :])
        error = float(np.abs(late[:, 1] - late[:, 2]).mean() / late[:, 2].mean())
        claim = Claim("mean error of the next step", "the pattern is captured", f"{error:.1%}",
                      error < 0.1)  # fmt: skip
        report = Report(self.name, self.title, rows, [claim], "The load itself has 3 % of noise.")
        path = bench.out / f"{self.name}.png"
        with plots.figure(path, title=f"Neptune, figure 4: {self.title}") as (axis,):
            shown = np.array(run.forecast[:150])
            axis.plot(shown[:, 0], shown[:, 2], label="seen", lw=1)
            axis.plot(shown[:, 0], shown[:, 1], label="expected", lw=1)
            axis.set_xlabel("seconds")
            axis.legend(fontsize=7)
        report.files.append(path)
        return report


def variable(bench: Bench) -> FleetRun:
    return runs(bench, {"fleet": Setup(variable=True)})["fleet"]


class Variable(NamedTuple):
    name: str = "n7"
    title: str = "variable rates, internal interference: throughput; table 2"

    def run(self, bench: Bench) -> Report:
        found = runs(bench, three(variable=True))
        claims = [
            percent("throughput against the beginning", 0.48891,
                    gain(found, lambda r: r.throughput, "initial")),
            Claim("throughput against near ideal", "-0.0 %",
                  f"{gain(found, lambda r: r.throughput, 'near ideal'):+.1%}",
                  gain(found, lambda r: r.throughput, "near ideal") > -0.05),
        ]  # fmt: skip
        report = Report(self.name, self.title, series(found), claims, FITTED)
        report.files.append(lines(bench, self.name, "Neptune, figure 7", found, "throughput"))
        return report


class Use(NamedTuple):
    name: str = "n10"
    title: str = "variable rates: how evenly nodes are used; table 3"

    def run(self, bench: Bench) -> Report:
        run = variable(bench)
        use = np.array(run.use)
        minutes = np.array(run.times) / 60
        paper = {1: (0.1727, 0.1023), 10: (0.2012, 0.0805), 25: (0.2919, 0.0082),
                 70: (0.2836, 0.0098)}  # fmt: skip
        at = {m: use[min(int(m * 12), len(use) - 1)] for m in paper if m <= minutes[-1] + 1}
        spread = [float(u.std()) for u in at.values()]
        means = [float(u.mean()) for u in at.values()]
        times = ", ".join(str(m) for m in at)
        claims = [
            Claim(f"deviation of use between nodes at {times} minutes: falls",
                  ", ".join(f"{paper[m][1]:.3f}" for m in at),
                  ", ".join(f"{s:.3f}" for s in spread), spread[2] < spread[1] < spread[0]),
            Claim(f"mean use at {times} minutes: grows, as more is served",
                  ", ".join(f"{paper[m][0]:.3f}" for m in at),
                  ", ".join(f"{m:.3f}" for m in means), means[2] > means[0]),
        ]  # fmt: skip
        rows: list[Row] = [
            {"minute": float(m), **{f"node {n}": float(v) for n, v in enumerate(u)}}
            for m, u in zip(minutes, use, strict=True)
        ]
        report = Report(self.name, self.title, rows, claims, FITTED)
        path = bench.out / f"{self.name}.png"
        with plots.figure(path, title="Neptune, figure 10: use of each node") as (axis,):
            axis.plot(minutes, use, lw=0.7)
            axis.set_xlabel("minutes")
            axis.set_ylabel("part of the node in use")
        report.files.append(path)
        return report


class Threshold(NamedTuple):
    name: str = "n12"
    title: str = "variable rates: the threshold of ΔI follows the variance of scores"

    def run(self, bench: Bench) -> Report:
        run = variable(bench)
        settled = run.times[-1] - 600
        first = [v for t, _, v in run.thresholds if t < 300]
        last = [v for t, _, v in run.thresholds if t >= settled]
        low = [x for t, x, _ in run.thresholds if t < 300]
        high = [x for t, x, _ in run.thresholds if t >= settled]

        def mean(values: list[float]) -> float:
            return float(np.mean(values)) if values else math.nan

        claims = [
            Claim("variance of scores, first five minutes and last ten", "falls",
                  f"{mean(first):.3f}, {mean(last):.3f}", mean(last) < mean(first)),
            Claim("threshold of ΔI, likewise", "from 5 % up",
                  f"{mean(low):.0%}, {mean(high):.0%}", mean(high) > mean(low)),
        ]  # fmt: skip
        rows: list[Row] = [
            {"minute": t / 60, "threshold": x, "variance": v} for t, x, v in run.thresholds
        ]
        report = Report(self.name, self.title, rows, claims, "The steps of the threshold are ours.")
        path = bench.out / f"{self.name}.png"
        with plots.figure(path, 2, title="Neptune, figure 12") as axes:
            for axis, which, label in zip(axes, (1, 2), ("ΔI to exceed", "variance"), strict=True):
                points = [(e[0] / 60, e[which]) for e in run.thresholds]
                axis.plot(*zip(*points, strict=True), ".", ms=3)
                axis.set_xlabel("minutes")
                axis.set_ylabel(label)
        report.files.append(path)
        return report


class Stability(NamedTuple):
    name: str = "n13"
    title: str = "variable rates: migrations in every two minutes"

    def run(self, bench: Bench) -> Report:
        run = variable(bench)
        slots = int(run.times[-1] // 120) + 1
        counts = np.bincount((np.array(run.migrations) // 120).astype(int), minlength=slots)
        claims = [
            Claim("migrations in the first ten minutes, and in the last ten", "fall",
                  f"{counts[:5].sum()}, {counts[-5:].sum()}",
                  bool(counts[:5].sum() > counts[-5:].sum())),
            Claim("a migration takes", "54.68 ms",
                  "no time here; measured on Spark (docs/fleet-on-spark.md)", False,
                  comparable=False),
        ]  # fmt: skip
        rows: list[Row] = [{"minute": 2 * n, "migrations": int(c)} for n, c in enumerate(counts)]
        report = Report(self.name, self.title, rows, claims)
        path = bench.out / f"{self.name}.png"
        with plots.figure(path, title="Neptune, figure 13") as (axis,):
            axis.bar(2 * np.arange(counts.size), counts, width=1.6)
            axis.set_xlabel("minutes")
            axis.set_ylabel("migrations in two minutes")
        report.files.append(path)
        return report


class Amplifier(NamedTuple):
    name: str = "n8"
    title: str = "the amplifier n from 2 to 6"

    def run(self, bench: Bench) -> Report:
        found = runs(bench, {f"n={n}": Setup(amplifier=n) for n in range(2, 7)})
        claims = []
        for key, run in found.items():
            best = next(
                (t for t, x in zip(run.times, run.throughput, strict=True) if x > 0.99 * 1050), None
            )
            text = "never" if best is None else f"{best / 60:.0f} min"
            holds = not run.migrations
            paper = {"n=2": "no migrations", "n=3": "the fastest"}.get(key, "slower, less stable")
            claims.append(Claim(f"{key}: until 99 % of all throughput; migrations", paper,
                                f"{text}; {len(run.migrations)}", holds,
                                comparable=key == "n=2",
                                why="depends on the threshold of scores: ours"))  # fmt: skip
        report = Report(self.name, self.title, series(found), claims, FITTED)
        report.files.append(
            lines(bench, self.name, "Neptune, figure 8", found, "throughput", "counts")
        )
        return report


class Fixed(NamedTuple):
    name: str = "n9"
    title: str = "fixed rates, internal interference; table 2"

    def run(self, bench: Bench) -> Report:
        found = runs(bench, three())
        why = "the model's waiting on a saturated node is far longer than the paper's"
        claims = [
            percent("throughput against the beginning (fitted)", 0.83932,
                    gain(found, lambda r: r.throughput, "initial")),
            Claim("throughput against near ideal", "-0.4 %",
                  f"{gain(found, lambda r: r.throughput, 'near ideal'):+.1%}",
                  gain(found, lambda r: r.throughput, "near ideal") > -0.05),
            percent("p99 against the beginning", -0.05241,
                    gain(found, lambda r: r.p99, "initial"), why),
            percent("p99 against near ideal", 0.04768, gain(found, lambda r: r.p99, "near ideal")),
            percent("deviation of latency against the beginning", -0.15845,
                    gain(found, lambda r: r.deviation, "initial"), why),
            percent("deviation of latency against near ideal", 0.12672,
                    gain(found, lambda r: r.deviation, "near ideal")),
        ]  # fmt: skip
        report = Report(self.name, self.title, series(found), claims, FITTED)
        report.files.append(
            lines(bench, self.name, "Neptune, figure 9", found, "throughput", "p99", "deviation")
        )
        return report


class External(NamedTuple):
    name: str = "n11"
    title: str = "external interference on a third of the nodes; table 4"

    def run(self, bench: Bench) -> Report:
        found: dict[str, FleetRun] = {}
        claims = []
        for share in EXTERNAL:
            runs_of = runs(bench, three(external=share))
            settled = {key: run.settled(run.throughput) for key, run in runs_of.items()}
            lost = settled["near ideal"] - settled["initial"]
            recovered = (settled["fleet"] - settled["initial"]) / lost
            where = f"others take {share:.0%}"
            room = (NODES - HOT) * CAPACITY + HOT * CAPACITY * (1 - share)
            full = f"{ACTIVE / room:.0%} of all room is asked for: somebody always waits"
            claims += [
                Claim(f"{where}: lost throughput that is recovered", 0.7725, recovered,
                      recovered > 0, "%", "" if room > ACTIVE else full),
                percent(f"{where}: p99 against the beginning", -0.82,
                        gain(runs_of, lambda r: r.p99, "initial"), full),
                percent(f"{where}: deviation against the beginning", -0.82,
                        gain(runs_of, lambda r: r.deviation, "initial"), full),
            ]  # fmt: skip
            found |= {f"{key}, {share:.0%}": run for key, run in runs_of.items()}
        report = Report(self.name, self.title, series(found), claims, FITTED)
        shown = {key: run for key, run in found.items() if key.endswith(f"{EXTERNAL[1]:.0%}")}
        report.files.append(
            lines(bench, self.name, "Neptune, figure 11", shown, "throughput", "p99", "deviation")
        )
        return report


class Overhead(NamedTuple):
    name: str = "n14"
    title: str = "what rings and scores cost a node, with moves turned off"

    def run(self, bench: Bench) -> Report:
        counts = (70, 150) if bench.quick else (30, 70, 150, 300)
        cost = {n: node_cost(n, steps=bench.pick(60, 180)) for n in counts}
        share, kilobytes = cost[150]
        claims = [
            Claim("CPU more, 150 computations", 0.0033, share, share < 0.01, "%", CORE,
                  tolerance=5.0),
            Claim("memory more, by computation", "not significant", f"{kilobytes:.1f} KiB",
                  kilobytes < 64),
        ]  # fmt: skip
        rows: list[Row] = [
            {"computations": n, "share of a core": s, "KiB a computation": k}
            for n, (s, k) in cost.items()
        ]
        note = "CPU time of this machine, so it differs from run to run; all else here does not."
        report = Report(self.name, self.title, rows, claims, note)
        path = bench.out / f"{self.name}.png"
        with plots.figure(path, title="Neptune, figure 14: CPU of rings and scores") as (axis,):
            axis.plot(list(cost), [100 * s for s, _ in cost.values()], "o-")
            axis.axhline(0.33, color="grey", ls=":", label="paper, of a node")
            axis.set_xlabel("computations")
            axis.set_ylabel("% of a core")
            axis.legend(fontsize=7)
        report.files.append(path)
        return report


EXPERIMENTS = (
    Forecast(), Variable(), Amplifier(), Fixed(), Use(), External(), Threshold(), Stability(),
    Overhead(),
)  # fmt: skip
NAMES = tuple(e.name for e in EXPERIMENTS)
