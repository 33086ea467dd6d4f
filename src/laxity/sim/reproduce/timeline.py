"""Figure 7c: when each operator of a query starts."""

from __future__ import annotations

from typing import Any, NamedTuple

from laxity.sim.operators import Message
from laxity.sim.reproduce import plots
from laxity.sim.reproduce.mix import scheduler
from laxity.sim.reproduce.report import Claim, Report, Row
from laxity.sim.reproduce.runner import Bench
from laxity.sim.reproduce.single import MACHINE, SCHEDULERS
from laxity.sim.simulation import Simulation
from laxity.sim.workloads import single_tenant

Start = tuple[float, int, int, float]
"""(time, operator number, stage index, event time the message belongs to)."""


def run_timeline(query: str, name: str, seed: int) -> list[Start]:
    """When each operator was started during two windows, and for which window."""
    starts: list[Start] = []
    flow = single_tenant(query)
    order = list(flow.job.topological_order)

    def note(now: float, node: int, worker: int, message: Message, cost: float) -> None:
        if now >= 10.0:
            operator = message.operator
            starts.append((now, operator.number, order.index(operator.stage), message.progress))

    Simulation([flow], MACHINE, scheduler(name, seed), seed=seed, on_start=note).run(12.6)
    return starts


class Timeline(NamedTuple):
    name: str = "7c"
    title: str = "operator schedule of IPQ1: when each operator starts, by stage"

    def run(self, bench: Bench) -> Report:
        points = {name: ("IPQ1", name, bench.seed) for name in SCHEDULERS}
        starts: dict[Any, list[Start]] = bench.compute(run_timeline, points)
        rows: list[Row] = [
            {"scheduler": name, "start_s": at, "operator": number, "stage": stage, "progress": p}
            for name, found in starts.items()
            for at, number, stage, p in found
        ]
        early = {name: _too_early(found) for name, found in starts.items()}
        report = Report(self.name, self.title, rows, [
            Claim(
                "starts for the next window before the last one has been merged (share of all)",
                "none with Cameo, overlap with the others",
                ", ".join(f"{name} {share:.0%}" for name, share in early.items()),
                early["cameo"] < min(early["orleans"], early["fifo"]),
            )
        ])  # fmt: skip
        path = bench.out / f"{self.name}.png"
        with plots.figure(
            path, 3, title=f"Figure {self.name}: {self.title}", claims=report.claims
        ) as axes:
            for axis, (name, found) in zip(axes, starts.items(), strict=True):
                _draw_timeline(axis, found)
                axis.set_title(name, fontsize=9)
            axes[0].set_ylabel("operator")
            axes[0].legend(fontsize=7, loc="lower left", markerscale=2, framealpha=0.95)
        report.files.append(path)
        return report


_STAGES = {0: ("stage 0", "#440154"), 1: ("stage 1", "#31688e"), 2: ("stage 2", "#35b779"),
           3: ("stage 3", "#e8a200")}  # fmt: skip


def _draw_timeline(axis: Any, starts: list[Start]) -> None:
    """Like the paper's: a dot where an operator starts a message, coloured by its stage if the
    message belongs to the first of two windows and grey if to the second; red where they end."""
    shown = [s for s in starts if s[3] > 10.0 + 1e-9]
    second = [s for s in shown if s[3] > 11.0 + 1e-9]
    axis.scatter([s[0] for s in second], [s[1] for s in second], s=5, c="#bbbbbb",
                 label="second result")  # fmt: skip
    for stage, (label, shade) in _STAGES.items():
        first = [s for s in shown if s[3] <= 11.0 + 1e-9 and s[2] == stage]
        axis.scatter([s[0] for s in first], [s[1] for s in first], s=9, c=shade, label=label)
    for end in (11.0, 12.0):
        axis.axvline(end, color="red", linewidth=0.8)
    axis.set_xlim(10.3, 12.6)
    axis.set_xlabel("time (s)")


def _too_early(starts: list[Start]) -> float:
    """Of the first-stage starts for the window that ends at 12, the share that came before the
    last start for the window that ends at 11."""
    done = max(s[0] for s in starts if s[3] <= 11.0 + 1e-9)
    following = [s for s in starts if s[2] == 0 and 11.0 + 1e-9 < s[3] <= 12.0 + 1e-9]
    return sum(s[0] < done for s in following) / len(following)


EXPERIMENTS = (Timeline(),)
