"""A contest's report: a table, a Markdown page with pictures, and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from json import dumps, loads
from pathlib import Path

from rich.console import Console

from laxity.bench.contest import Outcome
from laxity.bench.figures import (
    Column,
    duration,
    if_any,
    markdown,
    percent,
    table,
    thousands,
    two_digits,
    whole,
)
from laxity.bench.goals import Verdict, show_verdicts, verdict_lines
from laxity.bench.pictures import draw_latencies, draw_over_time, draw_timelines
from laxity.bench.report import publish
from laxity.bench.suite import (
    Contest,
    Result,
    batches,
    bulk,
    bulk_p50,
    bulk_p99,
    cpu,
    cpu_per_batch,
    deviation,
    loop,
    met,
    p50,
    p95,
    p99,
    worst,
)

OUTCOMES = "outcomes.json"

COLUMNS: tuple[Column[Outcome], ...] = (
    Column("p50", p50, duration),
    Column("p95", p95, duration),
    Column("p99", p99, duration),
    Column("max", worst, duration),
    Column("std. dev.", deviation, duration),
    Column("met", met, percent),
    Column("bulk rows/s", bulk, if_any(thousands)),
    Column("bulk p50", bulk_p50, if_any(duration)),
    Column("bulk p99", bulk_p99, if_any(duration)),
    Column("CPU (cores)", cpu, two_digits),
    Column("batches", batches, if_any(whole)),
    Column("CPU a batch", cpu_per_batch, if_any(duration)),
    Column("Laxity's loop", loop, if_any(percent)),
)


def show(console: Console, results: Mapping[str, Result], verdicts: Sequence[Verdict]) -> None:
    console.print(table("Medians of all rounds (least … most)", COLUMNS, _rows(results)))
    show_verdicts(console, verdicts)


def _rows(results: Mapping[str, Result]) -> dict[str, list[Outcome]]:
    return {title: result.outcomes for title, result in results.items()}


def write(
    console: Console,
    folder: Path,
    contest: Contest,
    results: Mapping[str, Result],
    verdicts: Sequence[Verdict],
    json: Path | None,
) -> None:
    """The page, its pictures and its numbers, and all that a later call needs to add rounds."""
    last = {title: result.outcomes[-1] for title, result in results.items()}
    draw_latencies(last, folder / "latency.png")
    draw_over_time(last, folder / "over_time.png")
    draw_timelines(last, folder / "timeline.png")
    document = {
        "versions": _versions(results),
        "contest": contest.name,
        "warmup": contest.warmup,
        "seconds": contest.seconds,
        "results": [result.document() for result in results.values()],
        "goals": [asdict(verdict) for verdict in verdicts],
    }
    publish(
        console,
        folder,
        f"Contest: {contest.name}",
        _page(contest, results, verdicts),
        document,
        json,
    )
    keep(folder, results)


def keep(folder: Path, results: Mapping[str, Result]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = {title: [asdict(o) for o in result.outcomes] for title, result in results.items()}
    (folder / OUTCOMES).write_text(dumps(outcomes))


def earlier_rounds(folder: Path, contest: Contest) -> dict[str, list[Outcome]]:
    """By title, of the entries that are to be run again; nothing where there is no report yet."""
    file = folder / OUTCOMES
    if not file.exists():
        return {}
    known = loads(file.read_text())
    titles = [entry.title for entry in contest.entries]
    return {title: [Outcome(**o) for o in known.get(title, ())] for title in titles}


def _page(
    contest: Contest, results: Mapping[str, Result], verdicts: Sequence[Verdict]
) -> list[str]:
    mixes = {r.entry.mix.name: r.entry.mix for r in results.values()}
    rounds = sorted({len(result.outcomes) for result in results.values()})
    return [
        f"{', '.join(_versions(results))} on {contest.cores} cores.",
        (
            f"{' or '.join(map(str, rounds))} rounds, interleaved; {contest.warmup:.0f} s of "
            f"warm-up and {contest.seconds:.0f} s of measurement for each mode and round, each in "
            "a JVM of its own. Medians of the rounds, with the least and the most."
        ),
        "",
        *(f"- {name}: {mix.title}" for name, mix in mixes.items()),
        "",
        *markdown(COLUMNS, _rows(results)),
        "",
        *verdict_lines(verdicts),
        "Pictures show the last round.",
        "",
        "![latency](latency.png)",
        "![over time](over_time.png)",
        "![tasks by query and stage](timeline.png)",
        "",
        *_configurations(results),
    ]


def _versions(results: Mapping[str, Result]) -> list[str]:
    return sorted({outcome.version for result in results.values() for outcome in result.outcomes})


def _configurations(results: Mapping[str, Result]) -> list[str]:
    lines = ["What each mode sets beyond Spark's defaults:", ""]
    for mode in {r.entry.mode.name: r.entry.mode for r in results.values()}.values():
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
