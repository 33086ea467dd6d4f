"""The two-level queue against a model that is too simple to be wrong: a list that is searched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from laxity.core.queue import Handle, TwoLevelQueue

OPERATORS = [(group, number) for group in "xyz" for number in range(2)]
Operator = tuple[str, int]


@dataclass(eq=False)
class Waiting:
    """A pending message as the model knows it. Not comparable, as messages need not be."""

    operator: Operator
    sequence: int
    local: float
    priority: float
    handle: Handle = field(default_factory=list)


class QueueModel(RuleBasedStateMachine):
    waiting_messages: Bundle[Waiting] = Bundle("waiting_messages")
    priorities = st.integers(0, 5).map(float) | st.just(float("inf"))
    """Few values, so that ties are common."""

    @initialize()
    def start(self) -> None:
        self.queue: TwoLevelQueue[Waiting] = TwoLevelQueue()
        self.waiting: list[Waiting] = []
        self.busy: set[Operator] = set()
        self.known: set[Operator] = set()
        self.sequence = 0
        for operator in OPERATORS:
            self.queue.add_operator(operator, operator[0])
            self.known.add(operator)

    # The model: what should come next, found by searching.

    def head(self, operator: Operator) -> Waiting | None:
        own = [m for m in self.waiting if m.operator == operator]
        return min(own, key=lambda m: (m.local, m.sequence), default=None)

    def next(self, ready: set[Operator]) -> Waiting | None:
        heads = [head for operator in ready if (head := self.head(operator)) is not None]
        return min(heads, key=lambda m: (m.priority, m.sequence), default=None)

    def take(self, expected: Waiting | None, got: Any) -> None:
        if expected is None:
            assert got is None
            return
        assert got == (expected.operator, expected, expected.priority)
        self.waiting.remove(expected)
        self.busy.add(expected.operator)

    # What can happen.

    @rule(
        target=waiting_messages,
        operator=st.sampled_from(OPERATORS),
        local=priorities,
        priority=priorities,
    )
    def push(self, operator: Operator, local: float, priority: float) -> Any:
        if operator not in self.known:
            return multiple()
        self.sequence += 1
        message = Waiting(operator, self.sequence, local, priority)
        message.handle = self.queue.push(operator, message, local, priority)
        self.waiting.append(message)
        return message

    @rule()
    def pop(self) -> None:
        self.take(self.next(self.known - self.busy), self.queue.pop())

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def pop_from(self, data: st.DataObject) -> None:
        operator = data.draw(st.sampled_from(sorted(self.busy)))
        self.take(self.head(operator), self.queue.pop_from(operator))

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        operator = data.draw(st.sampled_from(sorted(self.busy)))
        self.queue.release(operator)
        self.busy.remove(operator)

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def release_and_pop(self, data: st.DataObject) -> None:
        operator = data.draw(st.sampled_from(sorted(self.busy)))
        got = self.queue.release_and_pop(operator)
        self.busy.remove(operator)
        self.take(self.next(self.known - self.busy), got)

    @rule(message=waiting_messages, local=priorities, priority=priorities)
    def reprioritise(self, message: Waiting, local: float, priority: float) -> None:
        if message in self.waiting:
            message.handle = self.queue.reprioritise(
                message.handle, message.operator, local, priority
            )
            message.local, message.priority = local, priority

    @rule(message=consumes(waiting_messages))
    def remove(self, message: Waiting) -> None:
        if message in self.waiting:
            assert self.queue.remove(message.handle, message.operator) is message
            self.waiting.remove(message)

    @rule(group=st.sampled_from("xyz"))
    def remove_group(self, group: str) -> None:
        leaving = [m for m in self.waiting if m.operator[0] == group]
        assert self.queue.remove_group(group) == leaving, "in order of arrival"
        self.waiting = [m for m in self.waiting if m.operator[0] != group]
        self.known = {op for op in self.known if op[0] != group}
        running = {op for op in self.busy if op[0] == group}
        for operator in running:
            self.queue.release(operator)  # of work that its group left behind: no effect
        self.busy -= running

    @rule(group=st.sampled_from("xyz"))
    def add_group(self, group: str) -> None:
        for operator in OPERATORS:
            if operator[0] == group and operator not in self.known:
                self.queue.add_operator(operator, group)
                self.known.add(operator)

    # What always holds.

    @invariant()
    def nothing_is_lost_or_duplicated(self) -> None:
        assert len(self.queue) == len(self.waiting)
        for operator in self.known:
            own = [m for m in self.waiting if m.operator == operator]
            in_order = sorted(own, key=lambda m: (m.local, m.sequence))
            assert list(self.queue.messages(operator)) == in_order
            assert self.queue.pending(operator) == len(own)

    @invariant()
    def peeking_tells_what_popping_would_find(self) -> None:
        expected = self.next(self.known - self.busy)
        assert self.queue.peek() == (None if expected is None else expected.priority)
        for operator in self.known:
            head = self.head(operator)
            assert self.queue.peek_from(operator) == (None if head is None else head.priority)


QueueModel.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestQueueModel = QueueModel.TestCase


def test_dead_entries_do_not_pile_up() -> None:
    """A message that is moved for ever must not leave a trail: memory stays in proportion."""
    queue: TwoLevelQueue[str] = TwoLevelQueue()
    queue.add_operator("a")
    queue.add_operator("b")
    handles = [queue.push(op, op, 1.0, 1.0) for op in ("a", "a", "b")]
    for i in range(5_000):
        handles = [
            queue.reprioritise(handle, op, float(i % 7), float(i % 5))
            for handle, op in zip(handles, ("a", "a", "b"), strict=True)
        ]
    assert len(queue._ready) < 300
    assert len(queue._operators["a"].rest or ()) < 300
    assert len(queue) == 3
