"""Algorithm 1 on a virtual clock."""

from __future__ import annotations

import errno
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from laxity.clock import VirtualClock
from laxity.host.binding import Binding
from laxity.host.drivers.spark import FeedDriver
from laxity.host.entities import Deployment, LogicalOperator, PhysicalOperator, Query, entity_id
from laxity.host.errors import EngineTimeoutError, InvalidHostConfigError, MissingMetricError
from laxity.host.fetch import ThreadedFetcher
from laxity.host.loop import HostLoop
from laxity.host.metrics import Snapshot
from laxity.host.notices import Notices
from laxity.host.policies import Constant, FirstComeFirstServed, QueueSize
from laxity.host.schedule import GroupingSchedule, NestedSchedule, SinglePrioritySchedule
from laxity.host.testing import FakeDriver
from laxity.host.translators import Change, Format

from .conftest import thread


def deployment(engine: str, *queries: str, first_tid: int = 100) -> Deployment:
    names = [entity_id(engine, q, "op") for q in queries]
    return Deployment(
        engine,
        tuple(Query(q, engine) for q in queries),
        tuple(LogicalOperator(n, q) for n, q in zip(names, queries, strict=True)),
        tuple(
            PhysicalOperator(n, q, (n,), (thread(first_tid + i),))
            for i, (n, q) in enumerate(zip(names, queries, strict=True))
        ),
    )


@dataclass
class Recorder:
    """A translator that only remembers."""

    name: str = "recorder"
    format: Format = Format.SINGLE
    clock: VirtualClock | None = None
    applied: list[Any] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    released: int = 0
    broken: Exception | None = None

    def unavailable(self) -> str | None:
        return None

    def apply(self, schedule: Any) -> list[Change]:
        if self.broken:
            raise self.broken
        self.applied.append(schedule)
        if self.clock:
            self.at.append(self.clock.now())
        return []

    def release(self) -> None:
        self.released += 1


def queues(engine: str, **sizes: float) -> dict[str, dict[str, float]]:
    return {"queue_size": {entity_id(engine, q, "op"): s for q, s in sizes.items()}}


def run_until(loop: HostLoop, clock: VirtualClock, end: float) -> None:
    while clock.now() < end:
        loop.step()
        clock.sleep(loop.pause())


def test_each_policy_runs_at_its_own_period_with_its_own_translator() -> None:
    clock = VirtualClock(0.0)
    driver = FakeDriver(deployment("e", "a", "b"), queues("e", a=1, b=5))
    often, seldom = Recorder(clock=clock), Recorder(clock=clock)
    bindings = [
        Binding("often", QueueSize(), often, period=2.0),
        Binding("seldom", Constant({"a": 3.0}), seldom, period=3.0),
    ]
    run_until(HostLoop([driver], bindings, clock=clock), clock, 12.0)
    assert often.at == [0, 2, 4, 6, 8, 10]
    assert seldom.at == [0, 3, 6, 9]
    assert often.applied[0].priorities == {thread(100): 2, thread(101): 6}
    assert seldom.applied[0].priorities == {thread(100): 3, thread(101): 1}
    assert len(driver.asked) == 8, "drivers are read only when somebody is due"


def test_registered_are_the_metrics_of_all_policies_even_if_only_one_is_due() -> None:
    clock = VirtualClock(0.0)
    raw = {**queues("e", a=1), "head_age": {"e/a/op": 1.0}}
    driver = FakeDriver(deployment("e", "a"), raw)
    bindings = [
        Binding("qs", QueueSize(), Recorder(), period=1.0),
        Binding("fcfs", FirstComeFirstServed(), Recorder(), period=10.0),
    ]
    run_until(HostLoop([driver], bindings, clock=clock), clock, 3.0)
    assert driver.asked == [{"queue_size", "head_age"}] * 3


def test_missed_passes_are_not_made_up_for() -> None:
    clock = VirtualClock(0.0)
    recorder = Recorder(clock=clock)
    driver = FakeDriver(deployment("e", "a"), queues("e", a=1))
    loop = HostLoop([driver], [Binding("qs", QueueSize(), recorder)], clock=clock)
    loop.step()
    clock.advance_to(7.5)
    loop.step()
    loop.step()
    assert recorder.at == [0.0, 7.5]
    assert loop.pause() == 1.0


