"""`laxity run`, `laxity init` and `laxity doctor`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def register(app: typer.Typer) -> None:
    app.command()(init)
    app.command()(run)
    app.command()(doctor)


def _policies(incomplete: str) -> list[str]:
    from laxity.plugins import policy_names

    return [name for name in policy_names() if name.startswith(incomplete)]


def run(
    file: Annotated[
        Path, typer.Argument(help="A Python file with @laxity.query functions.", metavar="FILE.py")
    ],
    settings: Annotated[
        Path | None,
        typer.Option(
            "--settings", "-s", help="A TOML file; laxity.toml beside FILE.py if it is there."
        ),
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Spark's master: local[4], spark://…, yarn, k8s://….")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The application's name.")] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="llf, edf, sjf, fifo, token, or one of a plug-in.", autocompletion=_policies
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", "-c", help="KEY=VALUE of Spark's, any number of times."),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(help="QUERY=DURATION instead of the pipeline's, any number of times."),
    ] = None,
    checkpoints: Annotated[
        str | None, typer.Option(help="Folder for checkpoints; a query's is below it, by name.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="HOST:PORT of the dashboard; port 0 takes any that is free.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the token; needed beyond loopback.")
    ] = None,
    server: Annotated[bool, typer.Option(help="Serve dashboard, API and metrics.")] = True,
    events: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append events as JSON lines.")
    ] = None,
    webhook: Annotated[str | None, typer.Option(help="POST events to this address.")] = None,
    max_restarts: Annotated[
        int | None, typer.Option(min=0, help="Failures in a row before a query is given up.")
    ] = None,
    grace: Annotated[
        str | None, typer.Option(help="How long running batches may take when stopping.")
    ] = None,
) -> None:
    """Run a pipeline: every query with its target, a dashboard, and restarts of what fails.

    FILE.py holds functions marked with @laxity.query(target="800ms"); each takes a SparkSession and
    returns a writeStream that is not started. Settings come from laxity.toml beside it; flags
    outrank them, and what the functions say.

    A query that fails is started again after 1, 2, 4, … 60 s from its checkpoint. SIGTERM and
    Ctrl-C stop the run: running batches may end within the grace, checkpoints stay intact. A second
    signal does not wait.
    """
    from dataclasses import replace

    from laxity.core.durations import parse_duration, parse_target
    from laxity.server.access import read_token
    from laxity.spark.run_settings import load_settings, parse_pairs
    from laxity.spark.runner import run as run_pipeline

    chosen = load_settings(settings, file).with_flags(
        master=master,
        name=name,
        policy=policy,
        conf=parse_pairs(conf or [], "--conf"),
        checkpoints=checkpoints,
        address=address,
        token=None if token_file is None else read_token(token_file),
        serve=None if server else False,
        events_file=events,
        webhook=webhook,
        grace=None if grace is None else parse_duration(grace, name="grace"),
    )
    if max_restarts is not None:
        chosen = replace(chosen, backoff=replace(chosen.backoff, most=max_restarts))
    targets = parse_pairs(target or [], "--target", lambda t: parse_target(t))
    chosen = replace(chosen, targets={**chosen.targets, **targets})
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    console = Console(stderr=True, highlight=False)

    def say(text: str) -> None:
        console.print(text, soft_wrap=True, markup=False)

    @contextmanager
    def busy(text: str) -> Iterator[None]:
        if console.is_terminal:
            with console.status(text + " …"):
                yield
        else:
            say(text)
            yield

    raise typer.Exit(int(run_pipeline(file, chosen, say=say, busy=busy)))


def init(
    folder: Annotated[Path, typer.Argument(help="Where to write it.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Overwrite files of that name.")] = False,
) -> None:
    """Write an example that runs: pipeline.py and laxity.toml.

    Two alerts that must answer within a second or so and two reports that may take minutes, on
    generated clicks. Nothing is overwritten unless --force says so.
    """
    from laxity.templates import write_example

    for path in write_example(folder, force=force):
        typer.echo(f"wrote {path}")
    inside = "" if folder == Path() else f"cd {folder} && "
    typer.echo(f"next: {inside}laxity run pipeline.py")


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    checkpoints: Annotated[
        Path | None, typer.Option(help="The folder checkpoints go to, to look at its file system.")
    ] = None,
    address: Annotated[str, typer.Option(help="Where the dashboard is to listen.")] = (
        "127.0.0.1:8642"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not start Spark to try the hooks.")
    ] = False,
) -> None:
    """Check Python, Java, Spark and its hooks, ports, permissions and file systems; say what to do.

    Each line says what was found and, where something is missing, what to do about it. Java, Spark,
    its hooks and a folder for checkpoints are needed; the rest makes things better.
    """
    from laxity.spark.doctor import examine, show

    with Console(stderr=True).status("looking; Spark takes some seconds to start …"):
        findings = examine(checkpoints, address, quick=quick)
    raise typer.Exit(show(findings, as_json=json))
