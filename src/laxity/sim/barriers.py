"""A two-stage dataflow in virtual time whose operators run the real control processors.

Every source sends a part of each batch to every reducer. Control messages ride the same channels
and are handled by `laxity.control`; the simulator adds what they cost and how long they travel.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from statistics import fmean
from typing import Any

from laxity.control.draft import Draft, Plan
from laxity.control.graph import Dataflow
from laxity.control.memory import MemoryOperator
from laxity.control.messages import CONTROLLER, ControlMessage, Delivery, Kind
from laxity.control.operation import ControlOperation
from laxity.control.operations import BlockingNoOp, NoOp
from laxity.control.processor import ControlProcessor, SendMessage
from laxity.control.transition import Transition
from laxity.sim.engine import Engine

Data = tuple[float, float]
"""(when it entered, its cost at a reducer)."""


@dataclass(frozen=True)
class Costs:
    """Seconds. None of these is in the paper: a control message costs a fraction of a data message
    to handle, and travels as long."""

    control: float = 20e-6
    hop: float = 1e-3


class _Operator:
    """One core: takes messages in order of arrival from the channels that are not blocked."""

    def __init__(self, run: BarrierRun, name: str, next_order: int) -> None:
        self.run = run
        vertex = run.plan.before.vertices[name]
        self.host = MemoryOperator(vertex, run.plan.before.position, True)
        self.processor = ControlProcessor(self.host, next_order)
        self.queue: list[tuple[int, str, Any]] = []
        self.held: dict[str, list[tuple[int, str, Any]]] = {}
        self.busy = False
        self.arrived = 0

    def accept(self, now: float, item: tuple[str, Any]) -> None:
        self.arrived += 1
        heappush(self.queue, (self.arrived, *item))
        if not self.busy:
            self._next(now)

    def _next(self, now: float) -> None:
        self.busy = False
        blocked = self.processor.blocked if self.held or self.processor.visits else frozenset()
        for channel in [c for c in self.held if c not in blocked]:
            for entry in self.held.pop(channel):
                heappush(self.queue, entry)
        while self.queue:
            entry = heappop(self.queue)
            if entry[1] in blocked:
                self.held.setdefault(entry[1], []).append(entry)
                continue
            self.busy = True
            control = isinstance(entry[2], ControlMessage)
            cost = self.run.costs.control if control else entry[2][1]
            self.run.engine.at(now + cost, self._done, entry[2])
            return

    def _done(self, now: float, item: ControlMessage | Data) -> None:
        if isinstance(item, ControlMessage):
            for effect in self.processor.receive(item):
                if isinstance(effect, SendMessage):
                    self.run.send(now, effect.message)
        else:
            self.run.processed(now, item, self)
        self._next(now)


class BarrierRun:
    """Batches at a fixed rate, no-op control messages at another, for a while."""

    def __init__(
        self,
        width: int,
        load: float,
        service: float,
        control_rate: float,
        blocking: bool,
        *,
        seed: int,
        costs: Costs = Costs(),
    ) -> None:
        self.engine, self.costs = Engine(), costs
        self._random = random.Random(seed)
        graph = Dataflow.of("chi", {"s": width, "r": width}, [("s", "r")])
        self.operation: ControlOperation = BlockingNoOp() if blocking else NoOp()
        self.plan: Plan = Draft(Transition.unchanged(graph), blocking).plan()
        self.operators: Mapping[str, _Operator] = {v: _Operator(self, v, 1) for v in graph.vertices}
        self._sources, self._reducers = graph.stages["s"], graph.stages["r"]
        self._service = service
        self._interval = service * width / load
        self._control_rate = control_rate
        self.latencies: list[float] = []
        self.completions: list[float] = []
        self._sent_at: dict[int, float] = {}
        self._heard: dict[int, int] = {}
        self._order = 0

    def run(self, duration: float) -> None:
        for i, source in enumerate(self._sources):
            self.engine.at(self._interval * i / len(self._sources), self._batch, source)
        if self._control_rate:
            self.engine.at(0.1, self._control)
        self.engine.run(duration)

    def _batch(self, now: float, source: str) -> None:
        self.engine.at(now + self._random.expovariate(1 / self._interval), self._batch, source)
        self.operators[source].accept(now, ("@input", (now, self._service * 0.1)))

    def processed(self, now: float, item: Data, operator: _Operator) -> None:
        if operator.host.stage == "r":
            self.latencies.append(now - item[0])
            return
        for reducer in self._reducers:
            cost = self._service * self._random.uniform(0.5, 1.5)
            arrives = now + self.costs.hop
            self.engine.at(arrives, self.operators[reducer].accept,
                           (operator.host.name, (item[0], cost)))  # fmt: skip

    def _control(self, now: float, _: object) -> None:
        self.engine.at(now + 1 / self._control_rate, self._control)
        self._order += 1
        self._sent_at[self._order], self._heard[self._order] = now, 0
        settled = min(self._sent_at)
        for root in self.plan.roots:
            kind = Kind.BLOCKING if self.plan.blocking else Kind.NON_BLOCKING
            delivery = Delivery(f"chi#{self._order}", self._order, 1, CONTROLLER, root, settled)
            self.send(now, ControlMessage(delivery, kind, self.operation.name, {},
                                          self.plan.configurations))  # fmt: skip

    def send(self, now: float, message: ControlMessage) -> None:
        if message.destination != CONTROLLER:
            accept = self.operators[message.destination].accept
            self.engine.at(now + self.costs.hop, accept, (message.source, message))
            return
        order = message.delivery.order
        self._heard[order] += 1
        if self._heard[order] == len(self.plan.reporters):
            self.completions.append(now + self.costs.hop - self._sent_at.pop(order))


def overhead_point(
    width: int, load: float, service: float, rate: float, blocking: bool, duration: float, seed: int
) -> dict[str, float]:
    """Mean latency of data and mean completion time of control messages, in seconds."""
    run = BarrierRun(width, load, service, rate, blocking, seed=seed)
    run.run(duration)
    skip = len(run.latencies) // 5
    done = run.completions[len(run.completions) // 5 :]
    return {
        "latency": fmean(run.latencies[skip:]),
        "completion": fmean(done) if done else float("nan"),
        "operations": float(len(run.completions)),
    }
