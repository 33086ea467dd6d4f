"""What a contest is to show, as ratios of entries of the same run.

A goal that is missed is reported as missed. Each needs certain modes beside Laxity; without them
it says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.console import Console

from laxity.bench.contest import Outcome
from laxity.bench.modes import ALONE, FAIR_TUNED, FIFO, FLINK, LAXITY, STOCK, WITHOUT
from laxity.bench.suite import Result, deviation, met, p99


@dataclass(frozen=True, slots=True)
class Goal:
    text: str
    measure: Callable[[Mapping[str, Any]], float]
    """From results by title; KeyError or ValueError where a mode it compares with was not run."""
    reached: Callable[[float], bool]
    shown: str = "{:.2f} ×"


@dataclass(frozen=True, slots=True)
class Verdict:
    goal: str
    measured: str
    reached: bool


def judge(goals: Sequence[Goal], results: Mapping[str, Any]) -> list[Verdict]:
    verdicts = []
    for goal in goals:
        try:
            value = goal.measure(results)
        except (KeyError, ValueError):
            continue
        verdicts.append(Verdict(goal.text, goal.shown.format(value), goal.reached(value)))
    return verdicts


def show_verdicts(console: Console, verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        mark = "[green]reached[/]" if verdict.reached else "[red]falls short[/]"
        console.print(f"  {verdict.goal}: {verdict.measured} {mark}")


def verdict_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """For a Markdown page."""
    if not verdicts:
        return []
    return [
        "| goal | measured | |",
        "| --- | ---: | --- |",
        *(
            f"| {v.goal} | {v.measured} | {'reached' if v.reached else '**falls short**'} |"
            for v in verdicts
        ),
        "",
    ]


def _share_met(results: Mapping[str, Result]) -> float:
    return results[LAXITY.title].median(met)


def _met_at_least(share: float) -> Goal:
    return Goal(f"targets met ≥ {share:.0%}", _share_met, lambda x: x >= share, "{:.1%}")


def _p99_against(title: str, most: float, text: str) -> Goal:
    def ratio(results: Mapping[str, Result]) -> float:
        return results[LAXITY.title].median(p99) / results[title].median(p99)

    return Goal(text, ratio, lambda x: x <= most)


def _deviation_against_fifo(most: float) -> Goal:
    def ratio(results: Mapping[str, Result]) -> float:
        return results[LAXITY.title].median(deviation) / results[FIFO.title].median(deviation)

    return Goal(f"standard deviation ≤ {most:g} × FIFO's", ratio, lambda x: x <= most)


def _bulk_against_fifo(least: float) -> Goal:
    def done(outcome: Outcome) -> float:
        # More than arrived is a backlog of the warm-up: nobody's merit.
        return min(outcome.bulk_rows_per_second, outcome.bulk_offered)

    def ratio(results: Mapping[str, Result]) -> float:
        return results[LAXITY.title].median(done) / results[FIFO.title].median(done)

    text = f"bulk throughput, up to what arrives, ≥ {least:g} × FIFO's"
    return Goal(text, ratio, lambda x: x >= least)


def _more_than_everyone_else() -> Goal:
    def lead(results: Mapping[str, Result]) -> float:
        others = [mode.title for mode in (*STOCK, FLINK) if mode.title in results]
        return _share_met(results) - max(results[title].median(met) for title in others)

    text = "targets met, in points above the best stock mode and Flink, as far as they ran"
    return Goal(text, lead, lambda x: x > 0, "{:+.1%}")


GOALS: dict[str, tuple[Goal, ...]] = {
    "standard": (
        _met_at_least(1.0),
        _p99_against(FIFO.title, 1 / 5, "p99 ≤ 1/5 of FIFO's"),
        _p99_against(FAIR_TUNED.title, 1 / 2, "p99 ≤ 1/2 of hand-tuned FAIR's"),
        _p99_against(ALONE.title, 1.5, "p99 ≤ 1.5 × the query alone"),
        _bulk_against_fifo(0.99),
    ),
    "overload": (_met_at_least(0.97), _bulk_against_fifo(0.95)),
    "bursts": (
        _p99_against(FIFO.title, 1 / 10, "p99 ≤ 1/10 of FIFO's"),
        _deviation_against_fifo(1 / 10),
    ),
    "heavy": (_met_at_least(0.95), _more_than_everyone_else()),
}


def _batch_cost(results: Mapping[str, Sequence[float]]) -> float:
    return median(results[LAXITY.title]) / median(results[FIFO.title])


BATCH_GOALS = (
    Goal("CPU of a small batch ≤ 60/147 of stock's", _batch_cost, lambda x: x <= 60 / 147),
)
"""For the CPU seconds of each process's last batches."""


def _median_more(title: str, figure: str, text: str, most: float) -> Goal:
    def more(results: Mapping[str, Sequence[Mapping[str, float]]]) -> float:
        return median(pair[figure] for pair in results[title])

    return Goal(text, more, lambda x: x <= most, "{:+.1%}")


_BARE = next(mode.title for mode in WITHOUT if mode.name == "without-files")
OVERHEAD_GOALS = (
    _median_more(_BARE, "latency", "latency with stock files ≤ 2 % more", 0.02),
    _median_more(_BARE, "cpu_per_batch", "CPU a batch with stock files ≤ 2 % more", 0.02),
    _median_more(LAXITY.title, "latency", "latency less than stock's with fork-free files", 0.0),
    _median_more(LAXITY.title, "cpu_per_batch", "CPU less than stock's with fork-free files", 0.0),
)
"""For what each turn took more than stock's of the same round."""


def density_goals(loads: Sequence[str]) -> list[Goal]:
    """For the numbers of queries that each search found, by mode and load."""

    def against_best_stock(load: str) -> Callable[[Mapping[str, Sequence[float]]], float]:
        def ratio(results: Mapping[str, Sequence[float]]) -> float:
            stock = [f"{mode.title}, {load}" for mode in STOCK]
            best = max(median(results[title]) for title in stock if title in results)
            return median(results[f"{LAXITY.title}, {load}"]) / max(best, 1)

        return ratio

    return [
        Goal(f"density ≥ 3 × stock's best mode, {load}", against_best_stock(load), lambda x: x >= 3)
        for load in dict.fromkeys(loads)
    ]
