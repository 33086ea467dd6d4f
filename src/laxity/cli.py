"""The `laxity` command. Each package registers the commands it owns.

Command modules import what is heavy (Spark, plots) inside their functions, so that `--help` and
completion stay quick.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from laxity import __version__
from laxity.core.errors import LaxityError
from laxity.manual import describe

_COMMAND_MODULES: tuple[str, ...] = (
    "laxity.spark.cli",
    "laxity.server.cli",
    "laxity.server.control_cli",
    "laxity.bench.cli",
    "laxity.sim.cli",
    "laxity.host.cli",
    "laxity.bench.host_cli",
    "laxity.fleet.cli",
    "laxity.spark.agent.cli",
)
"""Modules with a `register(app)` function, in the order their commands are listed."""

app = typer.Typer(
    name="laxity",
    help="Deadlines for Spark streams: many queries share a cluster, each meets its target.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_debug = False


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"laxity {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    global _debug
    _debug = debug


for _module in _COMMAND_MODULES:
    import_module(_module).register(app)
describe(app)


def main() -> None:
    """Run the command; an expected error is one line on stderr and exit code 2."""
    try:
        app()
    except LaxityError as error:
        if _debug:
            raise
        text = Text.assemble(("error:", "bold red"), f" {error}")  # brackets in it are no markup
        Console(stderr=True, highlight=False).print(text, soft_wrap=True)
        sys.exit(2)
