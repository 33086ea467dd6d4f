"""`laxity bench overhead`: what an attached Laxity costs a single query with nothing to decide.

One latency-sensitive query has the machine to itself. Stock Spark and Laxity take turns in one warm
JVM, each with a fresh start of the query: two processes differ by more than what is looked for.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress

from laxity.bench.contest import CORES
from laxity.bench.figures import Column, duration, markdown, percent, table, two_digits, whole
from laxity.bench.goals import OVERHEAD_GOALS, judge, show_verdicts, verdict_lines
from laxity.bench.modes import Mode, find_spark_modes
from laxity.bench.process import Say, run_apart
from laxity.bench.report import begin, publish
from laxity.bench.turns import in_turns
from laxity.bench.workloads.mixes import find_mix
from laxity.core.errors import LaxityError

MODES = "fifo,without-files,laxity"
SETTLE = 3.0


class OneJvmError(LaxityError, ValueError):
    """A mode that needs a Spark of its own."""


@dataclass(frozen=True, slots=True)
class Turn:
    title: str
    latencies: list[float]
    batch_seconds: float
    cpu_seconds: float
    batches: int
    seconds: float

    @property
    def cpu_per_batch(self) -> float:
        return self.cpu_seconds / max(1, self.batches)

    @property
    def cpu_cores(self) -> float:
        return self.cpu_seconds / self.seconds

    @property
    def latency(self) -> float:
        return statistics.median(self.latencies) if self.latencies else 0.0

    @property
    def worst(self) -> float:
        return max(self.latencies, default=0.0)


@dataclass(frozen=True, slots=True)
class OverheadJob:
    modes: tuple[Mode, ...]
    rounds: int
    warmup: float
    seconds: float

    @property
    def label(self) -> str:
        return "the overhead of Laxity"

    @property
    def turns(self) -> int:
        return len(self.modes) * (self.rounds + 1)

    def perform(self, scratch: Path, say: Say) -> list[dict[str, Any]]:
        from laxity.bench.stage import batches_in, staged

        found = []
        (tenant,) = find_mix("alone").tenants(max(self.warmup, SETTLE) + self.seconds + 60)
        with staged(self.modes[0], scratch, CORES) as stage:
            # A first turn of each warms up the code of each, and does not count.
            warm = self.warmup / len(self.modes)
            order = [(mode, warm, 1.0) for mode in self.modes]
            order += [(m, SETTLE, self.seconds) for m in in_turns(self.modes, self.rounds)]
            for number, (mode, settle, seconds) in enumerate(order):
                say(number)
                stage.attach(mode.laxity)
                stage.start([tenant])
                stage.watch(settle)
                period = stage.watch(seconds)
                seen = stage.observe(period)
                batches = batches_in(seen[tenant.name], period)
                turn = Turn(
                    mode.title,
                    [latency for _, _, latency in stage.answers(seen, period)],
                    statistics.median([batch.seconds for batch in batches] or [0.0]),
                    period.cpu_seconds,
                    len(batches),
                    period.seconds,
                )
                stage.stop([tenant.name])
                found.append(asdict(turn))
        return found[len(self.modes) :]


COLUMNS: tuple[Column[Turn], ...] = (
    Column("latency, p50", lambda turn: turn.latency, duration),
    Column("worst", lambda turn: turn.worst, duration),
    Column("batch takes", lambda turn: turn.batch_seconds, duration),
    Column("CPU a batch", lambda turn: turn.cpu_per_batch, duration),
    Column("CPU (cores)", lambda turn: turn.cpu_cores, two_digits),
    Column("batches", lambda turn: turn.batches, whole),
)

RATIOS: tuple[Column[tuple[Turn, Turn]], ...] = (
    Column("latency, p50", lambda pair: _more(pair, "latency"), percent),
    Column("batch takes", lambda pair: _more(pair, "batch_seconds"), percent),
    Column("CPU a batch", lambda pair: _more(pair, "cpu_per_batch"), percent),
    Column("CPU (cores)", lambda pair: _more(pair, "cpu_cores"), percent),
)


def _more(pair: tuple[Turn, Turn], figure: str) -> float:
    ours, stock = (float(getattr(turn, figure)) for turn in pair)
    return ours / stock - 1 if stock else 0.0


def pairs(turns: Mapping[str, Sequence[Turn]]) -> dict[str, list[tuple[Turn, Turn]]]:
    """Each turn of a mode with the first mode's of the same round."""
    first, *others = turns
    return {title: list(zip(turns[title], turns[first], strict=True)) for title in others}


def run(
    modes: str, *, rounds: int, warmup: float, seconds: float, out: Path, json: Path | None
) -> None:
    chosen = tuple(find_spark_modes(modes))
    for mode in chosen:
        if mode.conf or mode.triggers:
            raise OneJvmError(f"all turns share one Spark, and mode {mode.name!r} needs its own")
    console, _ = begin()
    job = OverheadJob(chosen, rounds, warmup, seconds)
    console.print(
        f"One query of 1,000 rows/s alone: {rounds} turns of {seconds:.0f} s for each mode in one "
        f"JVM, after {warmup:.0f} s of warm-up."
    )
    with Progress(console=console) as progress:
        bar = progress.add_task("turns", total=job.turns)
        said = run_apart(job, on_said=lambda number: progress.update(bar, completed=number))
        progress.update(bar, completed=job.turns)
    turns: dict[str, list[Turn]] = {mode.title: [] for mode in chosen}
    for turn in said:
        turns[turn["title"]].append(Turn(**turn))
    more = pairs(turns)
    console.print(table("Turns", COLUMNS, turns))
    console.print(table(f"More than {chosen[0].title}, turn by turn", RATIOS, more))
    verdicts = judge(
        OVERHEAD_GOALS, {title: [_ratios(p) for p in all_] for title, all_ in more.items()}
    )
    show_verdicts(console, verdicts)
    page = [*markdown(COLUMNS, turns), "", f"More than {chosen[0].title}, turn by turn:", ""]
    page += [*markdown(RATIOS, more), "", *verdict_lines(verdicts)]
    document = {
        "turns": [asdict(turn) for each in turns.values() for turn in each],
        "goals": [asdict(verdict) for verdict in verdicts],
    }
    publish(console, out, "Overhead of an attached Laxity", page, document, json)


def _ratios(pair: tuple[Turn, Turn]) -> dict[str, float]:
    return {figure: _more(pair, figure) for figure in ("latency", "cpu_per_batch")}
