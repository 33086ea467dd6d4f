"""`laxity bench goals`: what every report in a folder says of its goals, in one table."""

from __future__ import annotations

import json
from pathlib import Path

from rich.table import Table

from laxity.bench.report import begin
from laxity.core.errors import LaxityError


class NoReportsError(LaxityError, FileNotFoundError):
    """Nothing has been measured yet."""


def run(folder: Path) -> None:
    files = sorted(folder.glob("*/results.json"))
    if not files:
        raise NoReportsError(f"no reports in {folder}: run `make bench`, or laxity bench standard")
    console, _ = begin()
    table = Table(title="Goals")
    for column in ("benchmark", "goal", "measured", ""):
        table.add_column(column)
    for file in files:
        for verdict in json.loads(file.read_text()).get("goals", ()):
            mark = "[green]reached[/]" if verdict["reached"] else "[red]falls short[/]"
            table.add_row(file.parent.name, verdict["goal"], verdict["measured"], mark)
    console.print(table)
