"""The rules of each scheduler, on its run queue alone."""

from __future__ import annotations

import math
from itertools import count

import pytest

from laxity.core.contexts import PriorityContext, SourceEvent
from laxity.sim import Cluster, Simulation, simulate
from laxity.sim.operators import Message, Operator
from laxity.sim.reproduce.variants import _MessageQueue
from laxity.sim.schedulers import Cameo, Fifo, Orleans, Slots
from laxity.sim.schedulers.api import RunQueue
from laxity.sim.schedulers.cameo import _PriorityQueue
from laxity.sim.schedulers.fifo import _OperatorQueue
from laxity.sim.schedulers.orleans import _Bag
from sim.flows import ONE_WORKER, chain

_ids = count()


def _operators(number: int) -> list[Operator]:
    simulation = Simulation([chain(sources=number)], Cluster(nodes=1), Fifo())
    return simulation.jobs[0].stages["scan"]


def _message(operator: Operator, label: float, priority: float = 0.0) -> Message:
    message = Message(operator, 0, 1.0, 0.0, label, 0.0)
    message.context = PriorityContext(next(_ids), label, priority, label, 0.0, 1.0)
    return message


def _labels(queue: RunQueue, *, expired: bool, worker: int = 0) -> list[float]:
    """The order in which one worker runs everything."""
    order = []
    message = queue.take(worker)
    while message is not None:
        order.append(message.progress)
        message = queue.next(worker, message.operator, expired)
    return order


def test_fifo_gives_each_operator_a_turn_in_order_of_arrival() -> None:
    queue, (a, b) = _OperatorQueue(), _operators(2)
    for operator, label in ((a, 1), (a, 2), (b, 3), (a, 4)):
        queue.put(_message(operator, label), -1)
    assert _labels(queue, expired=True) == [1, 3, 2, 4]


def test_fifo_keeps_an_operator_for_its_quantum() -> None:
    queue, (a, b) = _OperatorQueue(), _operators(2)
    for operator, label in ((a, 1), (a, 2), (b, 3)):
        queue.put(_message(operator, label), -1)
    assert _labels(queue, expired=False) == [1, 2, 3]


def test_an_operator_never_runs_twice_at_a_time() -> None:
    for queue in (_OperatorQueue(), _Bag(), _MessageQueue(), _PriorityQueue()):
        (a,) = _operators(1)
        queue.add_operator(a)
        queue.put(_message(a, 1), -1)
        queue.put(_message(a, 2), -1)
        first = queue.take(0)
        assert first is not None
        assert queue.take(1) is None
        following = queue.next(0, a, True)
        assert following is not None
        assert following.progress == 2


def test_orleans_serves_operators_in_the_order_they_woke_whoever_woke_them() -> None:
    queue, (a, b, c, d) = _Bag(), _operators(4)
    for operator, label, worker in ((a, 1, -1), (b, 2, 0), (c, 3, 1), (d, 4, 0)):
        queue.put(_message(operator, label), worker)
    assert _labels(queue, expired=True) == [1, 2, 3, 4]


def test_orleans_goes_on_with_an_operator_that_has_more_although_others_wait() -> None:
    queue, (a, b) = _Bag(), _operators(2)
    for operator, label in ((a, 1), (b, 2), (a, 3)):
        queue.put(_message(operator, label), -1)
    assert _labels(queue, expired=True) == [1, 3, 2]


def test_fifo_by_message_forgets_which_operator_has_how_many() -> None:
    queue, (a, b) = _MessageQueue(), _operators(2)
    for operator, label in ((a, 1), (a, 2), (b, 3), (a, 4)):
        queue.put(_message(operator, label), -1)
    assert _labels(queue, expired=True) == [1, 2, 3, 4]


def test_cameo_runs_the_least_deadline_and_swaps_after_the_quantum() -> None:
    queue, (a, b) = _PriorityQueue(), _operators(2)
    queue.add_operator(a)
    queue.add_operator(b)
    for operator, label, priority in ((a, 1, 5.0), (b, 2, 3.0), (a, 3, 9.0), (b, 4, 7.0)):
        queue.put(_message(operator, label, priority), -1)
    assert _labels(queue, expired=True) == [2, 1, 4, 3]


def test_cameo_keeps_an_operator_within_its_quantum() -> None:
    queue, (a, b) = _PriorityQueue(), _operators(2)
    queue.add_operator(a)
    queue.add_operator(b)
    for operator, label, priority in ((a, 1, 1.0), (a, 2, 9.0), (b, 3, 3.0)):
        queue.put(_message(operator, label, priority), -1)
    assert _labels(queue, expired=False) == [1, 2, 3]


def test_slots_share_the_cores_fairly() -> None:
    """Three equal threads on one core finish together, after three times their cost."""
    flow = chain(sources=3, cost=0.1, interval=1.0, stop=1.0, window=None)
    cluster = Cluster(
        nodes=1, workers=1, dispatch=0.0, switch=0.0, network_delay=0.0, time_slice=0.003
    )
    finished: list[float] = []
    simulation = Simulation([flow], cluster, Slots())
    completed = simulation.completed

    def note(now: float, message: Message, *rest: object) -> None:
        if message.operator.stage == "scan":
            finished.append(now)
        completed(now, message, *rest)  # type: ignore[arg-type]

    simulation.completed = note  # type: ignore[method-assign]
    simulation.run(5.0)
    # The first to finish wakes the sum, which takes a share from then on.
    assert finished[0] == pytest.approx(1.3)
    assert finished == pytest.approx([1.3] * 3, abs=0.1)


def test_slots_with_a_core_each_do_not_disturb_each_other() -> None:
    flow = chain(sources=3, cost=0.1, interval=1.0)
    result = simulate([flow], Cluster(nodes=1, workers=4), Slots(), duration=5.5)
    one = chain(sources=1, cost=0.1, interval=1.0)
    alone = simulate([one], Cluster(nodes=1, workers=4), Slots(), duration=5.5)
    # The sum merges three messages instead of one; the scans run side by side.
    extra = result.jobs["job"].latencies.p50 - alone.jobs["job"].latencies.p50
    assert extra == pytest.approx(0.2, rel=0.05)


def test_only_cameo_builds_contexts() -> None:
    flow = chain()
    for scheduler in (Fifo(), Orleans(), Slots()):
        assert scheduler.contexts(flow, count()) is None
    contexts = Cameo().contexts(flow, count())
    source = next(iter(contexts.sources.values()))
    event = SourceEvent(progress=1.0, arrival=1.1, since=0.0)
    assert math.isfinite(source.build(event).priority)


def test_no_scheduler_is_given_other_costs_than_another() -> None:
    """The same work takes the same CPU: schedulers differ in order only."""
    flows = [chain("a", noise=0.4, cost=0.01, stop=5.0), chain("b", noise=0.4, stop=5.0)]
    busy = [
        sum(node.busy_time for node in simulation.nodes)
        for scheduler in (Cameo(), Fifo(), Orleans(), Slots())
        for simulation in [Simulation(flows, ONE_WORKER, scheduler)]
        if simulation.run(30.0)
    ]
    assert busy == pytest.approx([busy[0]] * 4)
