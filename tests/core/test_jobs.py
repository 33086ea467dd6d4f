from __future__ import annotations

from itertools import pairwise

import pytest

from laxity.core.costs import CostProfile, check_cost, path_costs
from laxity.core.errors import (
    InvalidCostError,
    InvalidDurationError,
    InvalidJobError,
    UnknownOperatorError,
)
from laxity.core.jobs import Job, OperatorId, Stage
from laxity.core.windows import Window

DIAMOND = Job.of(
    "diamond",
    "1s",
    [Stage("read", 2), Stage("left"), Stage("right"), Stage("join")],
    [("read", "left"), ("read", "right"), ("left", "join"), ("right", "join")],
)


def test_without_edges_stages_form_a_chain() -> None:
    job = Job.of("chain", 1, [Stage("a"), Stage("b"), Stage("c")])
    assert job.downstream == {"a": ("b",), "b": ("c",), "c": ()}
    assert (job.sources, job.sinks) == (("a",), ("c",))


def test_a_dag_knows_both_directions() -> None:
    assert set(DIAMOND.downstream["read"]) == {"left", "right"}
    assert set(DIAMOND.upstream["join"]) == {"left", "right"}
    assert (DIAMOND.sources, DIAMOND.sinks) == (("read",), ("join",))
    assert DIAMOND.topological_order[0] == "read"
    assert DIAMOND.topological_order[-1] == "join"


def test_a_stage_is_a_set_of_operators() -> None:
    reads = [op for op in DIAMOND.operators() if op.stage == "read"]
    assert reads == [OperatorId("diamond", "read", 0), OperatorId("diamond", "read", 1)]
    assert str(reads[1]) == "diamond/read[1]"


def test_the_pace_of_a_stage_is_the_largest_slide_on_the_way() -> None:
    job = Job.of(
        "paces",
        1,
        [
            Stage("parse"),
            Stage("minute", window=Window.sliding(60, 20)),
            Stage("map"),
            Stage("fast", window=Window.tumbling(5)),
        ],
    )
    assert [job.emission_slide(s) for s in job.stages] == [0, 20, 20, 20]
    assert [job.arrival_slide(s) for s in job.stages] == [0, 0, 20, 20]


def test_a_cycle_is_shown_the_way_data_would_flow() -> None:
    edges = [("a", "b"), ("b", "c"), ("c", "a")]
    with pytest.raises(InvalidJobError) as caught:
        Job.of("loop", 1, [Stage("a"), Stage("b"), Stage("c")], edges)
    shown = str(caught.value).removeprefix("job 'loop' has a cycle: ").split(" → ")
    assert len(shown) == 4
    assert all(step in edges for step in pairwise(shown))


@pytest.mark.parametrize(
    ("stages", "edges", "says"),
    [
        ([], None, "has no stages"),
        ([Stage("a"), Stage("a")], None, "two stages named 'a'"),
        ([Stage("a")], [("a", "z")], "unknown stage 'z'; its stages are a"),
        ([Stage("a")], [("a", "a")], "cycle: a → a"),
    ],
)
def test_bad_dataflows_are_refused(
    stages: list[Stage], edges: list[tuple[str, str]] | None, says: str
) -> None:
    with pytest.raises(InvalidJobError, match=says):
        Job.of("bad", 1, stages, edges)


def test_names_and_parallelism_are_checked() -> None:
    with pytest.raises(InvalidJobError, match="a job needs a name"):
        Job.of("", 1, [Stage("a")])
    with pytest.raises(InvalidJobError, match="a stage needs a name"):
        Stage("")
    with pytest.raises(InvalidJobError, match="at least 1, got 0"):
        Stage("a", 0)


@pytest.mark.parametrize("target", [-1, 0, "8 parsecs", float("inf")])
def test_a_bad_target_names_its_job(target: float | str) -> None:
    with pytest.raises(InvalidDurationError, match="target of job 'alerts'"):
        Job.of("alerts", target, [Stage("a")])


@pytest.mark.parametrize(
    ("operator", "says"),
    [
        (OperatorId("diamond", "nowhere"), "no stage 'nowhere'; its stages are read, left"),
        (OperatorId("diamond", "read", 2), "has operators 0 to 1, not 2"),
        (OperatorId("diamond", "read", -1), "not -1"),
        (OperatorId("other", "read"), r"other/read\[0\] is not an operator of job 'diamond'"),
    ],
)
def test_unknown_operators_are_refused(operator: OperatorId, says: str) -> None:
    with pytest.raises(UnknownOperatorError, match=says):
        DIAMOND.check_operator(operator)
    with pytest.raises(UnknownOperatorError, match="no stage 'nowhere'"):
        DIAMOND.emission_slide("nowhere")


def test_the_critical_path_of_any_dag() -> None:
    costs = {"read": 1.0, "left": 2.0, "right": 5.0, "join": 3.0}
    assert path_costs(DIAMOND, costs) == {"join": 0.0, "left": 3.0, "right": 3.0, "read": 8.0}
    assert path_costs(DIAMOND, {})["read"] == 0.0, "unknown costs count as nothing"


def test_a_profile_is_right_after_one_message_and_follows_drift() -> None:
    profile = CostProfile(initial=9.0)
    assert (profile.mean, profile.spread) == (9.0, 0.0)
    profile.update(2.0)
    assert (profile.mean, profile.spread) == (2.0, 0.0)
    profile.update(4.0)
    assert (profile.mean, profile.spread) == (3.0, 1.0)
    for _ in range(60):
        profile.update(10.0)
    assert profile.mean == pytest.approx(10.0, abs=1e-4)
    assert profile.spread == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize("cost", [-0.1, float("nan"), float("inf")])
def test_a_cost_is_finite_and_not_negative(cost: float) -> None:
    with pytest.raises(InvalidCostError, match=f"got {cost!r}"):
        check_cost(cost)
    with pytest.raises(InvalidCostError):
        CostProfile().update(cost)


@pytest.mark.parametrize("alpha", [0.0, 1.5])
def test_the_weight_of_a_profile_is_a_share(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        CostProfile(alpha=alpha)
