"""The contract between the core and the hooks: the same contexts give the same order."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laxity.core.policies import Policy, Situation
from laxity.core.progress import ProgressLine
from laxity.core.queue import TwoLevelQueue
from laxity.core.rules import Base, Facts, PriorityRule
from laxity.core.windows import Window
from laxity.plugins import load_policy, policy_names
from laxity.spark.wire import Decisions, QueryDecision, context_line

if TYPE_CHECKING:
    from laxity.spark import Laxity
    from laxity.spark.bridge import Bridge

pytestmark = pytest.mark.spark

# One py4j call an example, so few examples with much in each. The bridge keeps no state.
many = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

EPOCH = 1_763_000_000.0
moments = st.one_of(
    st.floats(-1e3, 1e3),
    st.floats(EPOCH, EPOCH + 1e5),
    st.integers(0, 10**8).map(lambda ms: EPOCH + ms / 1000.0),
)
offsets = st.one_of(st.just(0.0), st.just(-0.0), st.just(math.inf), st.floats(-1e5, 1e5))
slides = st.one_of(st.sampled_from([0.1, 0.3, 1.0, 5.0, 10.0, 3600.0]), st.floats(1e-3, 1e5))
lines = st.builds(ProgressLine, moments, moments, st.floats(0.01, 100.0))
rules = st.builds(
    PriorityRule,
    st.sampled_from(Base),
    offsets,
    slides,
    st.floats(0.0, 100.0),
    st.floats(0.0, 100.0),
    lines,
)
facts = st.builds(
    Facts,
    moments,
    st.one_of(st.just(math.nan), moments),
    st.one_of(st.just(math.inf), moments),
)


def decision(
    name: str, rule: PriorityRule, stage_offsets: dict[str, float] | None = None
) -> QueryDecision:
    return QueryDecision(name, "default", rule, stage_offsets or {}, 0.0, False, False, 30.0)


@pytest.fixture
def bridge(lx: Laxity) -> Bridge:
    return lx._bridge


@many
@given(pairs=st.lists(st.tuples(rules, facts), min_size=1, max_size=60))
def test_the_twin_agrees_to_the_last_bit(
    bridge: Bridge, pairs: list[tuple[PriorityRule, Facts]]
) -> None:
    decisions = Decisions(
        queries=tuple(decision(f"q{i}", rule) for i, (rule, _) in enumerate(pairs))
    )
    contexts = "\n".join(
        context_line(f"q{i}", "", 0.0, known) for i, (_, known) in enumerate(pairs)
    )
    expected = [rule.evaluate(known) for rule, known in pairs]
    assert list(map(float.hex, bridge.priorities(decisions.encode(), contexts))) == list(
        map(float.hex, expected)
    )


class Context(NamedTuple):
    query: int
    stage: int
    local: float
    facts: Facts


durations = st.floats(0.0, 50.0)
windows = st.builds(
    lambda slide, factor, origin, delay: Window(slide * factor, slide, origin, delay),
    slides,
    st.integers(1, 5),
    st.floats(0.0, 50.0),
    st.floats(0.0, 60.0),
)
stages = st.lists(st.tuples(durations, durations), min_size=1, max_size=3)
queries = st.lists(
    st.tuples(st.floats(0.1, 7200.0), st.none() | windows, st.none() | lines, stages),
    min_size=1,
    max_size=5,
)
# Few distinct moments and batches, so that there are ties at both levels.
coarse_facts = st.builds(
    Facts,
    st.integers(0, 4).map(lambda s: EPOCH + s),
    st.one_of(st.just(math.nan), st.integers(0, 20).map(lambda s: EPOCH + s)),
    st.one_of(st.just(math.inf), st.integers(0, 3).map(lambda s: EPOCH + s / 3)),
)
contexts = st.lists(
    st.builds(Context, st.integers(0, 4), st.integers(0, 2), st.integers(0, 3), coarse_facts),
    min_size=1,
    max_size=40,
)

Query = tuple[float, Window | None, ProgressLine | None, list[tuple[float, float]]]


@pytest.mark.parametrize("name", policy_names())
@many
@given(described=queries, waiting=contexts)
def test_the_same_contexts_give_the_same_order(
    bridge: Bridge, name: str, described: list[Query], waiting: list[Context]
) -> None:
    policy = load_policy(name)
    compiled = [_compile(policy, query) for query in described]
    decisions = Decisions(
        queries=tuple(
            decision(f"q{i}", rules[0], {f"0.{s}": rule.offset for s, rule in enumerate(rules)})
            for i, rules in enumerate(compiled)
        )
    )
    queue: TwoLevelQueue[int] = TwoLevelQueue()
    texts = []
    for query, rules in enumerate(compiled):
        for stage in range(len(rules)):
            queue.add_operator((query, stage))
    for number, context in enumerate(waiting):
        query = context.query % len(compiled)
        stage = context.stage % len(compiled[query])
        priority = compiled[query][stage].evaluate(context.facts)
        queue.push((query, stage), number, float(context.local), priority)
        texts.append(context_line(f"q{query}", f"0.{stage}", context.local, context.facts))
    expected = []
    while (popped := queue.pop()) is not None:
        operator, number, _ = popped
        expected.append(number)
        queue.release(operator)
    assert bridge.order(decisions.encode(), "\n".join(texts)) == expected


def _compile(policy: Policy, query: Query) -> list[PriorityRule]:
    target, window, line, costs = query
    return [policy.rule(Situation(target, cost, path, window, line)) for cost, path in costs]


# What that order comes to: one slot in virtual time, handed out as the JVM says. As in Spark a
# query has one batch at a time, which takes what came since the one before was read.


class Demand(NamedTuple):
    target: float
    cost: float
    period: float
    """Data comes every so many seconds."""


def run_in_order(
    bridge: Bridge, policy: str, demands: list[Demand], until: float
) -> list[list[float]]:
    """The latencies of every query's batches."""
    load = load_policy(policy)
    decisions = Decisions(
        queries=tuple(
            decision(f"q{i}", load.rule(Situation(d.target, d.cost, 0.0, None, None)))
            for i, d in enumerate(demands)
        )
    ).encode()
    read = [0.0] * len(demands)
    latencies: list[list[float]] = [[] for _ in demands]
    now = 0.0
    while now < until:
        # The first event that came after the last reading is the one that waits longest.
        arrivals = [(read[i] // d.period + 1) * d.period for i, d in enumerate(demands)]
        submitted = sorted(range(len(demands)), key=lambda i: read[i])
        waiting = [i for i in submitted if arrivals[i] <= now]
        if not waiting:
            now = min(arrivals)
            continue
        contexts = "\n".join(context_line(f"q{i}", "", 0.0, Facts(arrivals[i])) for i in waiting)
        chosen = waiting[bridge.order(decisions, contexts)[0]]
        read[chosen] = now
        now += demands[chosen].cost
        latencies[chosen].append(now - arrivals[chosen])
    return latencies


def test_under_overload_all_are_late_by_the_same(bridge: Bridge) -> None:
    """One and a half times as much work as the slot can do, for targets a factor of twenty
    apart: the order shares the delay, so that all are beyond their targets by about as much.
    Arrival order lets the tight ones bear it, and the lax ones keep time they do not need."""
    demands = [Demand(target, 0.5, 0.05) for target in (0.6, 1.0, 3.0, 12.0)]

    def late(policy: str) -> list[float]:
        runs = run_in_order(bridge, policy, demands, 200.0)
        settled = [latencies[len(latencies) // 4 :] for latencies in runs]
        return [fmean(found) - d.target for found, d in zip(settled, demands, strict=True)]

    shared, by_arrival = late("llf"), late("fifo")
    assert max(shared) - min(shared) <= 0.6  # a batch, and the pace of the data
    assert max(by_arrival) - min(by_arrival) > 10.0
    assert max(shared) < max(by_arrival)


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    urgent=st.lists(st.floats(0.02, 0.1), min_size=1, max_size=4),
    load=st.floats(0.1, 0.8),
    lax=st.lists(
        st.builds(Demand, st.floats(5.0, 15.0), st.floats(0.05, 0.1), st.floats(0.1, 5.0)),
        min_size=1,
        max_size=3,
    ),
)
def test_nobody_starves_while_urgent_load_is_below_capacity(
    bridge: Bridge, urgent: list[float], load: float, lax: list[Demand]
) -> None:
    """However lax work piles up beside them: who has less time goes first, but time passes for
    all, and at its start deadline the laxest query is the most urgent one."""
    demands = [Demand(1.0, cost, cost * len(urgent) / load) for cost in urgent]
    everybody = [*demands, *lax]
    for query, latencies in zip(
        everybody, run_in_order(bridge, "llf", everybody, 20.0), strict=True
    ):
        assert latencies
        assert max(latencies) <= query.target
