"""Orleans' scheduler: a ConcurrentBag of operators that have messages.

Each worker has a list of its own. What an operator running on it wakes up goes there, and so
does the operator itself when its quantum ends with messages left; a worker takes the newest from
its own list. Only when that is empty does it take the oldest of what the network's threads have
put into theirs, and only then steals the oldest of another worker.
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
        return PoolNode(simulation, number, _Bag(simulation.cluster.workers))

    def contexts(self, dataflow: Dataflow, ids: Iterator[int]) -> None:
        return None


class _Bag:
    def __init__(self, workers: int) -> None:
        self._local: list[deque[Operator]] = [deque() for _ in range(workers)]
        self._network: deque[Operator] = deque()

    def add_operator(self, operator: Operator) -> None:
        pass

    def put(self, message: Message, worker: int) -> None:
        operator = message.operator
        operator.mailbox.append(message)
        if not operator.listed:
            operator.listed = True
            (self._network if worker < 0 else self._local[worker]).append(operator)

    def take(self, worker: int) -> Message | None:
        if self._local[worker]:
            return self._local[worker].pop().mailbox.popleft()
        if self._network:
            return self._network.popleft().mailbox.popleft()
        for other in self._local:
            if other:
                return other.popleft().mailbox.popleft()
        return None

    def next(self, worker: int, operator: Operator, expired: bool) -> Message | None:
        if operator.mailbox:
            if not expired:
                return operator.mailbox.popleft()
            self._local[worker].append(operator)
        else:
            operator.listed = False
        return self.take(worker)
