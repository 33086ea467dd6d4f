"""`laxity control`: change the queries of a running service, and see who changed what."""

from __future__ import annotations

import getpass
import json as json_module
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from laxity.core.errors import LaxityError
from laxity.server.cli import DEFAULT
from laxity.server.control import Control, Operation

app = typer.Typer(
    help="Change a running query between two of its batches; see who changed what, and undo it.",
    no_args_is_help=True,
)

Query = Annotated[str, typer.Argument(help="The query's name, or its id.")]
Address = Annotated[
    str, typer.Option("--address", "-a", help="HOST:PORT of what `laxity run` serves.")
]
TokenFile = Annotated[
    Path | None, typer.Option(help="A file with its token; needed for every change.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Variables = Annotated[
    list[str] | None, typer.Argument(help="NAME=VALUE of variables and functions.")
]


class PairError(LaxityError, ValueError):
    """An argument that is not NAME=VALUE."""


def register(main: typer.Typer) -> None:
    main.add_typer(app, name="control")


@app.command()
def show(
    query: Query, address: Address = DEFAULT, token_file: TokenFile = None, json: Json = False
) -> None:
    """Its variables, settings, keys, and the history of its changes."""
    found = _service(address, token_file).control(query)
    if json:
        _print_json(found)
    else:
        _print_control(found)


@app.command("set")
def set_(
    query: Query,
    variables: Variables = None,
    target: Annotated[str | None, typer.Option(help="A duration, or none.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows or files, 0 for its own.")] = None,
    pace: Annotated[str | None, typer.Option(help="At least so long between batches.")] = None,
    policy: Annotated[str | None, typer.Option(help="Of the whole application.")] = None,
    address: Address = DEFAULT,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Variables, functions and settings, all from the same batch on."""
    settings: dict[str, Any] = {
        "target": target,
        "batch_size": batch_size,
        "pace": pace,
        "policy": policy,
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    if settings.get("target") == "none":
        settings["target"] = None
    arguments = {"variables": _pairs(variables), **settings}
    _operate(query, "change", arguments, address, token_file, json)


@app.command()
def pause(
    query: Query, address: Address = DEFAULT, token_file: TokenFile = None, json: Json = False
) -> None:
    """Hold its next batch until it is resumed; nothing is lost."""
    _operate(query, "change", {"paused": True}, address, token_file, json)


@app.command()
def resume(
    query: Query, address: Address = DEFAULT, token_file: TokenFile = None, json: Json = False
) -> None:
    """Let a paused query go on."""
    _operate(query, "change", {"paused": False}, address, token_file, json)


@app.command()
def scale(
    query: Query,
    partitions: Annotated[int, typer.Argument(help="Partitions of its state.")],
    address: Address = DEFAULT,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Divide its state anew; it stops at a boundary and goes on by itself."""
    _operate(query, "scale", {"partitions": partitions}, address, token_file, json)


@app.command()
def savepoint(
    query: Query,
    path: Annotated[str, typer.Argument(help="A new folder, where the service runs.")],
    address: Address = DEFAULT,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """A consistent copy of its checkpoint, while it runs."""
    _operate(query, "savepoint", {"path": path}, address, token_file, json)


@app.command()
def rollback(
    query: Query,
    batch: Annotated[int, typer.Argument(help="The last batch that is to count.")],
    variables: Variables = None,
    address: Address = DEFAULT,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Back to the end of a batch, and on from there, with other variables if given."""
    arguments = {"batch": batch, "variables": _pairs(variables)}
    _operate(query, "rollback", arguments, address, token_file, json)


@app.command()
def monitor(
    query: Query,
    every: Annotated[int, typer.Option(help="Count in one of so many batches; 0 stops.")] = 10,
    column: Annotated[
        list[str] | None, typer.Option(help="Count by this, not by the query's own keys.")
    ] = None,
    address: Address = DEFAULT,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Count its keys beside the data; `show` tells how many there are, and the heaviest."""
    arguments = {"every": every, "columns": column or []}
    _operate(query, "monitor", arguments, address, token_file, json)


@app.command("repair-skew")
def repair_skew(
    query: Query,
    method: Annotated[str, typer.Option(help="auto, broadcast, salt or none.")] = "auto",
    key: Annotated[list[str] | None, typer.Option(help="Hot, if they are known.")] = None,
    address: Address = DEFAULT,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Spread the load of hot keys of a join with a table."""
    arguments = {"method": method, "keys": key or []}
    _operate(query, "repair-skew", arguments, address, token_file, json)


@app.command()
def tune(
    query: Query,
    target: Annotated[str, typer.Argument(help="The latency to keep within.")],
    start: Annotated[int | None, typer.Option(help="Rows a batch to begin with.")] = None,
    rate: Annotated[float | None, typer.Option(help="Rows a second, if it has a backlog.")] = None,
    address: Address = DEFAULT,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Look for the largest batches that keep within a target; each phase is in the history."""
    arguments = {"target": target, "start": start, "rate": rate}
    _operate(query, "tune", arguments, address, token_file, json)


@app.command()
def undo(
    query: Query, address: Address = DEFAULT, token_file: TokenFile = None, json: Json = False
) -> None:
    """Take back the last change that has not been taken back yet."""
    _operate(query, "undo", {}, address, token_file, json)


def _service(address: str, token_file: Path | None) -> Any:
    from laxity.server.access import read_token
    from laxity.server.client import RemoteService

    return RemoteService(address, None if token_file is None else read_token(token_file))


def _operate(
    query: str,
    operation: str,
    arguments: Mapping[str, Any],
    address: str,
    token_file: Path | None,
    json: bool,
) -> None:
    service = _service(address, token_file)
    done = service.operate(query, operation, arguments, getpass.getuser())
    if json:
        _print_json(done)
    else:
        typer.echo(describe(done))


def _pairs(given: list[str] | None) -> dict[str, Any]:
    """A=20 as a number, label=v2 as text: JSON where it is JSON."""
    found: dict[str, Any] = {}
    for pair in given or []:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise PairError(f"{pair!r} is not NAME=VALUE")
        try:
            found[name] = json_module.loads(value)
        except ValueError:
            found[name] = value
    return found


def describe(done: Operation) -> str:
    before = "" if done.batch is None else f" before batch {done.batch}"
    details = ", ".join(f"{key} {_short(value)}" for key, value in done.result.items())
    took = "" if done.took is None else f" ({done.took:.2f} s)"
    return f"{done.id}: {done.name} by {done.by}{before}{took}" + (details and f": {details}")


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, (list, tuple)):
        return " → ".join(map(_short, value))
    return str(value)


def _print_json(value: Any) -> None:
    from laxity.server.views import plain

    typer.echo(json_module.dumps(plain(value), indent=2))


def _print_control(found: Control) -> None:
    from datetime import datetime

    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"[bold]{found.query}[/]")
    for name, value in found.variables.items():
        console.print(f"  {name} = {value}", markup=False)
    known = {k: v for k, v in found.settings.items() if v not in (None, 0, 0.0, {}, False)}
    console.print("  " + ", ".join(f"{k} {v}" for k, v in known.items()), markup=False)
    if found.batches:
        first, last = found.batches
        console.print(f"  goes back to batches {first} to {last}")
    if found.partitions is not None:
        console.print(f"  {found.partitions} partitions of state")
    if found.keys is not None:
        console.print(f"  about {found.keys.keys:,} keys in batch {found.keys.batch}")
        for key in found.keys.heaviest[:5]:
            console.print(f"    {key.share:6.1%}  {key.key}", markup=False)
    table = Table("", "operation", "by", "at", "before batch", "took", "what", box=None)
    for done in found.history:
        what = {k: v for k, v in done.arguments.items() if v not in (None, [], {})}
        table.add_row(
            done.id.rpartition("#")[2],
            done.name,
            done.by,
            datetime.fromtimestamp(done.at).strftime("%H:%M:%S"),
            str(done.batch),
            "" if done.took is None else f"{done.took:.2f} s",
            ", ".join(f"{k} {_short(v)}" for k, v in what.items()),
        )
    if found.history:
        console.print(table)
