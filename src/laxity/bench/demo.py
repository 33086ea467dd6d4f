"""`laxity demo`: the same tenants on stock Spark, then under Laxity.

Queries that must answer within 0.8 s beside bulk aggregations, on two cores.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from laxity.bench.contest import SLACK, Outcome, Plan, run_plan
from laxity.bench.modes import FIFO, LAXITY
from laxity.bench.pictures import draw_latencies
from laxity.bench.report import describe, machine, write_json
from laxity.bench.workloads.mixes import Mix
from laxity.core.durations import format_duration

TITLES = {FIFO.name: "Spark, as it comes", LAXITY.name: "Spark with Laxity"}


def run(mix: Mix, *, seconds: float, warmup: float, plot: Path, json: Path | None) -> None:
    console = Console()
    facts = machine()
    console.print(describe(facts), style="dim")
    console.print(
        f"{mix.alerts} alert queries (windows of 1 s, target 800 ms) beside {mix.bulk} bulk "
        f"aggregations of {mix.bulk_rows:,.0f} heavy rows a second each (target 2 h), on "
        f"local\\[2]: first on stock Spark, then the same with Laxity. {warmup:.0f} s of warm-up "
        f"and {seconds:.0f} s of measurement each."
    )
    tenants = mix.tenants(warmup + seconds + SLACK)
    outcomes = []
    columns = TextColumn("{task.description:<20}"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as progress:
        for mode in (FIFO, LAXITY):
            bar = progress.add_task(TITLES[mode.name], total=warmup + seconds)
            plan = Plan(mode, tenants, warmup, seconds)
            outcomes.append(run_plan(plan, on_progress=partial(_advance, progress, bar)))
            progress.update(bar, completed=warmup + seconds)
    console.print(_table(outcomes))
    _verdict(console, outcomes)
    draw_latencies({TITLES[o.mode]: o for o in outcomes}, plot)
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
            TITLES[o.mode],
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
