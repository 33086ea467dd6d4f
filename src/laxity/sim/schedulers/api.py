"""What a scheduler is: a maker of nodes, and of contexts where it wants them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from laxity.sim.contexts import JobContexts
    from laxity.sim.dataflow import Dataflow
    from laxity.sim.nodes import Node
    from laxity.sim.operators import Message, Operator
    from laxity.sim.simulation import Simulation


class Scheduler(Protocol):
    """A way to share nodes between operators. An object serves one run after another; all state
    of a run is in the nodes it makes."""

    @property
    def name(self) -> str: ...

    def node(self, simulation: Simulation, number: int) -> Node: ...

    def contexts(self, dataflow: Dataflow, ids: Iterator[int]) -> JobContexts | None:
        """What messages carry for this scheduler; None if it looks at nothing but arrival."""
        ...


class RunQueue(Protocol):
    """Decides what a worker of a node runs next. Never hands out an operator twice at a time."""

    def add_operator(self, operator: Operator) -> None: ...

    def put(self, message: Message, worker: int) -> None:
        """A message has come: sent by an operator on `worker` of this node, or over the network
        (−1)."""
        ...

    def take(self, worker: int) -> Message | None:
        """Work for an idle worker."""
        ...

    def next(self, worker: int, operator: Operator, expired: bool) -> Message | None:
        """`operator`'s message is done: what its worker runs now. `expired` tells that the
        operator has held the worker for a quantum."""
        ...
