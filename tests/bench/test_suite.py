"""Contests: turns, medians, goals and the report, with runs that need no Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from laxity.bench import contest_report, summary
from laxity.bench.contest import Outcome, Plan
from laxity.bench.goals import GOALS, judge
from laxity.bench.modes import ALONE, FAIR_TUNED, FIFO, LAXITY
from laxity.bench.suite import Contest, Entry, Result, contest_of, met, p99, run_contest
from laxity.bench.turns import OnShare, in_turns
from laxity.bench.workloads.mixes import MIXES

STANDARD = MIXES["standard"]


def outcome(mode: str, *latencies: float, bulk: float = 300_000.0) -> Outcome:
    return Outcome(
        mode=mode,
        seconds=60.0,
        answers=[("alerts-0", float(at), latency) for at, latency in enumerate(latencies)],
        bulk_answers=[("bulk-0", 0.0, 4.0)],
        bulk_rows_per_second=bulk,
        bulk_offered=300_000.0,
        cpu_cores=1.9,
        batches={"alerts-0": 20, "bulk-0": 5},
        cpu_by_second=[(1.0, 1.9), (2.0, 1.8)],
        bulk_by_batch=[(0.5, 1000), (1.5, 3000)],
        batch_ends=[0.1, 0.5, 1.5],
        tasks=[("alerts-0", 0, 29.0, 29.1), ("alerts-0", 1, 29.1, 29.2), ("bulk-0", 0, 29.0, 31.0)],
        target=0.8,
        version="Spark 4.3.0",
        loop_share=0.01 if mode == "laxity" else None,
        notes=[],
    )


def contest(**settings: int) -> Contest:
    return contest_of(STANDARD, [FIFO, FAIR_TUNED, LAXITY, ALONE], **settings)


def held(latency: Callable[[Plan, int], float]) -> dict[str, Result]:
    """A contest of three rounds in which each run has one answer."""
    order: list[str] = []

    def run(plan: Plan, **_: object) -> Outcome:
        order.append(plan.mode.name)
        return outcome(plan.mode.name, latency(plan, order.count(plan.mode.name)))

    return run_contest(contest(rounds=3), turns(contest().entries, 3), run=run)


def turns(entries: Sequence[Entry], rounds: int) -> Iterator[tuple[Entry, OnShare]]:
    return ((entry, lambda share: None) for entry in in_turns(entries, rounds))


def test_every_round_begins_with_another_mode() -> None:
    order = [entry.title for entry in in_turns(contest().entries, 4)]
    rounds = [order[n : n + 4] for n in range(0, 16, 4)]
    assert {round_[0] for round_ in rounds} == set(order)
    assert all(set(round_) == set(order) for round_ in rounds)


def test_an_odd_round_does_not_move_the_median() -> None:
    results = held(lambda plan, turn: 9.0 if turn == 2 and plan.mode is LAXITY else 0.3)
    ours = results[LAXITY.title]
    assert ours.figures(p99) == [0.3, 9.0, 0.3]
    assert ours.median(p99) == 0.3
    assert ours.median(met) == 1.0


def test_the_query_alone_is_an_entry_of_its_own_beside_the_same_mode_on_the_mix() -> None:
    alone = held(lambda plan, turn: float(len(plan.tenants)))
    assert alone[ALONE.title].median(p99) == 1
    assert alone[FIFO.title].median(p99) == 5


@pytest.mark.parametrize(("latency", "reached"), [(0.2, True), (0.7, False)])
def test_goals_are_judged_by_ratios_within_the_run(latency: float, reached: bool) -> None:
    results = held(lambda plan, turn: latency if plan.mode is LAXITY else 2.0)
    verdicts = {v.goal: v for v in judge(GOALS["standard"], results)}
    assert verdicts["p99 ≤ 1/5 of FIFO's"].reached is reached
    assert verdicts["p99 ≤ 1/2 of hand-tuned FAIR's"].reached


def test_a_goal_against_a_mode_that_did_not_run_says_nothing() -> None:
    alone = contest_of(STANDARD, [LAXITY], rounds=1)
    only = run_contest(alone, turns(alone.entries, 1), run=lambda plan, **_: outcome("laxity", 0.3))
    assert [v.goal for v in judge(GOALS["standard"], only)] == ["targets met ≥ 100%"]


def test_the_report_says_what_ran_and_what_fell_short(tmp_path: Path) -> None:
    results = held(lambda plan, turn: 1.0)
    verdicts = judge(GOALS["standard"], results)
    contest_report.write(Console(), tmp_path, contest(), results, verdicts, tmp_path / "copy.json")
    text = (tmp_path / "report.md").read_text()
    assert "Spark 4.3.0" in text
    assert "3 rounds" in text
    assert "spark.scheduler.mode=FAIR" in text
    assert "**falls short**" in text
    for picture in ("latency", "over_time", "timeline"):
        assert (tmp_path / f"{picture}.png").stat().st_size > 1000
    numbers = json.loads((tmp_path / "copy.json").read_text())
    assert numbers == json.loads((tmp_path / "results.json").read_text())
    assert len(numbers["results"]) == 4
    assert len(numbers["results"][0]["rounds"]) == 3


def test_rounds_can_be_added_to_a_report(tmp_path: Path) -> None:
    before = held(lambda plan, turn: 1.0)
    contest_report.write(Console(), tmp_path, contest(), before, [], None)
    earlier = contest_report.earlier_rounds(tmp_path, contest())
    after = run_contest(
        contest(),
        turns(contest().entries, 1),
        earlier=earlier,
        run=lambda plan, **_: outcome(plan.mode.name, 0.5),
    )
    assert after[LAXITY.title].figures(p99) == [1.0, 1.0, 1.0, 0.5]
    assert contest_report.earlier_rounds(tmp_path / "elsewhere", contest()) == {}


def test_a_contest_that_is_stopped_keeps_the_turns_it_has_had(tmp_path: Path) -> None:
    def run(plan: Plan, **_: object) -> Outcome:
        if plan.mode is LAXITY:
            raise KeyboardInterrupt
        return outcome(plan.mode.name, 0.5)

    with pytest.raises(KeyboardInterrupt):
        run_contest(
            contest(),
            turns(contest().entries, 1),
            keep=lambda results: contest_report.keep(tmp_path, results),
            run=run,
        )
    kept = contest_report.earlier_rounds(tmp_path, contest())
    assert [len(kept[title]) for title in (FIFO.title, FAIR_TUNED.title, LAXITY.title)] == [1, 1, 0]


def test_all_reports_goals_are_shown_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(summary.NoReportsError, match="make bench"):
        summary.run(tmp_path)
    results = held(lambda plan, turn: 1.0)
    verdicts = judge(GOALS["standard"], results)
    contest_report.write(Console(), tmp_path / "standard", contest(), results, verdicts, None)
    summary.run(tmp_path)
    shown = capsys.readouterr().out
    assert all(verdict.goal in shown for verdict in verdicts)