def test_one_schedule_spans_engines_and_queries_can_be_chosen() -> None:
    drivers = [
        FakeDriver(deployment("x", "a", "b"), queues("x", a=1, b=2)),
        FakeDriver(deployment("y", "a", "c", first_tid=200), queues("y", a=3, c=4)),
    ]
    everything, some = Recorder(), Recorder()
    loop = HostLoop(
        drivers,
        [
            Binding("all", QueueSize(), everything),
            Binding("some", QueueSize(), some, queries="a", engines="y"),
        ],
        clock=VirtualClock(0.0),
    )
    loop.step()
    assert {t.tid for t in everything.applied[0].priorities} == {100, 101, 200, 201}
    assert {t.tid for t in some.applied[0].priorities} == {200}


def test_the_schedule_has_the_translators_format() -> None:
    driver = FakeDriver(deployment("e", "a", "b"), queues("e", a=1, b=5))
    kinds = {f: Recorder(format=f) for f in Format}
    bindings = [Binding(f, QueueSize(), r) for f, r in kinds.items()]
    HostLoop([driver], bindings, clock=VirtualClock(0.0)).step()
    assert isinstance(kinds[Format.SINGLE].applied[0], SinglePrioritySchedule)
    assert isinstance(kinds[Format.GROUPING].applied[0], GroupingSchedule)
    nested = kinds[Format.NESTED].applied[0]
    assert isinstance(nested, NestedSchedule)
    assert {g.priority for g in nested.groups.groups.values()} == {1.0}, "queries are equal"
    assert nested.inside.priorities == {thread(100): 2, thread(101): 6}


def test_groups_can_have_a_policy_of_their_own() -> None:
    driver = FakeDriver(deployment("e", "a", "b"), queues("e", a=1, b=5))
    recorder = Recorder(format=Format.NESTED)
    binding = Binding("qs", QueueSize(), recorder, group_policy=Constant({"a": 4.0}))
    HostLoop([driver], [binding], clock=VirtualClock(0.0)).step()
    groups = recorder.applied[0].groups.groups
    assert {name: group.priority for name, group in groups.items()} == {"e/a": 4.0, "e/b": 1.0}


def test_queries_that_come_and_go_are_seen_within_a_period() -> None:
    clock = VirtualClock(0.0)
    driver = FakeDriver(deployment("e", "a"), queues("e", a=1))
    recorder = Recorder()
    loop = HostLoop([driver], [Binding("qs", QueueSize(), recorder)], clock=clock)
    loop.step()
    driver.deployment, driver.raw = deployment("e", "a", "b"), queues("e", a=1, b=2)
    clock.sleep(loop.pause())
    loop.step()
    driver.deployment, driver.raw = deployment("e"), {"queue_size": {}}
    clock.sleep(loop.pause())
    loop.step()
    assert [len(s.priorities) for s in recorder.applied] == [1, 2, 0]


def test_policies_are_switched_while_it_runs() -> None:
    clock = VirtualClock(0.0)
    driver = FakeDriver(deployment("e", "a"), queues("e", a=1))
    first, second = Recorder(clock=clock), Recorder(clock=clock)
    loop = HostLoop(
        [driver],
        [
            Binding("one", QueueSize(), first),
            Binding("two", Constant(), second, enabled=False),
        ],
        clock=clock,
    )
    run_until(loop, clock, 2.0)
    loop.enable("one", False)
    loop.enable("two")
    run_until(loop, clock, 4.0)
    assert (first.at, second.at) == ([0, 1], [2, 3])
    assert first.released == 1
    loop.remove("two")
    assert second.released == 1
    assert loop.step().ran == []
    with pytest.raises(InvalidHostConfigError, match="'two'"):
        loop.enable("two")


def test_a_missing_metric_is_refused_when_the_policy_is_added() -> None:
    driver = FakeDriver(deployment("e", "a"), {"cpu_seconds": {}})
    with pytest.raises(MissingMetricError, match="queue_size"):
        HostLoop([driver], [Binding("qs", QueueSize(), Recorder())])
    HostLoop([driver], [Binding("qs", QueueSize(), Recorder(), engines="other")])


