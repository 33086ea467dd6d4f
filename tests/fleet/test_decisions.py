"""Who asks, where it goes, and what keeps the fleet calm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laxity.fleet import (
    Conditions,
    DecisionSettings,
    FleetPlanner,
    Footprint,
    InterferenceScore,
    Migrate,
    MigrationRequest,
    NodeManager,
    NodeReport,
    Nominations,
    PredictionRing,
    Reason,
    Reject,
    Steps,
    threshold_for,
)
from laxity.fleet.decisions import reduction
from laxity.fleet.errors import (
    InvalidFleetSettingsError,
    UnknownComputationError,
    UnknownNodeError,
)
from laxity.fleet.forecasts import ForecastSettings, HoltWinters

SCORE = InterferenceScore()
CALM = DecisionSettings(score_threshold=10.0, consecutive=2, cooling_down=30.0, back_off=60.0)


def ring(level: float, now: float = 0.0) -> PredictionRing:
    return PredictionRing(np.full(90, level), now=now)


def fleet(**loads: float) -> FleetPlanner:
    planner = FleetPlanner(SCORE, CALM)
    for node, load in loads.items():
        planner.report(NodeReport(node, ring(load)))
    return planner


def asks(node: str, load: float, own: float, name: str = "q") -> MigrationRequest:
    return MigrationRequest(name, node, ring(own), SCORE(ring(load - own), ring(own)))


def test_the_highest_score_asks_after_consecutive_rounds() -> None:
    node = Nominations(CALM)
    scores = {"a": 20.0, "b": 30.0, "c": 5.0}
    assert node.evaluate(scores, 0.0) is None
    assert node.evaluate(scores, 1.0) == "b"


def test_a_round_below_the_threshold_starts_the_count_anew() -> None:
    node = Nominations(CALM)
    node.evaluate({"a": 20.0}, 0.0)
    node.evaluate({"a": 9.0}, 1.0)
    assert node.evaluate({"a": 20.0}, 2.0) is None
    assert node.evaluate({"a": 20.0}, 3.0) == "a"


def test_after_a_rejection_others_get_their_turn_and_waiting_doubles() -> None:
    node = Nominations(CALM)
    scores = {"a": 20.0, "b": 30.0}
    node.evaluate(scores, 0.0)
    assert node.rejected("b", 1.0) is None
    assert node.evaluate(scores, 2.0) == "a"
    assert node.evaluate(scores, 61.0) == "b"
    assert node.rejected("b", 61.0) is None
    assert node.barred_until("b") == 61.0 + 120.0


def test_rejections_that_go_on_say_scale_out_or_shed_load() -> None:
    node = Nominations(CALM)
    found = [node.rejected("b", t) for t in (0.0, 100.0, 400.0)]
    assert found[:2] == [None, None]
    assert "scale out or shed load" in str(found[2])


def test_interference_that_went_away_is_forgotten() -> None:
    node = Nominations(CALM)
    for t in (0.0, 100.0):
        node.evaluate({"b": 30.0}, t)
        node.rejected("b", t)
    node.evaluate({"b": 1.0}, 300.0)
    node.evaluate({"b": 30.0}, 301.0)
    assert node.rejected("b", 400.0) is None


def test_a_node_that_took_part_in_a_move_keeps_still() -> None:
    node = Nominations(CALM)
    node.evaluate({"a": 20.0}, 0.0)
    node.took_part(0.0)
    assert node.evaluate({"a": 20.0}, 29.0) is None
    assert node.evaluate({"a": 20.0}, 30.0) == "a"


def test_the_least_score_wins_and_delta_i_is_the_papers() -> None:
    planner = fleet(a=4.0, b=1.0, c=2.0)
    request = asks("a", 4.0, 0.5)
    answer = planner.decide(request, 0.0)
    assert isinstance(answer, Migrate)
    assert answer.target == "b"
    least = SCORE(ring(1.0), ring(0.5))
    assert answer.reduction == pytest.approx((request.score - least) / request.score)
    assert reduction(100.0, 95.0) == pytest.approx(0.05)


def test_external_interference_makes_an_empty_node_a_bad_place() -> None:
    planner = fleet(a=3.0, b=0.0, c=0.5)
    hammered = Conditions(load_average=32.0, cores=8, own_load=0.0)
    planner.report(NodeReport("b", ring(0.0), hammered))
    answer = planner.decide(asks("a", 3.0, 1.0), 0.0)
    assert isinstance(answer, Migrate)
    assert answer.target == "c"


def test_too_little_to_gain_is_refused() -> None:
    answer = fleet(a=2.0, b=2.0, c=2.0).decide(asks("a", 2.0, 0.1), 0.0)
    assert isinstance(answer, Reject)
    assert answer.reason is Reason.TOO_LITTLE
    assert answer.counts


def test_nodes_of_a_move_cool_down_and_that_is_no_rejection() -> None:
    planner = fleet(a=4.0, b=1.0)
    assert isinstance(planner.decide(asks("a", 4.0, 0.5), 0.0), Migrate)
    again = planner.decide(asks("a", 4.0, 0.5, "r"), 29.0)
    assert isinstance(again, Reject)
    assert again.reason is Reason.COOLING
    assert not again.counts
    assert isinstance(planner.decide(asks("a", 4.0, 0.5, "r"), 30.0), Migrate)


def test_a_drained_node_takes_nothing() -> None:
    planner = fleet(a=4.0)
    planner.report(NodeReport("b", ring(0.0), open=False))
    answer = planner.decide(asks("a", 4.0, 0.5), 0.0)
    assert isinstance(answer, Reject)
    assert answer.reason is Reason.NOWHERE


def test_the_threshold_steps_with_the_variance() -> None:
    steps = Steps()
    assert steps.threshold(9.0) == 0.05
    assert [steps.threshold(v) for v in (0.5, 0.4, 0.05, 0.0)] == [0.05, 0.15, 0.30, 0.50]


@given(st.lists(st.floats(0, 5), min_size=2, max_size=8), st.integers(0, 7), st.floats(0.05, 2))
def test_who_moves_is_better_off(loads: list[float], place: int, own: float) -> None:
    place %= len(loads)
    loads[place] += own
    planner = fleet(**{f"n{i}": load for i, load in enumerate(loads)})
    request = asks(f"n{place}", loads[place], own)
    answer = planner.decide(request, 0.0)
    if isinstance(answer, Migrate):
        target = int(answer.target[1:])
        assert target != place
        assert loads[target] == pytest.approx(
            min(v for i, v in enumerate(loads) if i != place), abs=1e-9
        )
        assert SCORE(ring(loads[target]), ring(own)) < request.score
        assert answer.reduction > answer.threshold


@given(st.lists(st.floats(0.5, 5), min_size=3, max_size=9), st.integers(0, 99))
def test_a_round_moves_each_node_at_most_once_and_asks_in_any_order(
    loads: list[float], seed: int
) -> None:
    requests = [asks(f"n{i}", load, 0.3, f"q{i}") for i, load in enumerate(loads)]
    order = np.random.default_rng(seed).permutation(len(requests))
    answers = fleet(**{f"n{i}": x for i, x in enumerate(loads)}).plan(requests, 0.0)
    moves = [a for a in answers if isinstance(a, Migrate)]
    nodes = [n for move in moves for n in (move.source, move.target)]
    assert len(nodes) == len(set(nodes))
    assert [a.computation for a in answers] == [r.computation for r in requests]
    if len(set(loads)) == len(loads):  # ties are broken by the order of requests
        shuffled = fleet(**{f"n{i}": x for i, x in enumerate(loads)}).plan(
            [requests[i] for i in order], 0.0
        )
        assert {a.computation: a for a in shuffled} == {a.computation: a for a in answers}


@given(st.lists(st.integers(1, 30), min_size=2, max_size=5))
def test_a_fleet_of_equals_comes_to_rest(counts: list[int]) -> None:
    """No oscillation: equal computations spread out and then nobody moves any more."""
    own, now = 0.1, 0.0
    planner = FleetPlanner(SCORE, CALM)
    for _ in range(sum(counts) * 4):
        now += 31.0
        for i, count in enumerate(counts):
            planner.report(NodeReport(f"n{i}", ring(own * count, now)))
        most = max(range(len(counts)), key=counts.__getitem__)
        answer = planner.decide(asks(f"n{most}", own * counts[most], own), now)
        if not isinstance(answer, Migrate):
            break
        counts[most] -= 1
        counts[int(answer.target[1:])] += 1
    else:
        pytest.fail("it never stops")


def test_a_threshold_can_be_said_as_a_load() -> None:
    found = threshold_for(SCORE, load=0.5, share=0.02)
    assert found == pytest.approx(SCORE(ring(0.5), ring(0.02)))
    assert found < threshold_for(SCORE, load=0.6, share=0.02)


def test_a_first_placement_goes_to_the_best_node() -> None:
    assert fleet(a=3.0, b=1.0, c=2.0).rank(ring(0.5), 0.0).nodes == ("b", "c", "a")
    assert fleet(a=3.0, b=1.0).rank(ring(0.5), 0.0, without=["b"]).nodes == ("a",)
    assert FleetPlanner(SCORE, CALM).rank(ring(0.5), 0.0).best is None


def test_a_node_manager_finds_who_is_hurt_and_hands_it_over() -> None:
    settings = DecisionSettings(threshold_for(SCORE, load=0.5, share=0.1), consecutive=2)
    nodes = [
        NodeManager(n, SCORE, settings, forecaster=HoltWinters(ForecastSettings(season=4)))
        for n in ("full", "free")
    ]
    full, free = nodes
    for name in ("a", "b", "c"):
        full.add(name, Footprint(0.001))
    planner = FleetPlanner(SCORE, settings)
    request = None
    for t in range(10):
        full.observe({"a": 300, "b": 400, "c": 100})
        free.observe({})
        for node in nodes:
            found = node.round(Conditions(cores=4), float(t))
            planner.report(found.report)
            request = found.request or request
    assert request is not None
    assert request.computation == "b"
    answer = planner.decide(request, 10.0)
    assert isinstance(answer, Migrate)
    free.accept(full.hand_over("b"))
    assert full.computations == ("a", "c")
    found = free.round(Conditions(cores=4), 10.0)
    assert found.report.ring.values == pytest.approx([0.4] * 90, rel=0.3)


def test_the_unknown_is_named() -> None:
    with pytest.raises(UnknownNodeError, match=r"no node 'x'.*a, b"):
        fleet(a=1.0, b=1.0).decide(asks("x", 1.0, 0.1), 0.0)
    with pytest.raises(UnknownComputationError, match="does not run 'q'"):
        NodeManager("n", SCORE, CALM).hand_over("q")


@pytest.mark.parametrize(
    "make",
    [
        lambda: DecisionSettings(-1.0),
        lambda: DecisionSettings(1.0, consecutive=0),
        lambda: Steps(((0.1, 0.05), (0.5, 0.1))),
        lambda: Steps(((0.5, 0.3), (0.1, 0.1))),
        lambda: threshold_for(SCORE, load=1.0, share=0.0),
    ],
)
def test_settings_out_of_range_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidFleetSettingsError):
        make()
