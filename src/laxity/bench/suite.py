"""Contests: the same tenants in several modes, interleaved, repeated, summed up by medians."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from laxity.bench.contest import CORES, SLACK, Outcome, Plan, run_plan
from laxity.bench.modes import Mode
from laxity.bench.turns import OnShare, scaled
from laxity.bench.workloads.mixes import Mix


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
                | {
                    "answers": o.answers,
                    "bulk_answers": o.bulk_answers,
                    "batches": o.batches,
                    "cpu_by_second": o.cpu_by_second,
                    "notes": o.notes,
                }
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


def bulk_p50(outcome: Outcome) -> float:
    return outcome.bulk_percentile(0.5)


def bulk_p99(outcome: Outcome) -> float:
    return outcome.bulk_percentile(0.99)


def cpu(outcome: Outcome) -> float:
    return outcome.cpu_cores


def batches(outcome: Outcome) -> float:
    return outcome.all_batches


def cpu_per_batch(outcome: Outcome) -> float:
    return outcome.cpu_per_batch


def loop(outcome: Outcome) -> float:
    return outcome.loop_share or 0.0


FIGURES: dict[str, Callable[[Outcome], float]] = {
    "p50": p50,
    "p95": p95,
    "p99": p99,
    "max": worst,
    "deviation": deviation,
    "met": met,
    "bulk_rows_per_second": bulk,
    "bulk_p50": bulk_p50,
    "bulk_p95": lambda outcome: outcome.bulk_percentile(0.95),
    "bulk_p99": bulk_p99,
    "bulk_max": lambda outcome: outcome.bulk_percentile(1.0),
    "cpu_cores": cpu,
    "batches": batches,
    "cpu_per_batch": cpu_per_batch,
    "loop_share": loop,
}


def run_contest(
    contest: Contest,
    turns: Iterable[tuple[Entry, OnShare]],
    *,
    earlier: Mapping[str, list[Outcome]] | None = None,
    keep: Callable[[Mapping[str, Result]], None] = lambda results: None,
    run: Callable[..., Outcome] = run_plan,
) -> dict[str, Result]:
    """Results by title, added to those of earlier rounds. `keep` is called after every turn: who
    stops a long contest should not lose what it has found."""
    known = earlier or {}
    results = {e.title: Result(e, list(known.get(e.title, ()))) for e in contest.entries}
    total = contest.warmup + contest.seconds
    for entry, on_share in turns:
        tenants = entry.mix.tenants(total + SLACK)
        plan = Plan(entry.mode, tenants, contest.warmup, contest.seconds, contest.cores)
        outcome = run(plan, on_progress=scaled(on_share, total))
        results[entry.title].outcomes.append(outcome)
        keep(results)
    return results


def contest_of(mix: Mix, modes: Sequence[Mode], **settings: Any) -> Contest:
    entries = (Entry(mode, mix.alone() if mode.alone else mix, mode.title) for mode in modes)
    return Contest(mix.name, tuple(entries), **settings)
