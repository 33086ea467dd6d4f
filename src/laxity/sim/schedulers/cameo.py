"""Cameo: the core's converters give priorities, the core's queue orders by them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from laxity.core.costs import Perturbation
from laxity.core.policies.api import Policy
from laxity.core.policies.deadline import LeastLaxityFirst
from laxity.core.queue import TwoLevelQueue
from laxity.sim.contexts import JobContexts
from laxity.sim.nodes import PoolNode

if TYPE_CHECKING:
    from laxity.sim.dataflow import Dataflow
    from laxity.sim.operators import Message, Operator
    from laxity.sim.simulation import Simulation


class Cameo:
    def __init__(
        self,
        policy: Policy | None = None,
        *,
        perturb: Perturbation | None = None,
        name: str | None = None,
    ) -> None:
        self.policy = policy or LeastLaxityFirst()
        self.name = name or ("cameo" if policy is None else f"cameo-{self.policy.name}")
        self._perturb = perturb

    def node(self, simulation: Simulation, number: int) -> PoolNode:
        return PoolNode(simulation, number, _PriorityQueue())

    def contexts(self, dataflow: Dataflow, ids: Iterator[int]) -> JobContexts:
        return JobContexts(
            dataflow.job, self.policy, ids, tokens=dataflow.tokens, perturb=self._perturb
        )


class _PriorityQueue:
    def __init__(self) -> None:
        self._queue: TwoLevelQueue[Message] = TwoLevelQueue()
        # Looked up once, because they are called for each message.
        self._push, self._pop = self._queue.push, self._queue.pop

    def add_operator(self, operator: Operator) -> None:
        self._queue.add_operator(operator, operator.job.name)

    def put(self, message: Message, worker: int) -> None:
        context = message.context
        assert context is not None, "Cameo schedules by contexts"
        self._push(message.operator, message, context.local, context.priority)

    def take(self, worker: int) -> Message | None:
        chosen = self._pop()
        return None if chosen is None else chosen[1]

    def next(self, worker: int, operator: Operator, expired: bool) -> Message | None:
        """Peek and swap (§5.2): within its quantum an operator goes on, then the most urgent."""
        if not expired and (own := self._queue.pop_from(operator)) is not None:
            return own[1]
        chosen = self._queue.release_and_pop(operator)
        return None if chosen is None else chosen[1]
