from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laxity.core.contexts import Message, ReplyContext
from laxity.core.errors import (
    InvalidCostError,
    InvalidDurationError,
    InvalidJobError,
    SchedulingError,
    UnknownJobError,
    UnknownOperatorError,
)
from laxity.core.events import (
    DropMessages,
    EventsArrived,
    JobAdded,
    JobRemoved,
    MessageCompleted,
    RunMessage,
    TargetChanged,
)
from laxity.core.fairshare import FairShareQueue
from laxity.core.jobs import Job, OperatorId, Stage, TimeDomain
from laxity.core.policies import (
    EarliestDeadlineFirst,
    FirstInFirstOut,
    LeastLaxityFirst,
    ShortestJobFirst,
    TokenFairSharing,
)
from laxity.core.scheduler import Scheduler
from laxity.core.windows import Window
from laxity.testing import VirtualNode

ONE = OperatorId("one", "read")
SINK = OperatorId("one", "sink")
TWO = OperatorId("two", "read")


def scheduler(workers: int = 1, quantum: float = 0.0) -> Scheduler:
    built = Scheduler(LeastLaxityFirst(), workers, quantum=quantum)
    built.handle(JobAdded(Job.of("one", 10, [Stage("read"), Stage("sink")])), 0.0)
    built.handle(JobAdded(Job.of("two", 100, [Stage("read")])), 0.0)
    return built


def started(decisions: list[object]) -> list[tuple[int, OperatorId]]:
    runs = [d for d in decisions if isinstance(d, RunMessage)]
    return [(run.worker, run.message.operator) for run in runs]


def test_an_idle_worker_starts_at_once_and_a_busy_one_later() -> None:
    s = scheduler()
    assert started(s.handle(EventsArrived(TWO, 1.0), 1.0)) == [(0, TWO)]
    assert started(s.handle(EventsArrived(ONE, 1.0), 1.0)) == []
    assert len(s) == 1
    assert started(s.handle(MessageCompleted(0, cost=2.0), 3.0)) == [(0, ONE)]
    assert started(s.handle(MessageCompleted(0, cost=1.0, emitted=(SINK,)), 4.0)) == [(0, SINK)]
    assert started(s.handle(MessageCompleted(0, cost=1.0), 5.0)) == []


def test_workers_never_share_an_operator() -> None:
    s = scheduler(workers=2)
    assert started(s.handle(EventsArrived(ONE, 1.0), 1.0)) == [(0, ONE)]
    assert started(s.handle(EventsArrived(ONE, 2.0), 2.0)) == []
    assert started(s.handle(EventsArrived(TWO, 2.0), 2.0)) == [(1, TWO)]
    assert started(s.handle(MessageCompleted(0, cost=2.0), 3.0)) == [(0, ONE)]


def test_costs_come_back_and_make_deadlines_earlier() -> None:
    """Replies travel up the job: two messages later the source knows C_o and C_path."""
    s = scheduler()
    s.handle(EventsArrived(ONE, 0.0), 0.0)
    s.handle(MessageCompleted(0, cost=2.0, emitted=(SINK,)), 2.0)
    s.handle(MessageCompleted(0, cost=3.0), 5.0)  # read hears of sink
    s.handle(EventsArrived(ONE, 5.0), 5.0)
    s.handle(MessageCompleted(0, cost=2.0), 7.0)  # and tells the source
    (run,) = s.handle(EventsArrived(ONE, 7.0), 7.0)
    assert isinstance(run, RunMessage)
    assert run.message.context.priority == 7 + 10 - 2 - 3


@pytest.mark.parametrize(("quantum", "second"), [(0.0, ONE), (5.0, TWO)])
def test_an_operator_keeps_its_worker_for_a_quantum(quantum: float, second: OperatorId) -> None:
    s = scheduler(quantum=quantum)
    s.handle(EventsArrived(TWO, 0.0), 0.0)
    s.handle(EventsArrived(TWO, 0.1), 0.1)
    s.handle(EventsArrived(TWO, 0.2), 0.2)
    s.handle(EventsArrived(ONE, 0.3), 0.3)
    assert started(s.handle(MessageCompleted(0, cost=3.0), 3.0)) == [(0, second)]
    if second == TWO:  # the quantum is over, and ONE is more urgent: swap
        assert started(s.handle(MessageCompleted(0, cost=3.0), 6.0)) == [(0, ONE)]


