"""`laxity demo`: the same tenants on stock Spark, then under Laxity.

Queries that must answer within 0.8 s beside bulk aggregations, on two cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from laxity.bench.contest import Mode, Outcome, run_mode
from laxity.bench.report import describe, machine, write_json
from laxity.bench.tenants import Tenant, bulk, latency_sensitive
from laxity.core.durations import format_duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODES = (Mode("Spark, as it comes"), Mode("Spark with Laxity", laxity={}))


@dataclass(frozen=True, slots=True)
class Mix:
    alerts: int = 2
    bulk: int = 3
    rows: int = 100_000
    """Heavy rows a second of each bulk query."""

    def tenants(self) -> list[Tenant]:
        sensitive = [latency_sensitive(number) for number in range(self.alerts)]
        return sensitive + [bulk(number, self.rows) for number in range(self.bulk)]


def run(mix: Mix, *, seconds: float, warmup: float, plot: Path, json: Path | None) -> None:
    console = Console()
    facts = machine()
    console.print(describe(facts), style="dim")
    tenants = mix.tenants()
    console.print(
        f"{mix.alerts} alert queries (windows of 1 s, target 800 ms) beside {mix.bulk} bulk "
        f"aggregations of {mix.rows:,} heavy rows a second each (target 2 h), on local\\[2]: first "
        f"on stock Spark, then the same with Laxity. {warmup:.0f} s of warm-up and {seconds:.0f} s "
        "of measurement each."
    )
    outcomes = []
    columns = TextColumn("{task.description:<20}"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as progress:
        for mode in MODES:
            bar = progress.add_task(mode.name, total=warmup + seconds)
            outcomes.append(
                run_mode(
                    mode,
                    tenants,
                    warmup=warmup,
                    seconds=seconds,
                    on_progress=partial(_advance, progress, bar),
                )
            )
            progress.update(bar, completed=warmup + seconds)
    console.print(_table(outcomes))
    _verdict(console, outcomes)
    _plot(outcomes, plot)
    console.print(f"Latency of every answer over time: {plot}")
    if json is not None:
        rows = [
            {"mode": o.mode, "answers": o.answers, "bulk": o.bulk_rows_per_second} for o in outcomes
        ]
        write_json(json, {"machine": facts, "outcomes": rows})


def _advance(progress: Progress, bar: TaskID, done: float) -> None:
    progress.update(bar, completed=done)


def _table(outcomes: list[Outcome]) -> Table:
    table = Table(title="Answers of the alert queries, and what bulk got done meanwhile")
    table.add_column("", no_wrap=True)
    for column in ("p50", "p99", "worst", "targets met", "bulk rows/s", "CPU"):
        table.add_column(column, justify="right")
    for o in outcomes:
        table.add_row(
            o.mode,
            *(format_duration(o.percentile(share)) for share in (0.5, 0.99, 1.0)),
            f"{o.met:.0%}",
            f"{o.bulk_rows_per_second:,.0f}",
            f"{o.cpu_cores:.2f} cores",
        )
    return table


def _verdict(console: Console, outcomes: list[Outcome]) -> None:
    stock, ours = outcomes
    if ours.percentile(0.99) > 0:
        ratio = stock.percentile(0.99) / ours.percentile(0.99)
        console.print(f"p99 on stock Spark is {ratio:.1f} × what it is with Laxity.")


def _plot(outcomes: list[Outcome], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), width_ratios=(2, 1))
    over_time: Axes = axes[0]
    shares: Axes = axes[1]
    for outcome, colour in zip(outcomes, ("#c44e52", "#4c72b0"), strict=True):
        answers = sorted(outcome.answers, key=lambda a: a[1])
        over_time.plot(
            [at for _, at, _ in answers],
            [latency for _, _, latency in answers],
            "o",
            color=colour,
            markersize=4,
            label=outcome.mode,
        )
        ordered = outcome.latencies
        fractions = [(i + 1) / len(ordered) for i in range(len(ordered))]
        shares.plot(ordered, fractions, color=colour, label=outcome.mode)
    over_time.axhline(outcomes[0].target, color="grey", linestyle=":", label="target")
    shares.axvline(outcomes[0].target, color="grey", linestyle=":")
    over_time.set(xlabel="seconds", ylabel="latency (s)", title="Every answer of the alert queries")
    shares.set(xlabel="latency (s)", ylabel="share of answers", title="Distribution", ylim=(0, 1))
    for axis in (over_time, shares):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.3)
    over_time.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
