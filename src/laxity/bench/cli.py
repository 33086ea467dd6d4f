"""`laxity bench …` and `laxity demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laxity.bench import contest_cli, density_cli

bench = typer.Typer(help="Measure Laxity on this machine.", no_args_is_help=True)

JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the numbers to a file as well.")
]

Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Where the report goes.")]


def register(app: typer.Typer) -> None:
    contest_cli.register(bench)
    bench.command()(density_cli.density)
    bench.command()(density_cli.growth)
    app.add_typer(bench, name="bench")
    app.command()(demo)


@bench.command()
def core(
    json: JsonFile = None,
    pairs: Annotated[int, typer.Option(min=100, help="Push+pop pairs a turn.")] = 50_000,
    repeats: Annotated[int, typer.Option(min=1, help="Turns of each side.")] = 7,
    quick: Annotated[bool, typer.Option(help="Leave out a million pending messages.")] = False,
) -> None:
    """The cost of the scheduling core: the two-level queue beside a bare heapq."""
    from laxity.bench.core_table import run

    run(pairs=pairs, repeats=repeats, quick=quick, json=json)


@bench.command()
def spark(
    json: JsonFile = None,
    seconds: Annotated[float, typer.Option(min=5, help="Measured seconds a setting.")] = 20.0,
) -> None:
    """What an attached Laxity costs the driver: its loop, and the pool's order."""
    from laxity.bench.spark_cost import run

    run(seconds=seconds, json=json)


@bench.command()
def batch(
    json: JsonFile = None,
    modes: Annotated[str, typer.Option(help="Modes, separated by commas.")] = "fifo,laxity",
    rounds: Annotated[int, typer.Option(min=1, help="Processes of each mode.")] = 3,
    warmup: Annotated[float, typer.Option(min=25, help="Seconds before the last 25.")] = 75.0,
    out: Out = Path("out/bench/batch"),
) -> None:
    """The CPU of one small stateful batch, stock and with Laxity."""
    from laxity.bench.batch import run
    from laxity.bench.modes import find_spark_modes

    run(find_spark_modes(modes), rounds=rounds, warmup=warmup, out=out, json=json)


@bench.command()
def overhead(
    json: JsonFile = None,
    modes: Annotated[
        str, typer.Option(help="Modes; the others are compared with the first.")
    ] = "fifo,without-files,laxity",
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each mode.")] = 8,
    warmup: Annotated[float, typer.Option(min=5, help="Seconds before the first.")] = 75.0,
    seconds: Annotated[float, typer.Option(min=5, help="Measured seconds a turn.")] = 12.0,
    out: Out = Path("out/bench/overhead"),
) -> None:
    """What an attached Laxity costs a single query with nothing to decide."""
    from laxity.bench.overhead import run

    run(modes, rounds=rounds, warmup=warmup, seconds=seconds, out=out, json=json)


@bench.command()
def goals(
    folder: Annotated[Path, typer.Argument(help="Where the reports are.")] = Path("out/bench"),
) -> None:
    """What the reports in a folder say of their goals."""
    from laxity.bench.summary import run

    run(folder)


@bench.command()
def server(
    json: JsonFile = None,
    clients: Annotated[int, typer.Option(min=1, help="Dashboards that look.")] = 200,
    seconds: Annotated[float, typer.Option(min=1, help="Seconds with, and without, them.")] = 30.0,
    rounds: Annotated[int, typer.Option(min=1, help="How often they come and go.")] = 3,
    warmup: Annotated[float, typer.Option(min=1, help="Seconds before the first.")] = 60.0,
) -> None:
    """What dashboards and a scrape a second cost beside a full Spark load.

    Runs a pipeline of six queries (two alerts with 800 ms, three bulk aggregations of 100,000 heavy
    rows a second each) under `laxity run`. Dashboards come and go; the CPU time of the serving
    process with and without them is compared, and the alerts' missed results are counted.
    """
    from laxity.bench.server_load import run

    run(clients=clients, seconds=seconds, rounds=rounds, warmup=warmup, json=json)


@bench.command()
def soak(
    json: JsonFile = None,
    minutes: Annotated[float, typer.Option(min=0.5, help="How long.")] = 60.0,
    every: Annotated[
        float,
        typer.Option(
            min=0,
            help="Seconds between batches of a query, to leave the machine to others.",
        ),
    ] = 0.0,
) -> None:
    """Run the example of `laxity init` for an hour under a scrape a second: is memory flat?

    Prints the resident memory of the Python process and of the driver's JVM in the second quarter
    of the time (the first is warming up) beside that of the last quarter.
    """
    from laxity.bench.soak import run

    run(minutes=minutes, every=every, json=json)