def test_after_its_quantum_an_operator_goes_on_if_it_is_the_most_urgent() -> None:
    s = scheduler()
    for time, operator in ((0.0, ONE), (0.1, ONE), (0.2, TWO)):
        s.handle(EventsArrived(operator, time), time)
    assert started(s.handle(MessageCompleted(0, cost=1.0), 1.0)) == [(0, ONE)]


def test_equals_go_by_arrival_so_that_nobody_keeps_a_worker_for_ever() -> None:
    s = Scheduler(FirstInFirstOut(), quantum=0.0)
    for name in ("one", "two"):
        s.handle(JobAdded(Job.of(name, 10, [Stage("read")])), 0.0)
    for operator in (ONE, TWO, ONE, TWO):
        s.handle(EventsArrived(operator, 0.0), 0.0)
    order = [started(s.handle(MessageCompleted(0, cost=1.0), now)) for now in (1.0, 2.0, 3.0)]
    assert order == [[(0, TWO)], [(0, ONE)], [(0, TWO)]]


def test_a_job_leaves_with_what_it_has_queued() -> None:
    s = scheduler()
    s.handle(EventsArrived(ONE, 0.0), 0.0)
    s.handle(EventsArrived(ONE, 1.0), 1.0)
    s.handle(EventsArrived(TWO, 1.0), 1.0)
    (dropped,) = s.handle(JobRemoved("one"), 2.0)
    assert isinstance(dropped, DropMessages)
    assert [m.arrival for m in dropped.messages] == [1.0]
    assert started(s.handle(MessageCompleted(0, 3.0, emitted=(SINK,)), 3.0)) == [(0, TWO)]
    with pytest.raises(UnknownJobError, match="no job named 'one'; the jobs are two"):
        s.handle(EventsArrived(ONE, 4.0), 4.0)


def test_work_of_a_job_that_left_is_not_mistaken_for_that_of_its_namesake() -> None:
    s = scheduler(workers=2)
    s.handle(EventsArrived(ONE, 0.0), 0.0)
    s.handle(JobRemoved("one"), 1.0)
    s.handle(JobAdded(Job.of("one", 10, [Stage("read"), Stage("sink")])), 1.0)
    assert started(s.handle(EventsArrived(ONE, 2.0), 2.0)) == [(1, ONE)]
    s.handle(EventsArrived(ONE, 2.5), 2.5)
    assert s.handle(MessageCompleted(0, cost=99.0, emitted=(SINK,)), 3.0) == []
    assert started(s.handle(MessageCompleted(1, cost=1.0), 4.0)) == [(1, ONE)]


def test_a_new_target_holds_for_new_messages() -> None:
    s = scheduler()
    s.handle(EventsArrived(TWO, 0.0), 0.0)
    s.handle(TargetChanged("one", 1.0), 1.0)
    s.handle(EventsArrived(ONE, 1.0), 1.0)
    (run,) = s.handle(MessageCompleted(0, cost=1.0), 1.0)
    assert isinstance(run, RunMessage)
    assert (run.message.context.priority, run.message.context.target) == (2.0, 1.0)


def test_since_is_what_the_source_reported_last() -> None:
    """A window's last message is due with that window, though nobody said where it began."""
    s = Scheduler(LeastLaxityFirst())
    window = Stage("sum", window=Window.tumbling(10))
    s.handle(JobAdded(Job.of("w", 5, [window], time_domain=TimeDomain.INGESTION)), 0.0)
    frontiers = []
    for progress in (8.0, 9.5, 10.5, 11.0):
        (run,) = s.handle(EventsArrived(OperatorId("w", "sum"), progress), progress)
        assert isinstance(run, RunMessage)
        frontiers.append(run.message.context.progress)
        s.handle(MessageCompleted(0, cost=0.0), progress)
    assert frontiers == [10, 10, 10, 20]


