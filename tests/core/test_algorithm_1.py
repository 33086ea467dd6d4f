"""Algorithm 1, line by line. The job: parse → count (10 s window) → top (10 s window) → alert."""

from __future__ import annotations

import math
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laxity.core.contexts import Message, PriorityContext, ReplyContext, SourceEvent
from laxity.core.converter import ContextConverter
from laxity.core.errors import UnknownOperatorError
from laxity.core.jobs import Job, OperatorId, Stage, TimeDomain
from laxity.core.policies import FirstInFirstOut, LeastLaxityFirst, Policy, TokenFairSharing
from laxity.core.progress import EventTimeMap, ProgressMap, progress_map
from laxity.core.rules import MINIMUM_PRIORITY
from laxity.core.tokens import TokenBucket
from laxity.core.windows import Window

WINDOW = Window.tumbling(10)
JOB = Job.of(
    "job",
    50,
    [Stage("parse"), Stage("count", window=WINDOW), Stage("top", window=WINDOW), Stage("alert")],
    time_domain=TimeDomain.INGESTION,
)


def converter(
    stage: str | None,
    *,
    job: Job = JOB,
    policy: Policy | None = None,
    progress: ProgressMap | None = None,
    tokens: TokenBucket | None = None,
) -> ContextConverter:
    return ContextConverter(
        job,
        stage,
        policy or LeastLaxityFirst(),
        progress or progress_map(job.time_domain),
        count(),
        tokens=tokens,
    )


def sent(stage: str, context: PriorityContext, arrival: float, since: float) -> Message:
    return Message(OperatorId("job", stage), context.progress, arrival, context, since)


def test_lines_1_to_5_at_a_source() -> None:
    at_source = converter(None)
    at_source.process_reply("parse", ReplyContext(cost=3.0, path_cost=4.0))
    context = at_source.build_at_source(SourceEvent(progress=7.0, arrival=8.0), "parse")
    assert context.local == 7.0, "PRI_local: p_MF, and a regular operator's frontier is p_M"
    assert context.priority == 8.0 + 50 - 3 - 4, "PRI_global: ddl_M"
    assert (context.progress, context.time, context.target) == (7.0, 8.0, 50.0)


def test_ids_are_given_in_order() -> None:
    at_source = converter(None)
    contexts = [at_source.build_at_source(SourceEvent(1, 1), "parse") for _ in range(3)]
    assert [c.id for c in contexts] == [0, 1, 2]


def test_lines_6_to_10_at_an_operator_that_feeds_a_window() -> None:
    parse = converter("parse")
    parse.process_reply("count", ReplyContext(cost=2.0, path_cost=1.0))
    upstream = PriorityContext(0, 7.0, 0.0, progress=7.0, time=7.0, target=50.0)
    context = parse.build_at_operator(sent("parse", upstream, arrival=7.0, since=6.5), "count")
    assert (context.progress, context.time) == (10.0, 10.0), "line 16: p_MF and t_MF travel on"
    assert (context.local, context.priority) == (10.0, 10.0 + 50 - 2 - 1), "lines 17 and 18"


def test_a_message_that_completes_a_window_is_due_for_that_window() -> None:
    """`since` is what tells 10.2 after 9.9 (completes the window that ends at 10) from 10.2 after
    10.1 (must wait for the one that ends at 20); p_M alone cannot."""
    parse = converter("parse")
    upstream = PriorityContext(0, 10.2, 0.0, progress=10.2, time=10.2, target=50.0)
    completes = parse.build_at_operator(sent("parse", upstream, 10.2, since=9.9), "count")
    waits = parse.build_at_operator(sent("parse", upstream, 10.2, since=10.1), "count")
    assert (completes.progress, completes.time) == (10.0, 10.2), "t_MF is now: it just arrived"
    assert (waits.progress, waits.time) == (20.0, 20.0)


def test_the_result_of_a_window_has_its_exact_arrival() -> None:
    """Behind a triggered window nothing is left to predict: the last event it needed has arrived,
    and that is what the target counts from, whatever the progress map believes."""
    biased = EventTimeMap()
    for p in range(8):
        biased.observe(float(p), p + 20.0)
    counts = converter("count", progress=biased)
    triggering = PriorityContext(0, 10.0, 0.0, progress=10.0, time=10.0, target=50.0)
    message = sent("count", triggering, arrival=13.0, since=9.0)
    context = counts.build_at_operator(message, "top")
    assert context.progress == 10.0, "top slides at the same pace: each message completes a window"
    assert context.priority == 13.0 + 50
    assert context.time == 13.0
    assert counts.since_of_output(message) == 0.0, "it covers the slide that ends at 10"