@bench.command()
def fleet(json: JsonFile = None) -> None:
    """What the fleet level costs a node, and how long planning a large fleet takes."""
    from laxity.bench.fleet_cost import run

    run(json=json)


@bench.command("fleet-spark")
def fleet_spark(
    rows: Annotated[
        Path, typer.Option(metavar="FILE", help="Runs are added here, one JSON line each.")
    ] = Path("out/fleet-spark.jsonl"),
    modes: Annotated[str, typer.Option(help="still, fleet, in the order to take turns.")] = (
        "still,fleet"
    ),
    rounds: Annotated[int, typer.Option(min=0, help="0: show what the file has.")] = 1,
    crowded: Annotated[int, typer.Option(min=1, help="Queries on n1; n2, n3 have one each.")] = 4,
    patients: Annotated[int, typer.Option(min=4, help="By query; a multiple of 4.")] = 4,
    target: Annotated[float, typer.Option(help="Of each query, in seconds.")] = 2.0,
    seconds: Annotated[float, typer.Option(min=20, help="With the hog.")] = 120.0,
    warmup: Annotated[float, typer.Option(min=5, help="Before it.")] = 60.0,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the last runs.")] = None,
    json: JsonFile = None,
) -> None:
    """Three applications, an uneven start, a CPU hog beside one: with and without the fleet."""
    import json as jsonlib
    from dataclasses import asdict

    from laxity.bench import fleet_report, report
    from laxity.bench.fleet_run import Plan, run_fleet

    console, facts = report.begin()
    plan = Plan(crowded, patients, target, warmup, seconds)
    rows.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(rounds):
        for mode in modes.split(","):
            outcome = run_fleet(mode, plan, lambda text: console.print(text, style="dim"))
            with rows.open("a") as file:
                file.write(jsonlib.dumps(asdict(outcome)) + "\n")
    found = fleet_report.read_rows(rows)
    console.print(fleet_report.table(found))
    if plot is not None:
        fleet_report.plot(found, plot)
    if json is not None:
        document = {"command": report.command(), "machine": facts}
        report.write_json(json, {**document, "modes": fleet_report.summary(found)})


@bench.command()
def control(
    json: JsonFile = None,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each setting.")] = 6,
    batches: Annotated[int, typer.Option(min=1, help="Batches a turn.")] = 20,
    rows: Annotated[int, typer.Option(min=1000, help="Rows a batch.")] = 200_000,
    warmup: Annotated[int, typer.Option(min=1, help="Batches of each setting before.")] = 20,
) -> None:
    """What watching keys costs a running query, and what spreading a hot key gains it."""
    from laxity.bench.control_cost import run

    run(rounds=rounds, batches=batches, rows=rows, warmup=warmup, json=json)


def demo(
    json: JsonFile = None,
    alerts: Annotated[int, typer.Option(min=1, help="Queries that must answer in 0.8 s.")] = 2,
    bulk: Annotated[int, typer.Option(min=0, help="Bulk aggregations beside them.")] = 3,
    rows: Annotated[int, typer.Option(min=1, help="Rows a second of each of those.")] = 100_000,
    seconds: Annotated[float, typer.Option(min=10, help="Measured seconds a mode.")] = 50.0,
    warmup: Annotated[float, typer.Option(min=5, help="Seconds before that, a mode.")] = 35.0,
    plot: Annotated[Path, typer.Option(metavar="FILE", help="Where the picture goes.")] = Path(
        "out/demo.png"
    ),
    virtual: Annotated[
        bool, typer.Option("--virtual", help="On the core alone, in virtual time, in a second.")
    ] = False,
) -> None:
    """The same tenants on stock Spark and under Laxity, side by side.

    Alerts with windows of a second must answer in 0.8 s while bulk aggregations load the cores.
    The same rows arrive at the same moments in both modes. Prints p50, p99, the share of targets
    met and bulk's throughput, and draws the latency of every answer.
    """
    if virtual:
        from laxity.bench import virtual_demo

        virtual_demo.run(seed=1, json=json)
        return
    from laxity.bench.demo import run
    from laxity.bench.workloads.mixes import Mix

    run(Mix("demo", alerts, bulk, rows), seconds=seconds, warmup=warmup, plot=plot, json=json)
