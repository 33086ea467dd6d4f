"""Algorithm 2 and the two schedule formats."""

from __future__ import annotations

from laxity.host.entities import Deployment, PhysicalOperator
from laxity.host.normalise import Spacing
from laxity.host.schedule import GroupBy, grouping, single_priority, transform

from .conftest import thread


def test_fission_copies_and_fusion_takes_the_highest(figure_2: Deployment) -> None:
    logical = {"A": 1.0, "B": 2.0, "C": 3.0, "D": 9.0, "E": 4.0, "F": 0.5, "G": 8.0}
    assert transform(logical, figure_2) == {
        "e/q/A": 1.0,
        "e/q/B": 2.0,
        "e/q/CDE": 9.0,
        "e/q/F1": 0.5,
        "e/q/F2": 0.5,
        "e/q/G": 8.0,
    }


def test_fusion_of_negative_priorities_takes_the_highest_too(figure_2: Deployment) -> None:
    assert transform({"C": -5.0, "D": -3.0, "E": -4.0}, figure_2) == {"e/q/CDE": -3.0}


def test_an_operator_without_a_physical_one_is_left_out(figure_2: Deployment) -> None:
    assert transform({"unknown": 1.0}, figure_2) == {}


def op(name: str, query: str, *tids: int) -> PhysicalOperator:
    return PhysicalOperator(f"e/{query}/{name}", query, (name,), tuple(map(thread, tids)))


def test_single_priority_of_a_shared_thread_is_the_highest() -> None:
    schedule = single_priority([(op("a", "q", 1, 2), 1.0), (op("b", "q", 2), 5.0)], Spacing.LINEAR)
    assert schedule.priorities == {thread(1): 1.0, thread(2): 5.0}


def test_grouping_by_query_and_by_operator() -> None:
    operators = [(op("a", "x", 1), 1.0), (op("b", "x", 2), 7.0), (op("c", "y", 3), 2.0)]
    by_query = grouping(operators, Spacing.LINEAR)
    assert {g: (v.priority, {t.tid for t in v.threads}) for g, v in by_query.groups.items()} == {
        "e/x": (7.0, {1, 2}),
        "e/y": (2.0, {3}),
    }
    by_operator = grouping(operators, Spacing.LINEAR, GroupBy.OPERATOR)
    assert set(by_operator.groups) == {"e/x/a", "e/x/b", "e/y/c"}


def test_a_thread_of_two_groups_goes_to_the_more_urgent() -> None:
    groups = grouping([(op("a", "x", 1), 1.0), (op("b", "y", 1), 2.0)], Spacing.LINEAR).groups
    assert set(groups) == {"e/y"}
