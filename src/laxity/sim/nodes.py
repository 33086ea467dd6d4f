"""Nodes: worker threads that run messages, one at a time, to the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from laxity.sim.operators import Message, Operator, Result
    from laxity.sim.schedulers.api import RunQueue
    from laxity.sim.simulation import Simulation


class Node(Protocol):
    number: int
    busy_time: float
    """Core-seconds spent on messages, overheads included."""

    def add_operator(self, operator: Operator) -> None: ...

    def submit(self, now: float, message: Message, worker: int = -1) -> None:
        """A message has reached this node, sent by an operator on `worker` or from outside."""
        ...


class PoolNode:
    """A pool of workers over one run queue. An idle worker takes work at once."""

    def __init__(self, simulation: Simulation, number: int, queue: RunQueue) -> None:
        cluster = simulation.cluster
        self.number = number
        self.busy_time = 0.0
        self._simulation = simulation
        self._engine = simulation.engine
        self._queue = queue
        self._idle = list(range(cluster.workers - 1, -1, -1))
        self._operator: list[Operator | None] = [None] * cluster.workers
        self._held_since = [0.0] * cluster.workers
        self._dispatch = cluster.dispatch
        self._switch = cluster.switch
        self._quantum = cluster.quantum

    def add_operator(self, operator: Operator) -> None:
        self._queue.add_operator(operator)

    def submit(self, now: float, message: Message, worker: int = -1) -> None:
        self._queue.put(message, worker)
        idle = self._idle
        if idle:
            chosen = self._queue.take(idle[-1])
            if chosen is not None:  # None: its operator runs already, on another worker
                self._start(now, idle.pop(), chosen)

    def _start(self, now: float, worker: int, message: Message) -> None:
        operator = message.operator
        cost, results = operator.execute(message)
        if operator.last_worker != worker:
            cost += cost * operator.cost.locality
            operator.last_worker = worker
        cost += self._dispatch
        if self._operator[worker] is not operator:
            self._operator[worker] = operator
            self._held_since[worker] = now
            cost += self._switch
        self.busy_time += cost
        if self._simulation.on_start is not None:
            self._simulation.on_start(now, self.number, worker, message, cost)
        self._engine.at(now + cost, self._finished, (worker, message, cost, results))

    def _finished(self, now: float, run: tuple[int, Message, float, list[Result] | None]) -> None:
        worker, message, cost, results = run
        self._simulation.completed(now, message, cost, results, worker)
        expired = now - self._held_since[worker] >= self._quantum
        following = self._queue.next(worker, message.operator, expired)
        if following is None:
            self._operator[worker] = None
            self._idle.append(worker)
        else:
            if following.operator is message.operator and expired:
                self._held_since[worker] = now  # it was chosen anew: another quantum
            self._start(now, worker, following)
