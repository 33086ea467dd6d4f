"""The fleet's evaluation as a table and a picture, from the rows of its runs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from laxity.bench import pictures
from laxity.bench.fleet_run import FleetOutcome
from laxity.core.errors import LaxityError

TITLES = {"still": "queries stay where they are", "fleet": "the fleet moves them"}


class NoRunsError(LaxityError, ValueError):
    """A file of rows that holds no run."""


def read_rows(path: Path) -> list[FleetOutcome]:
    try:
        rows = [FleetOutcome(**json.loads(line)) for line in path.read_text().splitlines()]
    except (OSError, ValueError, TypeError) as error:
        raise NoRunsError(f"{path} has no runs of laxity bench fleet-spark: {error}") from error
    if not rows:
        raise NoRunsError(f"{path} is empty; run: laxity bench fleet-spark --rows {path}")
    return rows


def summary(rows: Sequence[FleetOutcome]) -> list[dict[str, Any]]:
    """One line a mode: medians over its runs."""
    found = []
    for mode in dict.fromkeys(row.mode for row in rows):
        mine = [row for row in rows if row.mode == mode]
        times = [row.recovered() for row in mine]
        pauses = [m["pause"] for row in mine for m in row.moves if m["pause"] is not None]
        gaps = [m["gap"] for row in mine for m in row.moves if m["gap"] is not None]
        found.append(
            {
                "mode": mode,
                "runs": len(mine),
                "met_before": median(_met(row.before, row) for row in mine),
                "met_after": median(_met(row.latencies, row) for row in mine),
                "met_last_half": median(_met(_half(row.latencies), row) for row in mine),
                "recovered": sum(t is not None for t in times),
                "recovered_after": median(t for t in times if t is not None)
                if any(t is not None for t in times)
                else None,
                "moves": median(len(row.moves) for row in mine),
                "pause": median(pauses) if pauses else None,
                "gap": median(gaps) if gaps else None,
                "doubled": sum(row.beats["doubled"] for row in mine),
                "sensitivity": min(row.beats["sensitivity"] for row in mine),
                "precision": min(row.beats["precision"] for row in mine),
            }
        )
    return found


def _met(latencies: dict[str, list[float | None]], row: FleetOutcome) -> float:
    target: float = row.plan["target"]
    values = [v for series in latencies.values() for v in series]
    return sum(v is not None and v <= target for v in values) / max(len(values), 1)


def _half(latencies: dict[str, list[float | None]]) -> dict[str, list[float | None]]:
    return {name: series[len(series) // 2 :] for name, series in latencies.items()}


def table(rows: Sequence[FleetOutcome]) -> Table:
    plan = rows[0].plan
    shown = Table(
        "", "runs", "met before the hog", "met after", "in the last half", "met again after",
        "moves", "pause", "until first commit", "beats doubled", "found, of them true",
        title=f"{plan['crowded'] + 2} queries, {plan['crowded']} of them on n1; a target of "
        f"{plan['target']:.0f} s; {plan['seconds']:.0f} s with a CPU hog beside n1",
    )  # fmt: skip
    for line in summary(rows):
        again = "–" if line["recovered_after"] is None else f"{line['recovered_after']:.0f} s"
        if line["recovered"] < line["runs"]:
            again = f"{again} in {line['recovered']} of {line['runs']}"
        if not line["recovered"]:
            again = "never"
        shown.add_row(
            TITLES.get(line["mode"], line["mode"]),
            str(line["runs"]),
            f"{line['met_before']:.0%}",
            f"{line['met_after']:.0%}",
            f"{line['met_last_half']:.0%}",
            again,
            f"{line['moves']:g}",
            "–" if line["pause"] is None else f"{line['pause']:.2f} s",
            "–" if line["gap"] is None else f"{line['gap']:.2f} s",
            str(line["doubled"]),
            f"{line['sensitivity']:.1%}, {line['precision']:.1%}",
        )
    return shown


def plot(rows: Sequence[FleetOutcome], path: Path) -> None:
    """The last run of each mode: every query's latency by second, and when it moved."""
    last = {row.mode: row for row in rows}
    figure, axes = pictures._pyplot().subplots(
        1, len(last), figsize=(5.5 * len(last), 4), sharey=True, squeeze=False
    )
    for axis, (mode, row) in zip(axes[0], last.items(), strict=True):
        moved = {move["query"] for move in row.moves if move["step"] == "done"}
        for number, name in enumerate(row.latencies):
            series = row.before[name] + row.latencies[name]
            seconds = range(-len(row.before[name]), len(row.latencies[name]))
            values = [math.nan if v is None else max(v, 0.01) for v in series]
            colour = pictures.COLOURS[number % len(pictures.COLOURS)]
            where = f"{name}, on {row.where.get(name)}" if name in moved else name
            axis.plot(seconds, values, color=colour, lw=1.2, label=where)
        for move in row.moves:
            axis.axvline(move["at"], color="black", lw=0.8, ls="--")
            text = f" {move['query']} → {move['target']}"
            axis.text(move["at"], axis.get_ylim()[0], text, rotation=90, fontsize=7, va="bottom")
        axis.axvline(0, color="#c44e52", lw=1.5)
        axis.axhline(row.plan["target"], color="grey", ls=":")
        axis.set(title=TITLES.get(mode, mode), xlabel="seconds since the hog is there")
        axis.set_yscale("log")
        axis.legend(frameon=False, fontsize=7, loc="upper right")
        pictures.tidy(axis)
    axes[0][0].set_ylabel("latency of records, by arrival (s)")
    pictures.save(figure, path)
