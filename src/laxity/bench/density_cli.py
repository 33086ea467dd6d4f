"""`laxity bench density` and `laxity bench growth`: tables, a picture and the numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from laxity.bench.contest import CORES
from laxity.bench.density import LOADS, Curve, DensityJob, Probe, trace
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
from laxity.bench.goals import density_goals, judge, show_verdicts, verdict_lines
from laxity.bench.modes import find_spark_modes
from laxity.bench.pictures import draw_density
from laxity.bench.report import begin, publish
from laxity.bench.turns import OnShare, shown_turns
from laxity.core.errors import LaxityError

Modes = Annotated[str, typer.Option(help="Modes, separated by commas.")]
Rounds = Annotated[int, typer.Option(min=1, help="How often each mode is run, taking turns.")]
Loads = Annotated[str, typer.Option(help=f"What runs beside: {', '.join(LOADS)}.")]
Most = Annotated[int, typer.Option(min=1, help="The search ends there.")]
Warmup = Annotated[float, typer.Option(min=5, help="Seconds before the first phase.")]
Settle = Annotated[float, typer.Option(min=1, help="Seconds between a change and its phase.")]
Seconds = Annotated[float, typer.Option(min=5, help="Measured seconds a phase.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the numbers to a file as well.")
]
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Where the report goes.")]

COLUMNS: tuple[Column[Probe], ...] = (
    Column("met", lambda p: p.met, percent),
    Column("p50", lambda p: p.p50, duration),
    Column("p99", lambda p: p.p99, duration),
    Column("CPU (cores)", lambda p: p.cpu_cores, two_digits),
    Column("CPU a batch", lambda p: p.cpu_per_batch, duration),
    Column("CPU a query and second", lambda p: p.cpu_per_query, duration),
    Column("batches/s", lambda p: p.batches_per_second, two_digits),
    Column("Laxity's loop", lambda p: p.loop_cores, if_any(percent)),
    Column("bulk rows/s", lambda p: p.bulk_rows_per_second, if_any(thousands)),
)

HELD: Column[int] = Column("queries held", float, whole)


class UnknownLoadError(LaxityError, ValueError):
    """A load nobody has defined."""


def density(
    modes: Modes = "fifo,fair-tuned,laxity",
    loads: Loads = "none,bulk",
    most: Most = 128,
    rounds: Rounds = 1,
    warmup: Warmup = 75.0,
    settle: Settle = 8.0,
    seconds: Seconds = 20.0,
    json: JsonFile = None,
    out: Out = Path("out/bench/density"),
) -> None:
    """How many latency-sensitive queries one driver holds at 99 % met."""
    jobs = [
        DensityJob(mode, LOADS[load], (), most, warmup, settle, seconds)
        for load in _loads(loads)
        for mode in find_spark_modes(modes)
    ]
    _run("density", jobs, rounds, json, out)


def growth(
    modes: Modes = "fifo,laxity",
    counts: Annotated[str, typer.Option(help="Numbers of queries.")] = "1,10,50,100",
    loads: Loads = "none",
    rounds: Rounds = 1,
    warmup: Warmup = 75.0,
    settle: Settle = 10.0,
    seconds: Seconds = 20.0,
    json: JsonFile = None,
    out: Out = Path("out/bench/growth"),
) -> None:
    """How cost grows with the number of latency-sensitive queries."""
    try:
        numbers = tuple(int(count) for count in counts.split(","))
    except ValueError as error:
        raise typer.BadParameter("numbers separated by commas, as 1,10,50") from error
    jobs = [
        DensityJob(mode, LOADS[load], numbers, max(numbers), warmup, settle, seconds)
        for load in _loads(loads)
        for mode in find_spark_modes(modes)
    ]
    _run("growth", jobs, rounds, json, out)


def _loads(names: str) -> list[str]:
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in LOADS:
            raise UnknownLoadError(f"no load is named {name!r}; there are {', '.join(LOADS)}")
    return wanted


def _tell(console: Console, job: DensityJob, on_share: OnShare) -> Callable[[Probe], None]:
    tried = itertools.count(1)

    def told(probe: Probe) -> None:
        on_share(1 - 1 / (1 + next(tried)))  # nobody knows how many there will be
        console.print(
            f"  {job.title}: {probe.count} queries, met {probe.met:.1%}, "
            f"p99 {duration(probe.p99)}, {probe.cpu_cores:.2f} cores"
        )

    return told


def _run(name: str, jobs: Sequence[DensityJob], rounds: int, json: Path | None, out: Path) -> None:
    console, _ = begin()
    first = jobs[0]
    console.print(
        f"{name}: queries of 1,000 rows/s with windows of 1 s, 0.8 s to answer, on "
        f"local\\[{CORES}]; {first.warmup:.0f} s of warm-up, then {first.settle:.0f} + "
        f"{first.seconds:.0f} s for each number that is tried."
    )
    curves = {job.title: Curve(job, [], []) for job in jobs}
    for job, on_share in shown_turns(console, jobs, rounds):
        trace(job, curves[job.title], _tell(console, job, on_share))
    rows = {
        f"{title}: {count}": probes
        for title, curve in curves.items()
        for count, probes in curve.by_count().items()
    }
    held = {title: curve.held for title, curve in curves.items() if curve.held}
    console.print(table("Every number that was tried", COLUMNS, rows))
    if held:
        console.print(table("Queries held at 99 % met", [HELD], held))
    verdicts = judge(density_goals([job.load.title for job in jobs]), held)
    show_verdicts(console, verdicts)
    draw_density(curves, out / f"{name}.png")
    document: dict[str, Any] = {
        "curves": [
            {
                "mode": curve.job.mode.name,
                "load": curve.job.load.title,
                "held": curve.held,
                "probes": [asdict(probe) for probe in curve.probes],
            }
            for curve in curves.values()
        ],
        "goals": [asdict(verdict) for verdict in verdicts],
    }
    page = [*markdown([HELD], held), ""] if held else []
    page += [*verdict_lines(verdicts), f"![{name}]({name}.png)", "", *markdown(COLUMNS, rows), ""]
    publish(console, out, name.capitalize(), page, document, json)
