"""Both queues, by example. `test_queue_model.py` tries everything else."""

from __future__ import annotations

import pytest

from laxity.core.errors import SchedulingError, UnknownOperatorError
from laxity.core.fairshare import FairShareQueue
from laxity.core.queue import OperatorQueue, TwoLevelQueue


def two_level(*operators: str) -> TwoLevelQueue[str]:
    queue: TwoLevelQueue[str] = TwoLevelQueue()
    for operator in operators:
        queue.add_operator(operator, group="job")
    return queue


def drain(queue: OperatorQueue[str]) -> list[str]:
    served = []
    while (chosen := queue.pop()) is not None:
        served.append(chosen[1])
        queue.release(chosen[0])
    return served


def test_operators_go_by_the_global_priority_of_their_next_message() -> None:
    """Figure 5(b): PRI_local picks the message, its PRI_global places the operator."""
    queue = two_level("a", "b")
    queue.push("a", "a late", local=2, priority=1)
    queue.push("a", "a early", local=1, priority=50)
    queue.push("b", "b", local=9, priority=20)
    assert queue.peek() == 20
    assert drain(queue) == ["b", "a early", "a late"]


def test_ties_go_by_arrival_at_both_levels() -> None:
    queue = two_level("b", "a")
    for name in ("a1", "b1", "a2", "b2"):
        queue.push(name[0], name, local=0, priority=0)
    assert drain(queue) == ["a1", "b1", "a2", "b2"]


def test_an_operator_runs_one_message_at_a_time() -> None:
    queue = two_level("a", "b")
    for name, priority in (("a1", 1), ("a2", 2), ("b1", 3)):
        queue.push(name[0], name, local=priority, priority=priority)
    assert queue.pop() == ("a", "a1", 1)
    assert queue.pop() == ("b", "b1", 3)
    assert queue.pop() is None, "a2 waits for a"
    assert (len(queue), queue.pending("a")) == (1, 1)
    queue.release("a")
    assert queue.pop() == ("a", "a2", 2)


def test_within_its_quantum_an_operator_goes_on() -> None:
    queue = two_level("a", "b")
    for name, priority in (("a1", 1), ("a2", 9), ("b1", 3)):
        queue.push(name[0], name, local=priority, priority=priority)
    queue.pop()
    assert (queue.peek_from("a"), queue.peek()) == (9, 3)
    assert queue.pop_from("a") == ("a", "a2", 9)
    assert queue.pop_from("a") is None


def test_release_and_pop_may_give_the_same_operator_again() -> None:
    queue = two_level("a", "b")
    for name, priority in (("a1", 1), ("a2", 2), ("b1", 3)):
        queue.push(name[0], name, local=priority, priority=priority)
    assert queue.pop() == ("a", "a1", 1)
    assert queue.release_and_pop("a") == ("a", "a2", 2)
    assert queue.release_and_pop("a") == ("b", "b1", 3)
    assert queue.release_and_pop("b") is None


def test_a_waiting_message_can_be_moved_and_keeps_its_place_among_equals() -> None:
    queue = two_level("a", "b")
    first = queue.push("a", "a1", local=5, priority=5)
    queue.push("a", "a2", local=5, priority=5)
    queue.push("b", "b1", local=5, priority=5)
    moved = queue.reprioritise(first, "a", local=9, priority=9)
    back = queue.reprioritise(moved, "a", local=5, priority=5)
    assert drain(queue) == ["a1", "a2", "b1"]
    with pytest.raises(SchedulingError, match="no longer waits"):
        queue.reprioritise(back, "a", 1, 1)


def test_messages_need_not_be_comparable() -> None:
    queue: TwoLevelQueue[object] = TwoLevelQueue()
    queue.add_operator("a")
    handles = [queue.push("a", object(), local=1, priority=1) for _ in range(4)]
    for away in (2, 1, 2, 1):
        handles = [queue.reprioritise(handle, "a", away, 1) for handle in handles]
    assert len({id(m) for m in queue.messages("a")}) == 4


def test_a_removed_message_is_returned_and_gone() -> None:
    queue = two_level("a")
    handle = queue.push("a", "a1", local=1, priority=1)
    queue.push("a", "a2", local=2, priority=2)
    assert queue.remove(handle, "a") == "a1"
    with pytest.raises(SchedulingError, match="no longer waits"):
        queue.remove(handle, "a")
    assert drain(queue) == ["a2"]


@pytest.mark.parametrize("kind", [TwoLevelQueue, FairShareQueue])
def test_a_group_leaves_with_all_it_has_queued(kind: type[OperatorQueue[str]]) -> None:
    queue = kind()
    queue.add_operator("a", group="leaves")
    queue.add_operator("b", group="leaves")
    queue.add_operator("c", group="stays")
    for name in ("b1", "a1", "c1", "a2"):
        queue.push(name[0], name, local=0, priority=0)
    popped = queue.pop()
    assert popped is not None
    assert popped[0] == "b"
    assert queue.remove_group("leaves") == ["a1", "a2"]
    queue.release("b")
    assert drain(queue) == ["c1"]
    assert len(queue) == 0
    assert queue.remove_group("leaves") == []


@pytest.mark.parametrize("kind", [TwoLevelQueue, FairShareQueue])
def test_misuse_is_refused(kind: type[OperatorQueue[str]]) -> None:
    queue = kind()
    with pytest.raises(UnknownOperatorError, match="operator a is not in the queue; add it first"):
        queue.push("a", "a1", 0, 0)
    queue.add_operator("a")
    with pytest.raises(SchedulingError, match="operator a is there already"):
        queue.add_operator("a")
    with pytest.raises(SchedulingError, match="operator a is not running"):
        queue.release("a")
    queue.push("a", "a1", 0, 0)
    with pytest.raises(SchedulingError, match="operator a is not running"):
        queue.pop_from("a")
    assert queue.pop_from("nobody") is None


def test_fair_share_takes_turns() -> None:
    queue: FairShareQueue[str] = FairShareQueue()
    for operator in ("a", "b"):
        queue.add_operator(operator)
    for name in ("a1", "a2", "a3", "b1", "b2"):
        queue.push(name[0], name, local=0, priority=-ord(name[0]))
    assert drain(queue) == ["a1", "b1", "a2", "b2", "a3"]
