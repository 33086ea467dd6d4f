"""What an operation's init handler fills in: the message before it has been sent to anybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from laxity.control.errors import InvalidOperationError, UnknownVertexError, UnsafeOperationError
from laxity.control.graph import Dataflow, Document
from laxity.control.instructions import MOVES_STATE, Instruction
from laxity.control.messages import CONTROLLER, Configuration
from laxity.control.transition import Transition


@dataclass
class Draft:
    """Which way the message takes, and what each operator on it is told."""

    transition: Transition
    blocking: bool
    instructions: dict[str, tuple[Instruction, ...]] = field(default_factory=dict)

    def configure(self, vertex: str, *instructions: Instruction) -> Draft:
        """Add instructions for one operator of G′."""
        if vertex not in self.transition.graph:
            raise UnknownVertexError(
                f"{vertex!r} is not on the way of this operation; there are "
                f"{', '.join(self.transition.vertices[:20])}"
            )
        self.instructions[vertex] = self.instructions.get(vertex, ()) + instructions
        return self

    def plan(self) -> Plan:
        changes_graph = self.transition.before != self.transition.after
        for vertex, given in self.instructions.items():
            for instruction in given:
                if isinstance(instruction, MOVES_STATE) and not self.blocking:
                    raise UnsafeOperationError(
                        f"{type(instruction).__name__} at {vertex!r} moves state: only a blocking "
                        f"operation may (blocking = True)"
                    )
        if changes_graph and not self.blocking:
            raise UnsafeOperationError(
                "only a blocking operation may change the graph (blocking = True)"
            )
        t = self.transition
        starting, retiring = set(t.starting), set(t.retiring)
        configurations = {
            v: Configuration(
                self.instructions.get(v, ()),
                t.inputs(v),
                t.outputs(v),
                _primary(t, v),
                v in starting,
                v in retiring,
            )
            for v in t.vertices
        }
        if not t.roots or not t.reporters:
            raise InvalidOperationError("a dataflow needs a source and a sink to be controlled")
        return Plan(self.blocking, configurations, t.roots, t.reporters, t.before, t.after)


def _primary(transition: Transition, vertex: str) -> str:
    outputs = transition.outputs(vertex)
    return CONTROLLER if CONTROLLER in outputs else outputs[0]


@dataclass(frozen=True)
class Plan:
    """A decided operation: all that is needed to send it, now or again after a restart."""

    blocking: bool
    configurations: Mapping[str, Configuration]
    roots: tuple[str, ...]
    reporters: tuple[str, ...]
    before: Dataflow
    after: Dataflow

    @property
    def starting(self) -> tuple[str, ...]:
        return tuple(v for v, c in self.configurations.items() if c.starts)

    def as_document(self) -> Document:
        same = self.before == self.after
        return {
            "blocking": self.blocking,
            "configurations": {v: c.as_document() for v, c in self.configurations.items()},
            "roots": self.roots,
            "reporters": self.reporters,
            "before": self.before.as_document(),
            "after": None if same else self.after.as_document(),
        }

    @classmethod
    def from_document(cls, document: Document) -> Plan:
        before = Dataflow.from_document(document["before"])
        after = document["after"]
        return cls(
            document["blocking"],
            {v: Configuration.from_document(c) for v, c in document["configurations"].items()},
            tuple(document["roots"]),
            tuple(document["reporters"]),
            before,
            before if after is None else Dataflow.from_document(after),
        )
