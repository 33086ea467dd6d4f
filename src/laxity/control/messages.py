"""Control messages (figure 6): delivery metadata, a configuration for each operator, a payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from laxity.control.graph import Document
from laxity.control.instructions import Instruction, as_document, from_document

CONTROLLER = "@controller"
"""The controller's end of a channel; no operator can be named like this."""


class Kind(Enum):
    BLOCKING = "blocking"
    """The channel it came on waits until the operator has finished its control actions."""

    NON_BLOCKING = "non-blocking"

    DISPOSE = "dispose"
    """The operation is over: release what was kept for it, in case it had to be restarted."""

    CANCEL = "cancel"
    """The operation is given up: forget it, wherever it stands, and let its channels go."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What exactly-once, in-order delivery and restarts need to know."""

    operation: str
    """The operation's unique identifier."""

    order: int
    """Its place in the one order of all operations of this dataflow: sources process them in it,
    so no two operators can see two operations in different orders."""

    attempt: int
    """1 at first, and one more after each time-out. Operators that have finished answer a later
    attempt with what they sent before, and do nothing else."""

    source: str
    destination: str
    settled_before: int = 0
    """All operations with a lower order are over."""

    epoch: int = 0
    """How often the dataflow has been rolled back: what an earlier life sent counts no more."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What one operator must know of an operation: what to do, whom to wait for, whom to tell."""

    instructions: tuple[Instruction, ...] = ()
    inputs: tuple[str, ...] = ()
    """Wait for a message from each of these."""

    outputs: tuple[str, ...] = ()
    """Send a message to each of these once complete; the controller among them for sinks."""

    primary: str | None = None
    """The one output that carries what is aggregated on the way, so that nothing counts twice."""

    starts: bool = False
    """The operator is new: it processes no data before it has completed."""

    retires: bool = False
    """The operator is not in the new graph: it processes no data after it has completed."""

    def as_document(self) -> Document:
        return {
            "instructions": [as_document(i) for i in self.instructions],
            "inputs": self.inputs,
            "outputs": self.outputs,
            "primary": self.primary,
            "starts": self.starts,
            "retires": self.retires,
        }

    @classmethod
    def from_document(cls, document: Document) -> Configuration:
        return cls(
            tuple(from_document(i) for i in document["instructions"]),
            tuple(document["inputs"]),
            tuple(document["outputs"]),
            document["primary"],
            document["starts"],
            document["retires"],
        )


Payload = Mapping[str, Any]
"""What operators attach for those after them: name → data."""


@dataclass(frozen=True, slots=True)
class ControlMessage:
    delivery: Delivery
    kind: Kind
    name: str
    """Which operation class handles it."""

    arguments: Mapping[str, Any]
    """The operation's own fields."""

    configurations: Mapping[str, Configuration]
    payload: Payload = field(default_factory=dict)
    bundle: tuple[tuple[str, Payload], ...] = ()
    """Reports of several sinks that an aggregation tree has gathered."""

    @property
    def blocking(self) -> bool:
        return self.kind is Kind.BLOCKING

    @property
    def source(self) -> str:
        return self.delivery.source

    @property
    def destination(self) -> str:
        return self.delivery.destination

    @property
    def configuration(self) -> Configuration:
        """The destination's own."""
        return self.configurations.get(self.destination, Configuration())

    def forwarded(
        self, source: str, destination: str, payload: Payload | None = None
    ) -> ControlMessage:
        """The same message on its next channel."""
        return replace(
            self,
            delivery=replace(self.delivery, source=source, destination=destination),
            payload=payload or {},
        )

    def at_attempt(self, attempt: int) -> ControlMessage:
        return replace(self, delivery=replace(self.delivery, attempt=attempt))
