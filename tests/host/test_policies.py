from __future__ import annotations

import pytest

from laxity.host.entities import Deployment, LogicalOperator
from laxity.host.errors import InvalidHostConfigError
from laxity.host.normalise import Spacing
from laxity.host.policies import (
    Constant,
    FirstComeFirstServed,
    HighestRate,
    LeastLaxity,
    Level,
    QueueSize,
    Random,
    View,
    make_policy,
)


def view(deployment: Deployment, level: Level = Level.LOGICAL, **metrics: dict[str, float]) -> View:
    return View(deployment, metrics, level)


def test_queue_size_ranks_figure_2_by_waiting_tuples(figure_2: Deployment) -> None:
    """In Figure 2 C/D/E, G and F2 hold 1, 1 and 4 tuples."""
    queues = {"e/q/CDE": 1.0, "e/q/G": 1.0, "e/q/F2": 4.0}
    ranked = QueueSize(Level.PHYSICAL).priorities(view(figure_2, Level.PHYSICAL, queue_size=queues))
    assert ranked == {"e/q/CDE": 2.0, "e/q/G": 2.0, "e/q/F2": 5.0}, "and one, as if one came"


@pytest.mark.parametrize(
    ("policy", "metric", "least"),
    [
        (QueueSize(), "queue_size", 1.0),
        (HighestRate(), "highest_rate", 0.0),
        (FirstComeFirstServed(), "head_age", 0.001),
    ],
)
def test_metric_policies_give_cpu_time_in_the_ratio_of_what_is_known(
    figure_2: Deployment, policy: QueueSize, metric: str, least: float
) -> None:
    assert policy.metrics == (metric,)
    assert policy.spacing is Spacing.LOG
    known = {"A": 3.0, "stranger": 1.0}
    assert policy.priorities(view(figure_2, **{metric: known})) == {"A": 3.0 + least}


def test_constants_go_by_query_or_operator_and_the_first_match_wins(figure_2: Deployment) -> None:
    policy = Constant({"q/F*": 5.0, "q": 2.0}, level=Level.PHYSICAL)
    ranked = policy.priorities(view(figure_2, Level.PHYSICAL))
    assert ranked["e/q/F1"] == 5.0
    assert ranked["e/q/A"] == 2.0


def test_random_is_uniform_and_the_same_for_the_same_seed(figure_2: Deployment) -> None:
    seen = [Random(seed=7).priorities(view(figure_2)) for _ in range(2)]
    assert seen[0] == seen[1]
    assert set(seen[0]) == {op.id for op in figure_2.logical}
    assert all(0 <= p < 1 for p in seen[0].values())
    policy = Random(seed=7)
    assert policy.priorities(view(figure_2)) != policy.priorities(view(figure_2))


def separate(**laxities: float) -> View:
    names = [*laxities, "unknown"]
    deployment = Deployment("e", (), tuple(LogicalOperator(n, n) for n in names))
    return view(deployment, laxity=laxities)


def test_laxity_puts_the_late_above_the_tight_above_the_lax() -> None:
    laxities = {"a": -2.0, "b": -1.0, "c": 0.0, "d": 0.05, "e": 0.8, "f": 7200.0}
    ranked = LeastLaxity().priorities(separate(**laxities))
    order = sorted(ranked, key=ranked.__getitem__, reverse=True)
    assert order == ["a", "b", "c", "d", "e", "f", "unknown"], "best effort comes last"


def test_a_lost_query_does_not_crowd_out_those_that_can_be_saved() -> None:
    policy = LeastLaxity(floor=0.05)
    assert policy.urgency(-60.0) < 10 * policy.urgency(0.05)


def test_laxity_flows_downstream(figure_2: Deployment) -> None:
    laxities = dict.fromkeys("ABCDEFGH", 10.0) | {"C": 0.1, "B": 5.0}
    ranked = LeastLaxity().priorities(view(figure_2, laxity=laxities))
    assert [op for op in "ABCDEFGH" if ranked[op] == 1 / 0.1] == ["C", "D", "E", "G"]
    assert ranked["F"] == ranked["H"] == 1 / 5.0
    assert ranked["A"] == 1 / 10.0


def test_laxity_has_no_step_at_its_floor() -> None:
    policy = LeastLaxity(floor=0.01)
    assert policy.urgency(0.01) == pytest.approx(policy.urgency(0.01 - 1e-12))


def test_policies_by_name() -> None:
    assert make_policy("QS").name == "qs"
    with pytest.raises(InvalidHostConfigError, match=r"'lifo'.*laxity"):
        make_policy("lifo")
    with pytest.raises(InvalidHostConfigError, match="colour"):
        make_policy("qs", colour="red")
    with pytest.raises(InvalidHostConfigError, match="above zero"):
        make_policy("constant", weights={"a": 0})