def test_an_engine_that_dies_is_reported_once_keeps_its_schedule_then_loses_it_and_returns() -> (
    None
):
    clock = VirtualClock(0.0)
    said: list[str] = []
    good = FakeDriver(deployment("good", "a"), queues("good", a=1))
    bad = FakeDriver(deployment("bad", "b", first_tid=200), queues("bad", b=1))
    recorder = Recorder()
    loop = HostLoop(
        [good, bad],
        [Binding("qs", QueueSize(), recorder)],
        clock=clock,
        notices=Notices(said.append),
    )
    run_until(loop, clock, 1.0)
    bad.broken = RuntimeError("connection refused")
    run_until(loop, clock, 6.0)
    assert [len(s.priorities) for s in recorder.applied] == [2, 2, 2, 2, 1, 1]
    assert said == ["engine 'bad' cannot be read: connection refused"]
    bad.broken = None
    run_until(loop, clock, 7.0)
    assert len(recorder.applied[-1].priorities) == 2
    assert said[1:] == ["engine 'bad' is back"]


def test_a_translator_that_fails_does_not_stop_the_others() -> None:
    clock = VirtualClock(0.0)
    said: list[str] = []
    driver = FakeDriver(deployment("e", "a"), queues("e", a=1))
    bad, good = Recorder(broken=OSError(errno.EIO, "broken")), Recorder()
    loop = HostLoop(
        [driver],
        [Binding("bad", QueueSize(), bad), Binding("good", QueueSize(), good)],
        clock=clock,
        notices=Notices(said.append),
    )
    run_until(loop, clock, 3.0)
    assert len(good.applied) == 3
    bad.broken = None
    run_until(loop, clock, 4.0)
    assert len(bad.applied) == 1
    assert [("again" in s) for s in said] == [True, True]
    assert len(said) == 2


class Hanging(FakeDriver):
    """A driver whose snapshot blocks until it is let go."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.let_go = threading.Event()
        self.answered = threading.Event()

    def snapshot(self, now: float, wanted: frozenset[str]) -> Snapshot:
        self.let_go.wait(30)
        result = super().snapshot(now, wanted)
        self.answered.set()
        return result


def test_an_engine_that_hangs_holds_nobody_up_and_recovers() -> None:
    clock = VirtualClock(0.0)
    said: list[str] = []
    good = FakeDriver(deployment("good", "a"), queues("good", a=1))
    bad = Hanging(deployment("bad", "b", first_tid=200), queues("bad", b=1))
    recorder = Recorder()
    loop = HostLoop(
        [bad, good],
        [Binding("qs", QueueSize(), recorder)],
        clock=clock,
        fetcher=ThreadedFetcher(timeout=0.05),
        notices=Notices(said.append),
    )
    run_until(loop, clock, 3.0)
    assert [len(s.priorities) for s in recorder.applied] == [1, 1, 1]
    assert bad.asked == [], "one question at a time, however long it hangs"
    assert said == ["engine 'bad' cannot be read: engine 'bad' did not answer within 0.05 s"]
    bad.let_go.set()
    assert bad.answered.wait(10)
    for _ in range(1000):
        loop.step()
        clock.sleep(1.0)
        if len(recorder.applied[-1].priorities) == 2:
            break
    assert said[1:] == ["engine 'bad' is back"]


def test_an_engine_that_has_never_answered_is_given_more_time_once() -> None:
    driver = Hanging(deployment("cold", "a"), queues("cold", a=1))
    fetcher = ThreadedFetcher(timeout=0.0, first=30.0)
    threading.Timer(0.05, driver.let_go.set).start()
    assert isinstance(fetcher.fetch([(driver, frozenset())], 0.0)["cold"], Snapshot)
    driver.let_go.clear()
    assert isinstance(fetcher.fetch([(driver, frozenset())], 1.0)["cold"], EngineTimeoutError)
    driver.let_go.set()
    fetcher.close()


def test_run_stops_from_another_thread_and_close_puts_back() -> None:
    recorder = Recorder()
    driver = FakeDriver(deployment("e", "a"), queues("e", a=1))
    loop = HostLoop([driver], [Binding("qs", QueueSize(), recorder, period=3600.0)])
    running = threading.Thread(target=loop.run)
    running.start()
    loop.stop()
    running.join(10)
    assert not running.is_alive()
    loop.close()
    assert recorder.released == 1
    assert driver.closed


def test_a_closed_fetcher_leaves_no_thread() -> None:
    fetcher = ThreadedFetcher(timeout=5.0)
    fetcher.fetch([(FeedDriver(dict, name="closing"), frozenset({"laxity"}))], 0.0)
    (worker,) = [t for t in threading.enumerate() if t.name == "laxity-closing"]
    fetcher.close()
    worker.join(timeout=30)
    assert not worker.is_alive()
