"""Equations 1, 2 and 3, and the policies made of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laxity.core.contexts import latency
from laxity.core.errors import InvalidRuleError
from laxity.core.policies import (
    EarliestDeadlineFirst,
    FirstInFirstOut,
    LeastLaxityFirst,
    Policy,
    ShortestJobFirst,
    Situation,
    TokenFairSharing,
)
from laxity.core.progress import IDENTITY, ProgressLine
from laxity.core.rules import MINIMUM_PRIORITY, Base, Facts, PriorityRule
from laxity.core.windows import Window


def priority(policy: Policy, situation: Situation, facts: Facts) -> float:
    return policy.rule(situation).evaluate(facts)


def test_equation_1_the_papers_number() -> None:
    """ddl_M2 = 30 + 50 − 20 = 60."""
    situation = Situation(target=50, cost=20, path_cost=0)
    assert priority(LeastLaxityFirst(), situation, Facts(arrival=30)) == 60


def test_equation_2_takes_the_critical_path_off() -> None:
    situation = Situation(target=50, cost=20, path_cost=7)
    assert priority(LeastLaxityFirst(), situation, Facts(arrival=30)) == 53


def test_equation_3_starts_from_frontier_time() -> None:
    situation = Situation(50, 20, 7, Window.tumbling(10), ProgressLine(0, 2, 1))
    assert priority(LeastLaxityFirst(), situation, Facts(arrival=30, progress=28)) == 30 + 2 + 23


def test_a_window_is_never_complete_before_the_message_it_waits_for() -> None:
    """A source was silent from 5 to 300: the window that ended at 10 is completed by what comes
    now, and its frontier time is now."""
    situation = Situation(50, 20, 0, Window.tumbling(10), IDENTITY)
    assert priority(LeastLaxityFirst(), situation, Facts(arrival=300, progress=5)) == 330


@pytest.mark.parametrize(
    ("window", "line", "progress"),
    [
        (None, IDENTITY, 28.0),
        (Window.tumbling(10), None, 28.0),
        (Window.tumbling(10), IDENTITY, math.nan),
    ],
    ids=["no window", "map unknown", "progress unknown"],
)
def test_without_semantics_an_operator_is_regular(
    window: Window | None, line: ProgressLine | None, progress: float
) -> None:
    situation = Situation(50, 20, 0, window, line)
    assert priority(LeastLaxityFirst(), situation, Facts(30, progress)) == 60


def test_edf_is_llf_without_the_cost_of_the_operator() -> None:
    situation = Situation(target=50, cost=20, path_cost=7)
    assert priority(EarliestDeadlineFirst(), situation, Facts(30)) == 73


def test_sjf_is_the_cost_alone() -> None:
    assert priority(ShortestJobFirst(), Situation(50, 20, 7), Facts(30)) == 20


def test_fifo_has_no_opinion() -> None:
    assert priority(FirstInFirstOut(), Situation(50, 20, 7), Facts(30)) == 0


def test_token_priority_is_the_tag_and_the_minimum_without_one() -> None:
    assert priority(TokenFairSharing(), Situation(50, 20, 7), Facts(30, token=12.5)) == 12.5
    assert priority(TokenFairSharing(), Situation(50, 20, 7), Facts(30)) == MINIMUM_PRIORITY


def test_latency_counts_from_the_last_event_that_mattered() -> None:
    assert latency(12.0, [3.0, 9.5, 7.0]) == 2.5
    with pytest.raises(ValueError, match="no event"):
        latency(12.0, [])


@pytest.mark.parametrize("offset", [math.nan, -math.inf])
def test_a_rule_refuses_an_offset_without_order(offset: float) -> None:
    with pytest.raises(InvalidRuleError, match="offset"):
        PriorityRule(Base.ARRIVAL, offset)


@pytest.mark.parametrize("slide", [0.0, -1.0, math.inf, math.nan])
def test_a_frontier_rule_needs_a_slide(slide: float) -> None:
    with pytest.raises(InvalidRuleError, match="slide above zero"):
        PriorityRule(Base.FRONTIER, 0.0, slide)


seconds = st.floats(0, 1e6)
windows = st.none() | st.builds(lambda s, o: Window(s, s, o), st.floats(0.001, 1e5), seconds)
lines = st.none() | st.builds(ProgressLine, seconds, seconds, st.floats(0.001, 100))
facts = st.builds(Facts, seconds, seconds | st.just(math.nan), seconds | st.just(math.inf))


@pytest.mark.parametrize("policy", [LeastLaxityFirst(), EarliestDeadlineFirst()])
@given(
    target=seconds, more=seconds, cost=seconds, path=seconds, window=windows, line=lines, fact=facts
)
def test_a_deadline_never_moves_earlier_when_its_target_grows(
    policy: Policy,
    target: float,
    more: float,
    cost: float,
    path: float,
    window: Window | None,
    line: ProgressLine | None,
    fact: Facts,
) -> None:
    before = priority(policy, Situation(target, cost, path, window, line), fact)
    after = priority(policy, Situation(target + more, cost, path, window, line), fact)
    assert after >= before


@given(target=seconds, cost=seconds, path=seconds, arrival=seconds)
def test_llf_starts_no_later_than_edf_says(
    target: float, cost: float, path: float, arrival: float
) -> None:
    situation, fact = Situation(target, cost, path), Facts(arrival)
    llf, edf = (priority(p, situation, fact) for p in (LeastLaxityFirst(), EarliestDeadlineFirst()))
    assert llf <= edf + 1e-9 * max(1.0, abs(edf))
