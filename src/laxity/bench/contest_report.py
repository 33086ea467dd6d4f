"""A contest's report: a table, a Markdown page with pictures, and JSON."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from laxity.bench.contest import Outcome
from laxity.bench.goals import Verdict
from laxity.bench.pictures import draw_latencies
from laxity.bench.report import describe, write_json
from laxity.bench.suite import (
    Contest,
    Result,
    batches,
    bulk,
    cpu,
    deviation,
    met,
    p50,
    p95,
    p99,
    worst,
)
from laxity.core.durations import format_duration


def _seconds(value: float) -> str:
    return format_duration(value)


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _thousands(value: float) -> str:
    return f"{value / 1000:,.0f}k"


def _plain(value: float) -> str:
    return f"{value:.2f}"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


COLUMNS: tuple[tuple[str, Callable[[Outcome], float], Callable[[float], str]], ...] = (
    ("p50", p50, _seconds),
    ("p95", p95, _seconds),
    ("p99", p99, _seconds),
    ("max", worst, _seconds),
    ("std. dev.", deviation, _seconds),
    ("met", met, _percent),
    ("bulk rows/s", bulk, _thousands),
    ("CPU (cores)", cpu, _plain),
    ("batches", batches, _whole),
)


def show(console: Console, results: Sequence[Result], verdicts: Sequence[Verdict]) -> None:
    table = Table(title="Medians of all rounds (least … most)")
    table.add_column("", no_wrap=True)
    for column, _, _ in COLUMNS:
        table.add_column(column, justify="right")
    for result in results:
        table.add_row(result.entry.title, *_cells(result, "\n"))
    console.print(table)
    for verdict in verdicts:
        mark = "[green]reached[/]" if verdict.reached else "[red]missed[/]"
        console.print(f"  {verdict.goal}: {verdict.measured} {mark}")


def _cells(result: Result, between: str) -> list[str]:
    cells = []
    for _, figure, form in COLUMNS:
        values = result.figures(figure)
        text = form(statistics.median(values))
        if len(values) > 1:
            text += f"{between}({form(min(values))} … {form(max(values))})"
        cells.append(text)
    return cells


def write(
    folder: Path,
    contest: Contest,
    results: Sequence[Result],
    verdicts: Sequence[Verdict],
    facts: Mapping[str, Any],
    command: str,
    json: Path | None,
) -> Path:
    """The Markdown page, with its picture and its numbers beside it."""
    draw_latencies({r.entry.title: r.outcomes[-1] for r in results}, folder / "latency.png")
    document = {
        "command": command,
        "machine": dict(facts),
        "spark": results[0].outcomes[0].spark,
        "contest": contest.name,
        "rounds": contest.rounds,
        "warmup": contest.warmup,
        "seconds": contest.seconds,
        "results": [result.document() for result in results],
        "goals": [{"goal": v.goal, "measured": v.measured, "reached": v.reached} for v in verdicts],
    }
    write_json(folder / "results.json", document)
    if json is not None:
        write_json(json, document)
    page = folder / "report.md"
    page.write_text(_markdown(contest, results, verdicts, facts, command))
    return page


def _markdown(
    contest: Contest,
    results: Sequence[Result],
    verdicts: Sequence[Verdict],
    facts: Mapping[str, Any],
    command: str,
) -> str:
    mixes = {r.entry.mix.name: r.entry.mix for r in results}
    lines = [
        f"# Contest: {contest.name}",
        "",
        f"`{command}`",
        "",
        f"{describe(facts)}, Spark {results[0].outcomes[0].spark} on local[{contest.cores}].",
        (
            f"{contest.rounds} rounds, interleaved; {contest.warmup:.0f} s of warm-up and "
            f"{contest.seconds:.0f} s of measurement for each mode and round, each in a JVM of its "
            "own. Medians of the rounds, with the least and the most."
        ),
        "",
        *(f"- {name}: {mix.title}" for name, mix in mixes.items()),
        "",
        "| | " + " | ".join(column for column, _, _ in COLUMNS) + " |",
        "| --- |" + " ---: |" * len(COLUMNS),
        *(f"| {r.entry.title} | " + " | ".join(_cells(r, "<br>")) + " |" for r in results),
        "",
        "![latency](latency.png)",
        "",
    ]
    if verdicts:
        lines += ["| goal | measured | |", "| --- | ---: | --- |"]
        lines += [
            f"| {v.goal} | {v.measured} | {'reached' if v.reached else '**missed**'} |"
            for v in verdicts
        ]
        lines.append("")
    lines += _configurations(results)
    return "\n".join(lines)


def _configurations(results: Sequence[Result]) -> list[str]:
    lines = ["What each mode sets beyond Spark's defaults:", ""]
    for mode in {r.entry.mode.name: r.entry.mode for r in results}.values():
        parts = [f"{key}={value}" for key, value in mode.conf.items()]
        if mode.pools:
            parts.append(f"a pool a query, {mode.pools}")
        if mode.triggers:
            parts.append("triggers of " + " and ".join(mode.triggers))
        if mode.laxity is not None:
            options = ", ".join(f"{key}={value!r}" for key, value in mode.laxity.items())
            parts.append(f"laxity.attach(spark{', ' + options if options else ''})")
        lines.append(f"- {mode.title}: {'; '.join(parts) or 'nothing'}")
    return [*lines, ""]
