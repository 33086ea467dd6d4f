"""`laxity bench core`: the rows of `core_cost`, shown and judged."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from laxity.bench.core_cost import OPERATORS, PENDING, CoreCost, Goals, growth_per_doubling, measure
from laxity.bench.report import describe, machine, write_json


def run(*, pairs: int, repeats: int, quick: bool, json: Path | None) -> None:
    console, facts, goals = Console(), machine(), Goals()
    pending = PENDING[:-1] if quick else PENDING
    console.print(describe(facts))
    console.print(
        f"Hold model: {pairs:,} push+pop pairs a turn, {repeats} turns of each side in "
        "alternation after one to warm up, medians. Pairs a second of the queue and of a bare "
        "heapq, time to make a message's priority, bytes of the queue for a pending message:"
    )
    settings = [(n, k) for k in OPERATORS for n in pending]
    progress = track(settings, description="measuring", console=console, transient=True)
    rows = [measure(n, k, pairs=pairs, repeats=repeats) for n, k in progress]
    console.print(_table(rows, goals))
    for line in _verdicts(rows, goals):
        console.print(line)
    if json is not None:
        document = {
            "command": "laxity bench core",
            "pairs": pairs,
            "repeats": repeats,
            "machine": facts,
            "rows": [asdict(row) for row in rows],
        }
        write_json(json, document)
        console.print(f"written to {json}")


def _table(rows: list[CoreCost], goals: Goals) -> Table:
    table = Table()
    for heading in (
        "operators",
        "pending",
        "queue/s",
        "heapq/s",
        "× heapq",
        "priority",
        "bytes",
    ):
        table.add_column(heading, justify="right")
    for row in rows:
        style = "" if row.ratio <= goals.ratio else "yellow"
        table.add_row(
            f"{row.operators:,}",
            f"{row.pending:,}",
            f"{row.queue_pairs_per_second:,.0f}",
            f"{row.heapq_pairs_per_second:,.0f}",
            f"{row.ratio:.2f}",
            f"{row.priority_microseconds:.1f} µs",
            f"{row.bytes_per_message:.0f}",
            style=style,
        )
    return table


def _verdicts(rows: list[CoreCost], goals: Goals) -> list[str]:
    """The goals, and whether they were met, in words."""
    worst = max(rows, key=lambda row: row.ratio)
    within = sum(row.ratio <= goals.ratio for row in rows)
    dearest = max(row.bytes_per_message for row in rows)
    ratio = (
        f"At most {goals.ratio:g} × heapq: {within} of {len(rows)} settings; the worst is "
        f"{worst.ratio:.2f} × with {worst.pending:,} messages over {worst.operators:,} operators."
    )
    memory = f"Under {goals.bytes_per_message:g} bytes a pending message: at most {dearest:.0f}."
    lines = [ratio, memory]
    for operators in OPERATORS:
        own = [row for row in rows if row.operators == operators]
        first, last = own[0], own[-1]
        ours = first.queue_pairs_per_second / last.queue_pairs_per_second
        bare = first.heapq_pairs_per_second / last.heapq_pairs_per_second
        lines.append(
            f"From {first.pending:,} to {last.pending:,} pending over {operators:,} operators "
            f"a pair takes {ours:.1f} × as long (bare heapq: {bare:.1f} ×), "
            f"{growth_per_doubling(first, last):.2f} µs more each time they double."
        )
    return lines