def test_a_slower_window_downstream_is_fed_by_results() -> None:
    job = Job.of(
        "job",
        50,
        [Stage("count", window=WINDOW), Stage("sum", window=Window.tumbling(30))],
        time_domain=TimeDomain.INGESTION,
    )
    counts = converter("count", job=job)

    def frontier_of_result(end: float) -> float:
        context = PriorityContext(0, end, 0.0, progress=end, time=end, target=50.0)
        return counts.build_at_operator(sent("count", context, end, since=end - 1), "sum").progress

    assert [frontier_of_result(end) for end in (10.0, 20.0, 30.0, 40.0)] == [30, 30, 30, 60]


def test_line_13_an_unknown_map_leaves_the_message_its_arrival() -> None:
    parse = converter("parse", progress=EventTimeMap())
    upstream = PriorityContext(0, 7.0, 0.0, progress=7.0, time=9.0, target=50.0)
    context = parse.build_at_operator(sent("parse", upstream, arrival=9.0, since=6.5), "count")
    assert (context.priority, context.time) == (59.0, 9.0)
    assert context.local == 10.0, "within its operator it still goes by window"


def test_lines_14_and_15_an_updated_map_is_used_within_a_few_messages() -> None:
    progress = EventTimeMap()
    parse = converter("parse", progress=progress)
    upstream = PriorityContext(0, 7.0, 0.0, progress=7.0, time=9.0, target=50.0)
    message = sent("parse", upstream, arrival=9.0, since=6.5)
    for p in range(8):
        progress.observe(float(p), p + 2.0)
    priorities = [parse.build_at_operator(message, "count").priority for _ in range(17)]
    assert priorities[-1] == pytest.approx(10 + 2 + 50)


def test_line_20_a_reply_changes_what_is_sent_next() -> None:
    parse = converter("parse")
    upstream = PriorityContext(0, 7.0, 0.0, progress=7.0, time=7.0, target=50.0)
    message = sent("parse", upstream, arrival=7.0, since=6.5)
    assert parse.build_at_operator(message, "count").priority == 60.0
    parse.process_reply("count", ReplyContext(cost=5.0))
    assert parse.build_at_operator(message, "count").priority == 55.0


def test_lines_22_to_24_the_critical_path_adds_up_upstream() -> None:
    """Costs 1, 2, 3, 4 along the chain; each reply carries what lies behind its operator."""
    chain = {stage: converter(stage) for stage in ("parse", "count", "top", "alert")}
    for cost, c in enumerate(chain.values(), 1):
        c.cost.update(float(cost))
    replies = {}
    below: str | None = None
    for stage in reversed(list(chain)):
        if below is not None:
            chain[stage].process_reply(below, replies[below])
        replies[stage] = chain[stage].prepare_reply()
        below = stage
    costs = {stage: (r.cost, r.path_cost) for stage, r in replies.items()}
    assert costs == {"alert": (4, 0), "top": (3, 4), "count": (2, 7), "parse": (1, 9)}


@pytest.mark.parametrize(("cheap", "dear"), [("b", "c"), ("c", "b")])
def test_the_critical_path_is_the_dearest_branch(cheap: str, dear: str) -> None:
    job = Job.of("fan", 50, [Stage("a"), Stage("b"), Stage("c")], [("a", "b"), ("a", "c")])
    a = converter("a", job=job)
    a.process_reply(cheap, ReplyContext(cost=2.0, path_cost=1.0))
    a.process_reply(dear, ReplyContext(cost=1.0, path_cost=7.0))
    assert a.prepare_reply().path_cost == 8.0


def test_a_perturbed_cost_changes_priorities_only() -> None:
    at_source = ContextConverter(
        JOB,
        None,
        LeastLaxityFirst(),
        progress_map(JOB.time_domain),
        count(),
        perturb=lambda c: 3 * c,
    )
    at_source.process_reply("parse", ReplyContext(cost=2.0, path_cost=1.0))
    assert at_source.build_at_source(SourceEvent(1, 1), "parse").priority == 1 + 50 - 3 * 2 - 1
    assert at_source.prepare_reply().path_cost == 3.0


