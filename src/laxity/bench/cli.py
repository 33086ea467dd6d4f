"""`laxity bench …` and `laxity demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

bench = typer.Typer(help="Measure Laxity on this machine.", no_args_is_help=True)

JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the numbers to a file as well.")
]


def register(app: typer.Typer) -> None:
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


def demo(json: JsonFile = None, seed: Annotated[int, typer.Option()] = 1) -> None:
    """The same tenants under stock scheduling and under deadlines, in virtual time."""
    from laxity.bench.demo import run

    run(seed=seed, json=json)
