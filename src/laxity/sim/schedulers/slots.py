"""Slot-based systems: each operator in a thread of its own, the kernel shares the cores fairly.

With n threads ready on c cores each runs at speed min(1, c/n): processor sharing. Virtual time
(the work that every ready thread has been given) turns that into one heap of finish times a
node. More threads than cores cost a context switch every time slice.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from laxity.sim.dataflow import Dataflow
    from laxity.sim.operators import Message, Operator, Result
    from laxity.sim.simulation import Simulation


class Slots:
    name = "slots"

    def node(self, simulation: Simulation, number: int) -> SlotNode:
        return SlotNode(simulation, number)

    def contexts(self, dataflow: Dataflow, ids: Iterator[int]) -> None:
        return None


class SlotNode:
    """`operator.listed`: its thread is running."""

    def __init__(self, simulation: Simulation, number: int) -> None:
        cluster = simulation.cluster
        self.number = number
        self.busy_time = 0.0
        self._simulation = simulation
        self._engine = simulation.engine
        self._cores = cluster.workers
        self._dispatch = cluster.dispatch
        self._wake = cluster.switch
        self._crowded = 1.0 - cluster.switch / (cluster.switch + cluster.time_slice)
        self._running: list[tuple[float, int, Message, float, list[Result] | None]] = []
        self._served = 0.0
        self._as_of = 0.0
        self._started = 0
        self._alarm = 0

    def add_operator(self, operator: Operator) -> None:
        pass

    def submit(self, now: float, message: Message, worker: int = -1) -> None:
        operator = message.operator
        if operator.listed:
            operator.mailbox.append(message)
            return
        operator.listed = True
        self._advance(now)
        self._start(now, message, woken=True)
        self._set_alarm(now)

    def _speed(self) -> float:
        ready = len(self._running)
        return 1.0 if ready <= self._cores else self._cores / ready * self._crowded

    def _advance(self, now: float) -> None:
        elapsed = now - self._as_of
        self._served += elapsed * self._speed()
        self.busy_time += elapsed * min(len(self._running), self._cores)
        self._as_of = now

    def _start(self, now: float, message: Message, *, woken: bool) -> None:
        cost, results = message.operator.execute(message)
        cost += self._dispatch + (self._wake if woken else 0.0)
        self._started += 1
        if self._simulation.on_start is not None:
            self._simulation.on_start(now, self.number, -1, message, cost)
        heappush(self._running, (self._served + cost, self._started, message, cost, results))

    def _set_alarm(self, now: float) -> None:
        """One event for the next thread to finish; an older one finds its number outdated."""
        self._alarm += 1
        if self._running:
            left = max(0.0, self._running[0][0] - self._served) / self._speed()
            self._engine.at(now + left, self._ring, self._alarm)

    def _ring(self, now: float, alarm: int) -> None:
        if alarm != self._alarm:
            return
        self._advance(now)
        finish, _, message, cost, results = heappop(self._running)
        self._served = max(self._served, finish)
        operator = message.operator
        self._simulation.completed(now, message, cost, results, -1)
        if operator.mailbox:
            self._start(now, operator.mailbox.popleft(), woken=False)
        else:
            operator.listed = False
        self._set_alarm(now)