def test_tokens_are_drawn_at_the_source_and_inherited() -> None:
    at_source = converter(None, policy=TokenFairSharing(), tokens=TokenBucket(2.0))
    first, second, third = (
        at_source.build_at_source(SourceEvent(5.1, 5.1), "parse") for _ in range(3)
    )
    assert [(c.local, c.priority) for c in (first, second)] == [(5.0, 5.0), (5.0, 5.5)]
    assert (third.local, third.priority) == (MINIMUM_PRIORITY, MINIMUM_PRIORITY)
    parse = converter("parse", policy=TokenFairSharing())
    for context in (first, third):
        passed_on = parse.build_at_operator(sent("parse", context, 5.1, 5.0), "count")
        assert (passed_on.local, passed_on.priority) == (context.local, context.priority)


def test_without_a_grant_a_source_has_minimum_priority() -> None:
    context = converter(None, policy=TokenFairSharing()).build_at_source(SourceEvent(5, 5), "parse")
    assert (context.local, context.priority) == (MINIMUM_PRIORITY, MINIMUM_PRIORITY)


def test_fifo_leaves_everything_to_arrival() -> None:
    at_source = converter(None, policy=FirstInFirstOut())
    contexts = [at_source.build_at_source(SourceEvent(p, 8.0), "parse") for p in (9.0, 3.0)]
    assert {(c.local, c.priority) for c in contexts} == {(0.0, 0.0)}


def test_without_logical_time_arrival_orders_an_operator() -> None:
    at_source = converter(None)
    context = at_source.build_at_source(SourceEvent(math.nan, 8.0), "parse")
    assert (context.local, context.priority) == (8.0, 58.0)


def test_a_new_target_holds_for_what_is_sent_next() -> None:
    at_source = converter(None)
    at_source.build_at_source(SourceEvent(1, 1), "parse")
    at_source.retarget(Job.of("job", 5, JOB.stages.values(), time_domain=TimeDomain.INGESTION))
    context = at_source.build_at_source(SourceEvent(1, 1), "parse")
    assert (context.priority, context.target) == (6.0, 5.0)


def test_a_stage_that_is_not_downstream_is_refused() -> None:
    with pytest.raises(
        UnknownOperatorError, match="'parse' of job 'job' does not send to 'top'; it sends to count"
    ):
        converter("parse").process_reply("top", ReplyContext())


AROUND_BOUNDARIES = [
    at
    for edge in (4.0, 8.0, 10.0, 12.0, 20.0)
    for at in (edge - 1.5, edge - 0.5, math.nextafter(edge, 0.0), edge, edge + 0.5)
]
"""Few and close together, so that many follow each other within a window and just beyond it."""


@given(
    st.lists(
        st.tuples(st.sampled_from(AROUND_BOUNDARIES), st.floats(0, 5)), min_size=10, max_size=40
    ),
    st.sampled_from([Window.tumbling(10), Window.sliding(10, 4), None]),
)
def test_what_came_before_does_not_change_a_context(
    events: list[tuple[float, float]], window: Window | None
) -> None:
    """A converter remembers the frontier of the last window; a new one has nothing to remember."""
    job = Job.of("job", 50, [Stage("count", window=window)], time_domain=TimeDomain.INGESTION)
    used = converter(None, job=job)
    for progress, late in events:
        event = SourceEvent(progress, progress + late)
        fresh = converter(None, job=job).build_at_source(event, "count")
        assert used.build_at_source(event, "count")[1:] == fresh[1:], "all but the message's id"


def test_a_perturbation_is_drawn_for_each_message() -> None:
    """One draw for many messages of a stage would leave their order as it is."""
    errors = iter([1.0, 2.0, 4.0])
    at_source = ContextConverter(
        JOB,
        None,
        LeastLaxityFirst(),
        progress_map(JOB.time_domain),
        count(),
        perturb=lambda cost: cost + next(errors),
    )
    event = SourceEvent(progress=7.0, arrival=8.0)
    priorities = [at_source.build_at_source(event, "parse").priority for _ in range(3)]
    assert priorities == [8.0 + 50 - error for error in (1.0, 2.0, 4.0)]
