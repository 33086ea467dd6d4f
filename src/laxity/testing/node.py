"""One node in virtual time: a scheduler, its workers, and nothing else.

Not the simulator (`laxity.sim` has channels, window state and nodes that talk to each other): the
least that makes a scheduler's decisions take time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple, Protocol

from laxity.core.contexts import Message
from laxity.core.events import (
    Decision,
    DropMessages,
    Event,
    EventsArrived,
    JobRemoved,
    MessageCompleted,
    RunMessage,
)
from laxity.core.jobs import OperatorId


class Completion(NamedTuple):
    message: Message
    worker: int
    started: float
    finished: float

    @property
    def latency(self) -> float:
        """From the arrival of the last event behind the message to the end of its processing."""
        return self.finished - self.message.arrival


class Handles(Protocol):
    """A scheduler, or something that wraps one."""

    def handle(self, event: Event, now: float) -> list[Decision]: ...


class VirtualNode:
    """Feeds a scheduler with events and lets its decisions take `cost(message)` seconds.

    `emits` names where the output of a message goes. While it runs it checks what must hold under
    any policy: no message is lost, handed out twice, or run beside another one of its operator.
    """

    def __init__(
        self,
        scheduler: Handles,
        cost: Callable[[Message], float],
        emits: Callable[[Message], Iterable[OperatorId]] = lambda message: (),
    ) -> None:
        self.now = -math.inf
        self.completed: list[Completion] = []
        self.dropped: list[Message] = []
        self._scheduler = scheduler
        self._cost = cost
        self._emits = emits
        self._agenda: list[tuple[float, int, Event]] = []
        self._order = count()
        self._running: dict[int, tuple[float, Message]] = {}
        self._seen: set[int] = set()
        self._sent: Counter[OperatorId] = Counter()
        self._orphans: set[int] = set()  # still running, their job has left: output goes nowhere

    def at(self, time: float, *events: Event) -> None:
        """Plan what happens at a moment that has not passed."""
        for event in events:
            heappush(self._agenda, (time, next(self._order), event))

    def run(self, until: float = math.inf) -> list[Completion]:
        """Let time pass until nothing is left to happen, or until a moment."""
        while self._agenda and self._agenda[0][0] <= until:
            self.now, _, event = heappop(self._agenda)
            self._before(event)
            for decision in self._scheduler.handle(event, self.now):
                self._obey(decision)
        return self.completed

    @property
    def idle(self) -> bool:
        return not self._running

    @property
    def unserved(self) -> int:
        """Messages the scheduler was given that neither ran nor were handed back."""
        return self._sent.total() - len(self.completed) - len(self.dropped) - len(self._running)

    def _before(self, event: Event) -> None:
        if isinstance(event, EventsArrived):
            self._sent[event.operator] += 1
        elif isinstance(event, MessageCompleted):
            started, message = self._running.pop(event.worker)
            self.completed.append(Completion(message, event.worker, started, self.now))
            if message.context.id not in self._orphans:
                self._sent.update(event.emitted)
        elif isinstance(event, JobRemoved):
            running = [message for _, message in self._running.values()]
            self._orphans |= {m.context.id for m in running if m.operator.job == event.job}

    def _obey(self, decision: Decision) -> None:
        if isinstance(decision, DropMessages):
            self.dropped += decision.messages
            return
        assert isinstance(decision, RunMessage)
        worker, message = decision.worker, decision.message
        assert worker not in self._running, f"worker {worker} has work already"
        assert message.context.id not in self._seen, f"{message} was handed out twice"
        running = {
            other.operator
            for _, other in self._running.values()
            if other.context.id not in self._orphans
        }
        assert message.operator not in running, f"{message.operator} runs two messages at once"
        self._seen.add(message.context.id)
        self._running[worker] = (self.now, message)
        cost = self._cost(message)
        done = MessageCompleted(worker, cost, tuple(self._emits(message)))
        self.at(self.now + cost, done)
