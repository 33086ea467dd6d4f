from __future__ import annotations

import math

import pytest

from laxity.core.errors import InvalidTraceError
from laxity.core.events import EventsArrived, JobAdded, JobRemoved, MessageCompleted, TargetChanged
from laxity.core.jobs import Job, OperatorId, Stage, TimeDomain
from laxity.core.policies import LeastLaxityFirst, ShortestJobFirst, TokenFairSharing
from laxity.core.scheduler import Scheduler
from laxity.core.trace import TracingScheduler, dump, load, replay
from laxity.core.windows import Window

READ, SUM = OperatorId("job", "read"), OperatorId("job", "sum")


def traced(scheduler: Scheduler) -> list[str]:
    tracing = TracingScheduler(scheduler)
    job = Job.of(
        "job",
        "2s",
        [Stage("read"), Stage("sum", 2, Window.sliding(10, 5, delay=1))],
        tenant="ads",
        time_domain=TimeDomain.PROCESSING,
    )
    for now, event in (
        (0.0, JobAdded(job, tokens=1.0)),
        (1.0, EventsArrived(READ, 0.5, math.nan)),
        (1.5, EventsArrived(READ, math.nan)),
        (2.0, TargetChanged("job", 4.0)),
        (3.0, MessageCompleted(0, 0.5, (SUM,))),
        (3.5, JobRemoved("job")),
        (4.0, MessageCompleted(0, 0.25)),
    ):
        tracing.handle(event, now)
    return list(dump(tracing.steps))


@pytest.mark.parametrize("policy", [LeastLaxityFirst(), TokenFairSharing()])
def test_what_is_saved_reads_back_the_same(policy: LeastLaxityFirst) -> None:
    lines = traced(Scheduler(policy))
    assert list(dump(load(lines))) == lines
    assert not any(word in line for line in lines for word in ("NaN", "Infinity"))
    replay(load(lines), Scheduler(policy))


def test_replay_names_the_first_step_that_differs() -> None:
    lines = traced(Scheduler(LeastLaxityFirst()))
    replay(load(lines), Scheduler(LeastLaxityFirst()))
    with pytest.raises(InvalidTraceError, match=r"step 2 \(t=1.0\) decided"):
        replay(load(lines), Scheduler(ShortestJobFirst()))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "{}",
        '{"now":1,"event":{"kind":"Surprise"},"decisions":[]}',
        "[1]",
        '{"now":1,"event":{"kind":"JobRemoved","job":"a"},"decisions":[{"kind":"Surprise"}]}',
    ],
)
def test_a_broken_trace_names_its_line(line: str) -> None:
    good = traced(Scheduler(LeastLaxityFirst()))
    with pytest.raises(InvalidTraceError, match="line 3 of the trace"):
        list(load([*good[:2], line]))
