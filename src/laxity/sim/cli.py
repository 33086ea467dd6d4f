"""`laxity simulate` and `laxity reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from laxity.sim.reproduce.report import Report

_OUT = Path("out")


def register(app: typer.Typer) -> None:
    app.command()(simulate)
    app.command()(reproduce)


def simulate(
    file: Annotated[Path, typer.Argument(help="YAML, TOML, or a recording of a real run.")],
    meet: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of results in time that counts as held.")
    ] = 0.99,
    duration: Annotated[
        str | None, typer.Option(help='Simulated time to measure, such as "2min".')
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the plot.")] = _OUT,
    plot: Annotated[bool, typer.Option(help="Save a plot.")] = True,
    seed: Annotated[int, typer.Option(help="The same seed gives the same answer.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
) -> None:
    """Would these targets hold? Latencies, the cores it takes, and which query breaks first."""
    from rich.console import Console

    from laxity.core.durations import parse_target
    from laxity.sim import show
    from laxity.sim.files import read_scenario
    from laxity.sim.whatif import WhatIf

    scenario = read_scenario(file)
    seconds = None if duration is None else parse_target(duration, name="duration")
    console = Console(stderr=True)
    with console.status("simulating") as status:
        what_if = WhatIf(
            scenario,
            meet=meet,
            duration=seconds,
            seed=seed,
            on_run=lambda what: status.update(f"simulating {what}"),
        )
        answer = what_if.answer()
    saved = show.plot_answer(scenario, answer, out / f"{file.stem}.png") if plot else None
    if as_json:
        typer.echo(show.answer_json(scenario, answer, saved))
    else:
        show.print_answer(Console(), scenario, answer, saved)


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(help="Figures of Cameo: 1, 4, 8a, ... or all; Neptune: n4, ... or neptune."),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer points, shorter runs.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for plots and CSV files.")] = _OUT,
    processes: Annotated[
        int, typer.Option(min=0, help="Processes to run points on; 0 is one for each core.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same results.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not tables.")] = False,
) -> None:
    """Run an experiment of the Cameo or the Neptune paper and set its figures beside ours."""
    import os

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from laxity.sim import show
    from laxity.sim.reproduce.catalogue import choose
    from laxity.sim.reproduce.runner import Bench

    chosen = choose(names)
    reports: list[Report] = []
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with progress:
        whole = progress.add_task("figures", total=len(chosen))
        part = progress.add_task("", total=None)
        bench = Bench(
            out,
            quick,
            seed,
            processes or os.cpu_count() or 1,
            lambda done, total: progress.update(part, completed=done, total=total),
        )
        try:
            for experiment in chosen:
                progress.update(part, description=f"{experiment.name}: {experiment.title}")
                reports.append(bench.run(experiment))
                progress.advance(whole)
        finally:
            bench.close()
    if as_json:
        typer.echo(show.reports_json(reports))
    else:
        show.print_reports(Console(), reports)
