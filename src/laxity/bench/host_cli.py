"""`laxity bench host …`: what operating-system priorities do for streaming queries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

host_bench = typer.Typer(
    help="Operating-system priorities: policies against the default.", no_args_is_help=True
)

RowsFile = Annotated[
    Path, typer.Option("--rows", metavar="FILE", help="Rows are added here, one JSON line each.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the curves, too.")]


def register(app: typer.Typer) -> None:
    """Below `bench`, which another module may have added already."""
    for group in app.registered_groups:
        if group.name == "bench" and group.typer_instance is not None:
            group.typer_instance.add_typer(host_bench, name="host")
            return
    bench = typer.Typer(help="Measure Laxity on this machine.", no_args_is_help=True)
    bench.add_typer(host_bench, name="host")
    app.add_typer(bench, name="bench")


@host_bench.command()
def synthetic(
    rows: RowsFile = Path("out/host-synthetic.jsonl"),
    load: Annotated[
        list[float] | None, typer.Option(help="Part of all cores that the queries want.")
    ] = None,
    mode: Annotated[list[str] | None, typer.Option(help="os and policies; all if none.")] = None,
    blocking: Annotated[bool, typer.Option(help="Let a tenth of the operators block.")] = False,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of every mode.")] = 1,
    seconds: Annotated[float, typer.Option(help="Measured span of a phase.")] = 8.0,
    period: Annotated[float, typer.Option(help="Seconds between decisions.")] = 1.0,
    translator: Annotated[str, typer.Option(help="nice or shares.")] = "nice",
) -> None:
    """20 pipelines of 5 operators (Lachesis §6.4): add rounds to a file of rows."""
    import json

    from rich.console import Console
    from rich.progress import track

    from laxity.bench.host_contest import LOADS, MODES, Contest

    contest = Contest(
        loads=tuple(load or LOADS),
        modes=tuple(mode or MODES),
        blocking=blocking,
        rounds=rounds,
        seconds=seconds,
        period=period,
        translator=translator,
    )
    console = Console(stderr=True)
    rows.parent.mkdir(parents=True, exist_ok=True)
    with rows.open("a") as file:
        phases = contest.run(lambda message: console.print(message, soft_wrap=True))
        # Refreshed once a second: what the process itself uses is measured, too.
        for row in track(
            phases, "phases", total=contest.phases, console=console, refresh_per_second=1
        ):
            file.write(json.dumps(row) + "\n")
            file.flush()


@host_bench.command("table")
def show_table(
    rows: Annotated[list[Path], typer.Argument(help="Files of rows.")],
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Medians over all rounds in files of rows."""
    import json
    import sys

    from rich.console import Console

    from laxity.bench import host_report

    results = host_report.medians(host_report.read_rows(rows))
    if as_json:
        named = [
            {"blocking": b, "load": load, "mode": m, **values}
            for (b, load, m), values in results.items()
        ]
        typer.echo(json.dumps(named))
    else:
        console = Console(width=None if sys.stdout.isatty() else 160)
        for blocking in sorted({key[0] for key in results}):
            console.print(host_report.table(results, blocking))
        console.print(host_report.against_default(results))
    if plot is not None:
        host_report.plot(results, plot)


@host_bench.command()
def mixed(
    rows: RowsFile = Path("out/host-mixed.jsonl"),
    rounds: Annotated[int, typer.Option(min=1, help="Turns of every mode.")] = 3,
    seconds: Annotated[float, typer.Option(help="Measured span of a phase.")] = 12.0,
) -> None:
    """Flink and Spark at the same time under one loop (goal G5); needs Flink (docs/host.md)."""
    import json

    from rich.console import Console
    from rich.progress import track

    from laxity.bench.host_mixed import MixedContest

    console = Console(stderr=True)
    contest = MixedContest(rounds=rounds, seconds=seconds)
    rows.parent.mkdir(parents=True, exist_ok=True)
    with rows.open("a") as file:
        phases = contest.run(lambda message: console.print(message, soft_wrap=True))
        # Refreshed once a second: what the process itself uses is measured, too.
        for row in track(
            phases, "phases", total=contest.phases, console=console, refresh_per_second=1
        ):
            file.write(json.dumps(row) + "\n")
            file.flush()
    _print_mixed(rows)


@host_bench.command("mixed-table")
def show_mixed(rows: Annotated[Path, typer.Argument(help="A file of rows.")]) -> None:
    """Medians over all rounds of `mixed`."""
    _print_mixed(rows)


def _print_mixed(rows: Path) -> None:
    import sys

    from rich.console import Console

    from laxity.bench import host_report

    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(host_report.mixed_table(host_report.read_rows([rows])))


@host_bench.command()
def cost(
    seconds: Annotated[float, typer.Option(help="Measured span for each policy.")] = 10.0,
    translator: Annotated[str, typer.Option(help="nice or shares.")] = "nice",
    as_json: AsJson = False,
) -> None:
    """What the loop itself costs: 100 operators, a 1 s period."""
    import json
    import sys

    from rich.console import Console

    from laxity.bench import host_report
    from laxity.bench.host_contest import measure_cost

    console = Console(width=None if sys.stdout.isatty() else 160)
    found = list(measure_cost(seconds, translator, Console(stderr=True).print))
    if as_json:
        typer.echo(json.dumps(found))
    else:
        console.print(host_report.cost_table(found))
