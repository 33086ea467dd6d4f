"""Chi's figures 8 and 9: what control costs the data, and how long it takes.

Figure 7 compares three real engines with each other and has no counterpart in a simulator.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from laxity.control.trees import Tree, is_tree_node
from laxity.sim.barriers import overhead_point
from laxity.sim.reproduce import plots
from laxity.sim.reproduce.report import Claim, Report, Row
from laxity.sim.reproduce.runner import Bench

WORKLOADS = {"YSB": (0.51, 0.74, 0.89), "IPQ1": (0.56, 0.73, 0.94)}
"""Average CPU at the paper's three ingestion rates."""

RATES = (1, 10, 100)
SERVICE = {"YSB": 1e-3, "IPQ1": 2e-3}
"""A reducer's mean seconds for its part of a batch; IPQ1 is the heavier one. Assumed."""


class ControlOverhead(NamedTuple):
    name: str = "chi-8"
    title: str = "Chi, figure 8: control beside data"

    def run(self, bench: Bench) -> Report:
        width, duration = bench.pick((16, 20.0), (6, 3.0))
        workloads = bench.pick(tuple(WORKLOADS), ("IPQ1",))
        points = {
            (w, load, rate, blocking): (
                width, load, SERVICE[w], float(rate), blocking, duration, bench.seed
            )
            for w in workloads
            for load in WORKLOADS[w]
            for rate, blocking in [(0, False), *((r, b) for r in RATES for b in (False, True))]
        }  # fmt: skip
        found = bench.compute(overhead_point, points)
        rows: list[Row] = []
        for (w, load, rate, blocking), result in found.items():
            base = found[w, load, 0, False]["latency"]
            rows.append({
                "workload": w, "load": load, "control_per_s": rate,
                "kind": "none" if not rate else "blocking" if blocking else "non-blocking",
                "data_latency_ms": result["latency"] * 1e3,
                "increase": result["latency"] / base - 1,
                "completion_ms": result["completion"] * 1e3,
            })  # fmt: skip

        def cell(load: float, rate: int, kind: str, what: str) -> float:
            wanted = ("IPQ1", load, rate, kind)
            return next(
                float(r[what]) for r in rows
                if (r["workload"], r["load"], r["control_per_s"], r["kind"]) == wanted
            )  # fmt: skip

        low, _, high = WORKLOADS["IPQ1"]
        worst = cell(high, 100, "blocking", "increase")
        free = cell(high, 100, "non-blocking", "increase")
        waits = cell(high, 10, "blocking", "completion_ms")
        passes = cell(high, 10, "non-blocking", "completion_ms")
        data = cell(high, 0, "none", "data_latency_ms")
        calm = cell(low, 10, "blocking", "completion_ms")
        conserves = (
            "an operator here goes on with its other channels while one is blocked: who waits "
            "changes, the mean hardly does"
        )
        claims = [
            Claim("IPQ1 at 94 % CPU, 100 blocking messages/s: data latency", "below +20 %",
                  f"{worst:+.1%}", worst < 0.20),
            Claim("blocking costs more than non-blocking there", "yes",
                  f"{worst:+.1%} against {free:+.1%}", worst > free * 1.02, why=conserves),
            Claim("10 blocking messages/s at 94 % CPU: completion against data latency",
                  "similar or higher", f"{waits:.0f} ms, {data:.0f} ms", waits >= 0.8 * data),
            Claim("it completes later than a non-blocking one", "yes",
                  f"{waits:.0f} ms against {passes:.0f} ms", waits > passes * 1.02, why=conserves),
            Claim("at 56 % CPU it completes sooner", "yes", f"{calm:.1f} ms", calm < waits),
        ]  # fmt: skip
        report = Report(
            self.name, self.title, rows, claims,
            "Real control processors in a simulated dataflow. What a control message costs (20 us) "
            "and how far it travels (1 ms) are assumed: the paper gives neither.",
        )  # fmt: skip
        path = bench.out / f"{self.name}.png"
        with plots.figure(path, 2, title=self.title) as axes:
            for kind, colour in (("non-blocking", "#3d5a98"), ("blocking", "#c8553d")):
                for load, style in ((low, ":"), (high, "-")):
                    for axis, what in zip(axes, ("increase", "completion_ms"), strict=True):
                        shown = [cell(load, r, kind, what) for r in RATES]
                        label = f"{kind}, {load:.0%} CPU"
                        axis.plot(RATES, shown, style, marker="o", color=colour, label=label)
            for axis, label in zip(axes, ("increase of latency", "completion (ms)"), strict=True):
                axis.set_xscale("log")
                axis.set_xlabel("control messages a second (IPQ1)")
                axis.set_ylabel(label)
                axis.legend(fontsize=7)
        report.files.append(path)
        return report


SEND, HOP, HANDLE = 0.05e-3, 2e-3, 0.1e-3
"""Seconds to put a message out, to travel, to handle it. Assumed."""


def completion_time(sources: int, fan_out: int) -> float:
    """Of one control message, down a tree to every source and up again, each node sending one
    message after the other."""
    tree = Tree(tuple(f"s{i}" for i in range(sources)), fan_out)

    def down(children: tuple[str, ...], start: float) -> float:
        """When the last report from below has been handled."""
        reports = []
        for number, child in enumerate(children, 1):
            arrives = start + number * SEND + HOP + HANDLE
            done = down(tree.below(child), arrives) if is_tree_node(child) else arrives
            reports.append(done + SEND + HOP)
        free = 0.0
        for report in sorted(reports):
            free = max(free, report) + HANDLE
        return free

    return down(tree.top, 0.0)


class Completion(NamedTuple):
    name: str = "chi-9"
    title: str = "Chi, figure 9: completion time and number of sources"

    def run(self, bench: Bench) -> Report:
        sizes = [2**n for n in range(5, 14)]
        times = bench.compute(completion_time, {(n, f): (n, f) for n in sizes for f in (8, 8192)})
        rows: list[Row] = [
            {"sources": n, "tree_ms": times[n, 8] * 1e3, "no_tree_ms": times[n, 8192] * 1e3}
            for n in sizes
        ]
        tree, flat = times[8192, 8] * 1e3, times[8192, 8192] * 1e3
        growth = times[8192, 8] / times[32, 8]
        claims = [
            Claim("8,192 sources", "well below 100 ms", f"{tree:.1f} ms", tree < 100),
            Claim("256 times the sources: growth", f"logarithmic (log: {math.log(8192, 32):.1f} ×)",
                  f"{growth:.1f} ×", growth < 4),
            Claim("without a tree", "the controller becomes the bottleneck", f"{flat:.0f} ms",
                  flat > 5 * tree),
        ]  # fmt: skip
        report = Report(self.name, self.title, rows, claims,
                        "The library's trees, fan-out 8; seconds a hop and a message are assumed "
                        "(2 ms, 0.05 ms to send, 0.1 ms to handle).")  # fmt: skip
        path = bench.out / f"{self.name}.png"
        with plots.figure(path, 1, title=self.title) as (axis,):
            axis.plot(sizes, [r["tree_ms"] for r in rows], "o-", color="#0b6e4f", label="tree")
            axis.plot(
                sizes, [r["no_tree_ms"] for r in rows], "s:", color="#c8553d", label="no tree"
            )
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set_xlabel("sources")
            axis.set_ylabel("completion (ms)")
            axis.legend(fontsize=8)
        report.files.append(path)
        return report


EXPERIMENTS = (ControlOverhead(), Completion())
