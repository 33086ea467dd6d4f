"""Figure 4 of Cameo, as a test.

Two jobs share one worker. J1 is batch analytics, J2 detects anomalies and has a target of 50.
Upstream work holds the worker until 40; by then four messages wait at the two output operators:

    message   at    seen at source   cost   must be done by
    M1        o1    15               30     its window's end + 80
    M2        o2    30               20     30 + 50 = 80
    M3        o1    35               30     its window's end + 80
    M4        o2    40               20     40 + 50 = 90

The paper prints neither all arrivals nor all costs; these reproduce what it says of each schedule
and its one number, ddl_M2 = 30 + 50 − 20 = 60.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from laxity.core.contexts import Message
from laxity.core.events import EventsArrived, JobAdded
from laxity.core.fairshare import FairShareQueue
from laxity.core.jobs import Job, OperatorId, Stage, TimeDomain
from laxity.core.policies import FirstInFirstOut, LeastLaxityFirst
from laxity.core.scheduler import Scheduler
from laxity.core.windows import Window
from laxity.testing import VirtualNode

O1, O2, UPSTREAM = OperatorId("J1", "o1"), OperatorId("J2", "o2"), OperatorId("up", "stream")
COST = {O1: 30.0, O2: 20.0, UPSTREAM: 40.0}
ARRIVALS = {"M1": (O1, 15.0), "M2": (O2, 30.0), "M3": (O1, 35.0), "M4": (O2, 40.0)}
DUE = {"M2": 80.0, "M4": 90.0}
WINDOW = Window.tumbling(100)
"""J1 adds up 100 seconds at a time: nothing of M1 or M3 shows before 100."""


@dataclass
class Schedule:
    order: list[str]
    finished: dict[str, float]
    deadlines: dict[str, float]

    @property
    def missed_by_j2(self) -> list[str]:
        return [name for name, due in DUE.items() if self.finished[name] > due]


def schedule(scheduler: Scheduler, j1_window: Window | None = None) -> Schedule:
    node = VirtualNode(scheduler, lambda message: COST[message.operator])
    for name, target, stage in (
        ("J1", 80, Stage("o1", window=j1_window)),
        ("J2", 50, Stage("o2")),
        ("up", 1000, Stage("stream")),
    ):
        job = Job.of(name, target, [stage], time_domain=TimeDomain.INGESTION)
        node.at(-1000.0, JobAdded(job))
    # Each operator has run once, long ago, so that its cost is known.
    for operator in COST:
        node.at(-900.0, EventsArrived(operator, -900.0))
    node.run()
    node.completed.clear()

    node.at(0.0, EventsArrived(UPSTREAM, 0.0))
    for operator, arrival in ARRIVALS.values():  # ingestion time: seen up to the moment of arrival
        node.at(arrival, EventsArrived(operator, progress=arrival, since=arrival))
    first, *done = node.run()
    assert first.message.operator == UPSTREAM
    assert first.finished == 40.0

    def name(message: Message) -> str:
        return {arrival: name for name, (_, arrival) in ARRIVALS.items()}[message.arrival]

    return Schedule(
        order=[name(c.message) for c in done],
        finished={name(c.message): c.finished for c in done},
        deadlines={name(c.message): c.message.context.priority for c in done},
    )


def fair_share(quantum: float) -> Scheduler:
    return Scheduler(FirstInFirstOut(), quantum=quantum, queue=FairShareQueue())


def deadline_aware() -> Scheduler:
    return Scheduler(LeastLaxityFirst(), quantum=0.0)


def test_figure_4() -> None:
    a = schedule(fair_share(quantum=1.0))
    assert a.order == ["M1", "M2", "M3", "M4"]
    assert a.missed_by_j2 == ["M2", "M4"]

    b = schedule(fair_share(quantum=1000.0))
    assert b.order == ["M1", "M3", "M2", "M4"]
    assert b.missed_by_j2 == ["M2", "M4"]

    # Topology awareness knows costs and targets: M2 is promoted. M1 still overtakes M4.
    c = schedule(deadline_aware())
    assert c.deadlines["M2"] == 30 + 50 - 20 == 60
    assert c.deadlines == {"M1": 65.0, "M2": 60.0, "M3": 85.0, "M4": 70.0}
    assert c.order == ["M2", "M1", "M4", "M3"]
    assert c.missed_by_j2 == ["M4"]

    # Semantics awareness knows the window too: M1 and M3 can wait until it ends at 100.
    d = schedule(deadline_aware(), j1_window=WINDOW)
    assert d.deadlines == {"M1": 150.0, "M2": 60.0, "M3": 150.0, "M4": 70.0}
    assert d.order == ["M2", "M4", "M1", "M3"]
    assert d.missed_by_j2 == []
    assert max(d.finished.values()) <= 100 + 80, "and J1 meets its own"


@pytest.mark.parametrize("window", [None, WINDOW])
def test_the_same_work_is_done_in_every_schedule(window: Window | None) -> None:
    for scheduler in (fair_share(1.0), fair_share(1000.0), deadline_aware()):
        assert max(schedule(scheduler, window).finished.values()) == 140.0