def test_replies_carry_what_the_scheduler_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    s = scheduler()
    heard: list[ReplyContext] = []
    source = s._jobs["one"].sources[ONE]
    monkeypatch.setattr(source, "process_reply", lambda stage, reply: heard.append(reply))
    s.handle(EventsArrived(TWO, 0.0), 0.0)
    for time in (1.0, 2.0, 3.0):
        s.handle(EventsArrived(ONE, time), time)
    s.handle(MessageCompleted(0, cost=5.0), 5.0)
    s.handle(MessageCompleted(0, cost=1.0), 6.0)
    assert [(r.cost, r.queueing, r.pending) for r in heard] == [(1.0, 4.0, 2)]


@pytest.mark.parametrize(
    ("event", "error", "says"),
    [
        (
            EventsArrived(OperatorId("x", "read"), 0.0),
            UnknownJobError,
            "no job named 'x'; the jobs are one, two",
        ),
        (EventsArrived(OperatorId("one", "x"), 0.0), UnknownOperatorError, "no stage 'x'"),
        (EventsArrived(OperatorId("one", "read", 1), 0.0), UnknownOperatorError, "not 1"),
        (EventsArrived(SINK, 0.0), InvalidJobError, r"one/sink\[0\] is not a source"),
        (JobAdded(Job.of("one", 1, [Stage("a")])), InvalidJobError, "'one' is there already"),
        (JobRemoved("x"), UnknownJobError, "no job named 'x'"),
        (TargetChanged("one", -1.0), InvalidDurationError, "got -1.0"),
        (MessageCompleted(1, 0.0), SchedulingError, "worker 1 was not running anything"),
    ],
)
def test_what_cannot_have_happened_is_refused(
    event: object, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        scheduler().handle(event, 0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("completed", "error"),
    [
        (MessageCompleted(0, -1.0), InvalidCostError),
        (MessageCompleted(0, 1.0, (TWO,)), UnknownOperatorError),
        (MessageCompleted(0, 1.0, (ONE,)), UnknownOperatorError),
        (MessageCompleted(0, 1.0, (SINK, OperatorId("one", "x"))), UnknownOperatorError),
    ],
)
def test_a_refused_completion_leaves_everything_as_it_was(
    completed: MessageCompleted, error: type[Exception]
) -> None:
    s = scheduler()
    s.handle(EventsArrived(ONE, 0.0), 0.0)
    with pytest.raises(error):
        s.handle(completed, 1.0)
    assert len(s) == 0
    assert started(s.handle(MessageCompleted(0, 1.0, (SINK,)), 1.0)) == [(0, SINK)]


def test_workers_and_quantum_are_checked() -> None:
    with pytest.raises(ValueError, match="at least one worker, got 0"):
        Scheduler(LeastLaxityFirst(), workers=0)
    with pytest.raises(ValueError, match="quantum must not be negative"):
        Scheduler(LeastLaxityFirst(), quantum=-1.0)


policies = st.sampled_from(
    [
        LeastLaxityFirst(),
        EarliestDeadlineFirst(),
        ShortestJobFirst(),
        FirstInFirstOut(),
        TokenFairSharing(),
    ]
)


def random_node(
    rng: random.Random,
    s: Scheduler,
    targets: list[float],
    load: float,
    seconds: float,
    leave: bool = False,
) -> VirtualNode:
    """Jobs of three stages under random arrivals that fill `load` of one worker. The second one
    may leave in the middle of everything, and one of the same name come soon after."""
    jobs = [
        Job.of(
            f"job{i}",
            target,
            [
                Stage("read", 2),
                Stage("sum", 2, Window.tumbling(2) if i % 2 else None),
                Stage("out"),
            ],
        )
        for i, target in enumerate(targets)
    ]

    def emits(message: Message) -> list[OperatorId]:
        operator = message.operator
        for stage in jobs[int(operator.job[3:])].downstream[operator.stage]:
            return [OperatorId(operator.job, stage, operator.partition if stage == "sum" else 0)]
        return []

    cost = 0.02
    node = VirtualNode(s, lambda message: rng.uniform(0.5, 1.5) * cost, emits)
    for job in jobs:
        node.at(0.0, JobAdded(job, tokens=5.0))
    left, back = (seconds / 2, seconds / 2 + 0.1) if leave else (math.inf, math.inf)
    if leave:
        node.at(left, JobRemoved("job1"))
        node.at(back, JobAdded(jobs[1]))
    now = 0.0
    while now < seconds:
        now += rng.expovariate(load / (3 * cost))
        source = OperatorId(rng.choice(jobs).name, "read", rng.randrange(2))
        if source.job != "job1" or not left <= now <= back:
            node.at(now, EventsArrived(source, now - rng.random()))
    return node


@settings(max_examples=40, deadline=None)
@given(
    policy=policies,
    workers=st.integers(1, 4),
    quantum=st.sampled_from([0.0, 0.001, 0.5]),
    fair=st.booleans(),
    load=st.floats(0.2, 3.0),
    leave=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_no_message_is_lost_duplicated_or_run_beside_another_of_its_operator(
    policy: LeastLaxityFirst,
    workers: int,
    quantum: float,
    fair: bool,
    load: float,
    leave: bool,
    seed: int,
) -> None:
    """`VirtualNode` checks the last two at every step."""
    queue = FairShareQueue[Message]() if fair else None
    s = Scheduler(policy, workers, quantum=quantum, queue=queue)
    node = random_node(random.Random(seed), s, [0.5, 3.0, 60.0], load, seconds=4.0, leave=leave)
    node.run()
    assert node.idle
    assert node.unserved == 0
    assert len(s) == 0


@settings(max_examples=30, deadline=None)
@given(
    targets=st.lists(st.floats(0.05, 30.0), min_size=2, max_size=6),
    load=st.floats(0.3, 0.8),
    seed=st.integers(0, 10**6),
)
def test_with_finite_deadlines_nothing_waits_for_ever(
    targets: list[float], load: float, seed: int
) -> None:
    """Below capacity every deadline comes to be the earliest one. A message can be overtaken only
    by those whose deadline is earlier, which have all arrived before its own deadline has passed:
    so it waits for no longer than the laxest target plus what was queued up by then."""
    s = Scheduler(LeastLaxityFirst(), workers=1)
    node = random_node(random.Random(seed), s, targets, load, seconds=60.0)
    done = node.run()
    assert node.unserved == 0
    longest = max(c.started - c.message.sent for c in done)
    window, backlog = 2.0, 10.0
    assert longest <= max(targets) + window + backlog


def test_a_static_order_can_starve_and_deadlines_cannot() -> None:
    """Why the default is LLF: short messages that fill the worker keep SJF from a long one for as
    long as they come."""

    def wait_of_bulk(s: Scheduler) -> float:
        bulk, small = OperatorId("bulk", "a"), OperatorId("small", "a")
        node = VirtualNode(s, lambda m: 0.5 if m.operator == bulk else 0.1)
        for name, target in (("bulk", 5), ("small", 1)):
            node.at(0.0, JobAdded(Job.of(name, target, [Stage("a")])))
        node.at(0.0, EventsArrived(bulk, 0.0), EventsArrived(small, 0.0))  # costs become known
        for i in range(300):
            node.at(1.0 + 0.095 * i, EventsArrived(small, 1.0 + 0.095 * i))
        node.at(1.05, EventsArrived(bulk, 1.05))
        (waited,) = [c for c in node.run() if c.message.arrival == 1.05]
        return waited.started - 1.05

    assert wait_of_bulk(Scheduler(ShortestJobFirst(), quantum=0.0)) > 28
    assert wait_of_bulk(Scheduler(LeastLaxityFirst(), quantum=0.0)) < 5
