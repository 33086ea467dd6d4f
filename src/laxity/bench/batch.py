"""`laxity bench batch`: the CPU of one small stateful micro-batch, as the JVM warms up.

A query counts 1,000 rows a batch by a hundred keys, with a result in every batch, and its source is
always ahead of it: it runs back to back, and the process's CPU over the batches it ran is what one
costs. Everything is in it: planning, scheduling, tasks, state, checkpoint, and Laxity where it is
attached.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.markup import escape

from laxity.bench.contest import CORES
from laxity.bench.figures import Column, duration, markdown, table, two_digits
from laxity.bench.goals import BATCH_GOALS, judge, show_verdicts, verdict_lines
from laxity.bench.modes import Mode
from laxity.bench.process import Say, run_apart
from laxity.bench.report import begin, publish
from laxity.bench.turns import scaled, shown_turns
from laxity.bench.workloads.arrivals import constant
from laxity.bench.workloads.tenants import Tenant

ROWS = 1000
SLICE = 25.0


@dataclass(frozen=True, slots=True)
class Slice:
    """Some seconds of a process's life."""

    start: float
    """Seconds after the query was started."""
    seconds: float
    cpu_seconds: float
    batches: int
    batch_seconds: float
    """The median batch, from its begin to its end."""

    @property
    def cpu_per_batch(self) -> float:
        return self.cpu_seconds / max(1, self.batches)

    @property
    def cpu_cores(self) -> float:
        return self.cpu_seconds / self.seconds


@dataclass(frozen=True, slots=True)
class BatchJob:
    mode: Mode
    slices: int

    @property
    def label(self) -> str:
        return f"mode {self.mode.name!r}"

    def perform(self, scratch: Path, say: Say) -> list[dict[str, Any]]:
        from laxity.bench.stage import batches_in, staged

        # One tick of 10 ms is one batch: the source is ahead below 100 batches a second.
        seconds = self.slices * SLICE + 30
        arrivals = constant(ROWS * 100, seconds)
        tenant = Tenant("small", "running-counts", 0.8, arrivals, sensitive=True, most_rows=ROWS)
        found = []
        with staged(self.mode, scratch, CORES, [tenant]) as stage:
            stage.start([tenant])
            for number in range(self.slices):
                say(number)
                period = stage.watch(SLICE)
                seen = stage.observe(period)["small"]
                inside = batches_in(seen, period)
                took = statistics.median([b.seconds for b in inside] or [0.0])
                found.append(
                    asdict(
                        Slice(number * SLICE, period.seconds, period.cpu_seconds, len(inside), took)
                    )
                )
        return found


def columns(slices: int) -> list[Column[list[Slice]]]:
    def cost(number: int) -> Callable[[list[Slice]], float]:
        return lambda run: run[number].cpu_per_batch

    found: list[Column[list[Slice]]] = [
        Column(f"CPU a batch, {n * SLICE:.0f}–{(n + 1) * SLICE:.0f} s", cost(n), duration)
        for n in range(slices)
    ]
    found.append(Column("batch takes", lambda run: run[-1].batch_seconds, duration))
    found.append(Column("batches/s", lambda run: run[-1].batches / run[-1].seconds, two_digits))
    found.append(Column("CPU (cores)", lambda run: run[-1].cpu_cores, two_digits))
    return found


def run(modes: Sequence[Mode], *, rounds: int, warmup: float, out: Path, json: Path | None) -> None:
    console, _ = begin()
    slices = max(1, round(warmup / SLICE)) + 1
    console.print(
        escape(
            f"One query of {ROWS:,} rows a batch, back to back, on local[{CORES}]; {rounds} "
            f"processes a mode, taking turns, {slices * SLICE:.0f} s each."
        )
    )
    runs: dict[str, list[list[Slice]]] = {mode.title: [] for mode in modes}
    for mode, on_share in shown_turns(console, modes, rounds):
        job = BatchJob(mode, slices)
        said = run_apart(job, on_said=scaled(on_share, slices))
        runs[mode.title].append([Slice(**part) for part in said])
    console.print(table("CPU of one small stateful batch", columns(slices), runs))
    costs = {title: [run[-1].cpu_per_batch for run in each] for title, each in runs.items()}
    verdicts = judge(BATCH_GOALS, costs)
    show_verdicts(console, verdicts)
    found = {
        title: [
            [asdict(part) | {"cpu_per_batch": part.cpu_per_batch} for part in run] for run in each
        ]
        for title, each in runs.items()
    }
    goals = [asdict(verdict) for verdict in verdicts]
    page = [*markdown(columns(slices), runs), "", *verdict_lines(verdicts)]
    document = {"rows": ROWS, "slices": found, "goals": goals}
    publish(console, out, "Cost of one small stateful batch", page, document, json)
