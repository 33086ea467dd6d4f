"""Orleans' scheduler: a ConcurrentBag of operators that have messages.

A bag keeps a list for each thread; a thread takes the newest of its own and, when that is empty,
the oldest of another's. What matters is who adds. In Orleans 1.5.2, which the paper compares with:

- A message wakes its operator from the thread that receives messages, and one sent on the same
  node is looped back to that thread too (`OutboundMessageQueue.SendMessage`,
  `IncomingMessageAgent.EnqueueReceiveMessage`). So operators that wake up are served in the order
  they woke, by whichever worker is free first.
- A worker adds only the operator that it has run for a quantum and that has messages left
  (`WorkItemGroup.Execute`). That is then the newest of its own list, and what it takes next.

So an operator, once taken, keeps its worker until it has no messages: no list need be kept.
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


class Orleans:
    name = "orleans"

    def node(self, simulation: Simulation, number: int) -> PoolNode:
        return PoolNode(simulation, number, _Bag())

    def contexts(self, dataflow: Dataflow, ids: Iterator[int]) -> None:
        return None


class _Bag:
    """`operator.listed`: it waits among the woken, or runs."""

    def __init__(self) -> None:
        self._woken: deque[Operator] = deque()

    def add_operator(self, operator: Operator) -> None:
        pass

    def put(self, message: Message, worker: int) -> None:
        operator = message.operator
        operator.mailbox.append(message)
        if not operator.listed:
            operator.listed = True
            self._woken.append(operator)

    def take(self, worker: int) -> Message | None:
        return self._woken.popleft().mailbox.popleft() if self._woken else None

    def next(self, worker: int, operator: Operator, expired: bool) -> Message | None:
        if operator.mailbox:
            return operator.mailbox.popleft()
        operator.listed = False
        return self.take(worker)
