"""Contests: the same tenants in several modes, interleaved, repeated, summed up by medians.

Modes take turns round by round, each round in another order, so that a machine that is slower for
a while is slower for all of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from laxity.bench.contest import CORES, SLACK, Outcome, Plan, run_plan
from laxity.bench.mixes import Mix
from laxity.bench.modes import Mode


@dataclass(frozen=True, slots=True)
class Entry:
    """A mode on a mix: a line of the report."""

    mode: Mode
    mix: Mix
    title: str


@dataclass(frozen=True, slots=True)
class Contest:
    name: str
    entries: tuple[Entry, ...]
    rounds: int = 3
    warmup: float = 45.0
    seconds: float = 60.0
    cores: int = CORES

    @property
    def runs(self) -> int:
        return self.rounds * len(self.entries)

    def order(self, number: int) -> list[Entry]:
        """Who comes when in a round."""
        turn = number % len(self.entries)
        return [*self.entries[turn:], *self.entries[:turn]]


@dataclass(slots=True)
class Result:
    """All rounds of an entry."""

    entry: Entry
    outcomes: list[Outcome] = field(default_factory=list)

    def median(self, figure: Callable[[Outcome], float]) -> float:
        return statistics.median(self.figures(figure))

    def figures(self, figure: Callable[[Outcome], float]) -> list[float]:
        return [figure(outcome) for outcome in self.outcomes]

    def document(self) -> dict[str, Any]:
        return {
            "mode": self.entry.mode.name,
            "mix": self.entry.mix.name,
            "title": self.entry.title,
            "rounds": [
                {name: figure(o) for name, figure in FIGURES.items()}
                | {"answers": o.answers, "batches": o.batches, "notes": o.notes}
                for o in self.outcomes
            ],
        }


def p50(outcome: Outcome) -> float:
    return outcome.percentile(0.5)


def p95(outcome: Outcome) -> float:
    return outcome.percentile(0.95)


def p99(outcome: Outcome) -> float:
    return outcome.percentile(0.99)


def worst(outcome: Outcome) -> float:
    return outcome.percentile(1.0)


def met(outcome: Outcome) -> float:
    return outcome.met


def deviation(outcome: Outcome) -> float:
    return outcome.spread


def bulk(outcome: Outcome) -> float:
    """Rows a second. Arrivals are the same for all: nobody can do more than was offered, but for
    what was left over from the warm-up."""
    return outcome.bulk_rows_per_second


def cpu(outcome: Outcome) -> float:
    return outcome.cpu_cores


def batches(outcome: Outcome) -> float:
    return outcome.all_batches


FIGURES: dict[str, Callable[[Outcome], float]] = {
    "p50": p50,
    "p95": p95,
    "p99": p99,
    "max": worst,
    "deviation": deviation,
    "met": met,
    "bulk_rows_per_second": bulk,
    "cpu_cores": cpu,
    "batches": batches,
    "loop_share": lambda outcome: outcome.loop_share or 0.0,
}


def run_contest(
    contest: Contest,
    *,
    on_start: Callable[[int, Entry], None] = lambda number, entry: None,
    on_progress: Callable[[float], None] = lambda share: None,
    run: Callable[..., Outcome] = run_plan,
) -> list[Result]:
    """`on_start` is told the number of the run and its entry, `on_progress` the share done of
    that run."""
    results = {entry.title: Result(entry) for entry in contest.entries}
    total = contest.warmup + contest.seconds
    number = 0
    for round_number in range(contest.rounds):
        for entry in contest.order(round_number):
            on_start(number, entry)
            number += 1
            tenants = entry.mix.tenants(total + SLACK)
            plan = Plan(entry.mode, tenants, contest.warmup, contest.seconds, contest.cores)
            outcome = run(plan, on_progress=lambda done: on_progress(min(1.0, done / total)))
            results[entry.title].outcomes.append(outcome)
    return list(results.values())


def contest_of(
    mix: Mix, modes: Sequence[Mode], *, also: Iterable[Entry] = (), **settings: Any
) -> Contest:
    """The mix in each mode, and beside it what else is to be compared in the same run."""
    entries = (*(Entry(mode, mix, mode.title) for mode in modes), *also)
    return Contest(mix.name, entries, **settings)
