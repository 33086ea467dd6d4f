"""`laxity bench NAME` for each mix: runs a contest with progress and writes its report."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from laxity.bench import contest_report
from laxity.bench.goals import GOALS, judge
from laxity.bench.modes import find_modes
from laxity.bench.report import begin
from laxity.bench.suite import Contest, contest_of, run_contest
from laxity.bench.turns import shown_turns
from laxity.bench.workloads.mixes import MIXES, PATTERNS, Mix
from laxity.bench.workloads.tenants import BULK_QUERY

DEFAULT_MODES = "fifo,fair-tuned,laxity,alone"

JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the numbers to a file as well.")
]
Modes = Annotated[
    str,
    typer.Option(
        help="Modes to run, separated by commas; stock, policies, without and all are groups."
    ),
]
Rounds = Annotated[int, typer.Option(min=1, help="How often each mode is run, taking turns.")]
Seconds = Annotated[float, typer.Option(min=5, help="Measured seconds a mode and round.")]
Warmup = Annotated[float, typer.Option(min=5, help="Seconds before that.")]
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Where the report goes.")]


def register(bench: typer.Typer) -> None:
    for mix in MIXES.values():
        bench.command(mix.name, help=f"Contest: {mix.title}.")(_command(mix))


def _command(mix: Mix):  # type: ignore[no-untyped-def]  # typer reads the inner signature
    def run(
        alerts: Annotated[int, typer.Option(min=1, help="Latency-sensitive queries.")] = mix.alerts,
        bulk: Annotated[int, typer.Option(min=0, help="Bulk queries.")] = mix.bulk,
        rows: Annotated[
            float, typer.Option(min=1, help="Rows a second of each bulk query.")
        ] = mix.bulk_rows,
        arrivals: Annotated[
            str, typer.Option(help=f"How bulk arrives: {', '.join(PATTERNS)} or a CSV file.")
        ] = mix.arrivals,
        modes: Modes = DEFAULT_MODES,
        rounds: Rounds = 3,
        seconds: Seconds = 60.0,
        warmup: Warmup = 45.0,
        add: Annotated[
            bool, typer.Option("--add", help="Add to the rounds whose report is there already.")
        ] = False,
        json: JsonFile = None,
        out: Out = Path("out/bench"),
    ) -> None:
        chosen = replace(mix, alerts=alerts, bulk=bulk, bulk_rows=rows, arrivals=arrivals)
        contest = contest_of(
            chosen, find_modes(modes), rounds=rounds, warmup=warmup, seconds=seconds
        )
        hold(contest, json=json, folder=out / mix.name, add=add)

    return run


def hold(contest: Contest, *, json: Path | None, folder: Path, add: bool) -> None:
    for entry in contest.entries:
        if entry.mode.engine == "flink":
            from laxity.bench import flink

            flink.check((*entry.mix.alert_queries, *([BULK_QUERY] * entry.mix.bulk)))
    console, _ = begin()
    for mix in {entry.mix.name: entry.mix for entry in contest.entries}.values():
        console.print(f"{mix.name}: {mix.title}")
    console.print(
        f"{contest.rounds} rounds of {len(contest.entries)} entries, {contest.warmup:.0f} s of "
        f"warm-up and {contest.seconds:.0f} s of measurement each: about "
        f"{contest.runs * (contest.warmup + contest.seconds + 15) / 60:.0f} minutes."
    )
    earlier = contest_report.earlier_rounds(folder, contest) if add else {}
    done = max(map(len, earlier.values()), default=0)
    turns = shown_turns(console, contest.entries, contest.rounds, done)
    results = run_contest(
        contest, turns, earlier=earlier, keep=partial(contest_report.keep, folder)
    )
    verdicts = judge(GOALS.get(contest.name, ()), results)
    contest_report.show(console, results, verdicts)
    contest_report.write(console, folder, contest, results, verdicts, json)
