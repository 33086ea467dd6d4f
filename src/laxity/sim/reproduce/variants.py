"""Schedulers as the paper might also be read, run only to show what hangs on the reading."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from laxity.sim.nodes import PoolNode

if TYPE_CHECKING:
    from laxity.sim.dataflow import Dataflow
    from laxity.sim.operators import Message, Operator
    from laxity.sim.simulation import Simulation


class MessageFifo:
    """FIFO of messages, not of operators: an operator stands in the queue once for each message.
    The paper says "we insert operators into the global run queue and extract them in FIFO order",
    not how often."""

    name = "fifo by message"

    def node(self, simulation: Simulation, number: int) -> PoolNode:
        return PoolNode(simulation, number, _MessageQueue())

    def contexts(self, dataflow: Dataflow, ids: Iterator[int]) -> None:
        return None


class _MessageQueue:
    """`operator.listed`: it runs, and its messages are passed over."""

    def __init__(self) -> None:
        self._waiting: deque[Message] = deque()

    def add_operator(self, operator: Operator) -> None:
        pass

    def put(self, message: Message, worker: int) -> None:
        self._waiting.append(message)

    def take(self, worker: int) -> Message | None:
        for at, message in enumerate(self._waiting):
            if not message.operator.listed:
                del self._waiting[at]
                message.operator.listed = True
                return message
        return None

    def next(self, worker: int, operator: Operator, expired: bool) -> Message | None:
        operator.listed = False
        return self.take(worker)
