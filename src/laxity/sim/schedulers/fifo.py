"""The paper's FIFO: operators with messages queue up globally, whoever came first runs first.

An operator that still has messages after its quantum goes to the end of the queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from laxity.sim.nodes import PoolNode

if TYPE_CHECKING:
    from laxity.sim.dataflow import Dataflow
    from laxity.sim.operators import Message, Operator
    from laxity.sim.simulation import Simulation


class Fifo:
    name = "fifo"

    def node(self, simulation: Simulation, number: int) -> PoolNode:
        return PoolNode(simulation, number, _OperatorQueue())

    def contexts(self, dataflow: Dataflow, ids: Iterator[int]) -> None:
        return None


class _OperatorQueue:
    """`operator.listed`: it waits in the queue, or runs."""

    def __init__(self) -> None:
        self._ready: deque[Operator] = deque()

    def add_operator(self, operator: Operator) -> None:
        pass

    def put(self, message: Message, worker: int) -> None:
        operator = message.operator
        operator.mailbox.append(message)
        if not operator.listed:
            operator.listed = True
            self._ready.append(operator)

    def take(self, worker: int) -> Message | None:
        return self._ready.popleft().mailbox.popleft() if self._ready else None

    def next(self, worker: int, operator: Operator, expired: bool) -> Message | None:
        if operator.mailbox:
            if not expired:
                return operator.mailbox.popleft()
            self._ready.append(operator)
        else:
            operator.listed = False
        return self.take(worker)
