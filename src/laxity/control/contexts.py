"""What handlers are given: the context of one operation at the controller, or at one operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from laxity.control.draft import Draft
from laxity.control.errors import UnsafeOperationError
from laxity.control.graph import Dataflow
from laxity.control.host import OperatorHost
from laxity.control.instructions import (
    Custom,
    Instruction,
    LoadFunction,
    MergeState,
    Reconnect,
    SetParameters,
    SplitState,
    SpreadState,
)
from laxity.control.messages import Configuration
from laxity.control.operation import Session
from laxity.control.transition import Dependencies, Transition


@dataclass
class ControllerContext:
    """At the controller: the dataflow as it is, and the result to be."""

    graph: Dataflow
    now: float
    blocking: bool
    session: Session = field(default_factory=Session)
    result: Any = None
    """What the operation found out or did; JSON data, kept in the history."""

    snapshots: Mapping[str, Any] | None = None
    """Set by an operation that has made a checkpoint: operator → its snapshot."""

    def draft(self, transition: Transition | None = None) -> Draft:
        return Draft(transition or Transition.unchanged(self.graph), self.blocking)

    def transition(self, after: Dataflow, dependencies: Dependencies | None = None) -> Transition:
        """The pruned meta-topology from the dataflow as it is to another."""
        return Transition.between(self.graph, after, dependencies)


@dataclass
class OperatorContext:
    """At an operator. State may be touched while `may_touch_state`, which for a safe operation
    is inside its complete handler."""

    host: OperatorHost
    configuration: Configuration
    session: Session = field(default_factory=Session)
    may_touch_state: bool = False
    attachments: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.configuration.outputs

    def attach(self, name: str, data: Any, to: str | None = None) -> None:
        """Put data into the payload for one output, or for all of them."""
        for output in self.outputs if to is None else (to,):
            self.attachments.setdefault(output, {})[name] = data

    def attach_once(self, name: str, data: Any) -> None:
        """Put data onto one way to the controller only, so that it arrives there once."""
        assert self.configuration.primary is not None
        self.attach(name, data, self.configuration.primary)

    def snapshot(self) -> Any:
        self._state("take a snapshot")
        return self.host.snapshot()

    def metrics(self) -> Mapping[str, Any]:
        return self.host.metrics()

    def apply(self, instruction: Instruction) -> Any:
        """Carry out an instruction; what it ships is attached for the operators meant."""
        match instruction:
            case SplitState(keep, shares):
                self._state("split its state")
                for to, keys in shares:
                    self.attach(STATE, self.host.split_state(keep, keys), to)
            case SpreadState(table, keys, among, to_all):
                self._state("spread its state")
                for to, part in self.host.spread_state(table, keys, among, to_all).items():
                    self.attach(f"{STATE}:{table}", part, to)
            case MergeState(keys):
                self._state("merge state")
                for part in self.session.incoming:
                    self.host.merge_state(part, keys)
            case LoadFunction(function):
                self.host.load_function(function)
            case SetParameters(values):
                self.host.set_parameters(values)
            case Reconnect(routes):
                self.host.reconnect(routes)
            case Custom():
                return self.host.perform(instruction)
        return None

    def _state(self, what: str) -> None:
        if not self.may_touch_state:
            raise UnsafeOperationError(
                f"operator {self.name!r} was to {what} outside on_complete_at_operator; move it "
                f"there, or give up safety with reads_state_anywhere = True"
            )


STATE = "state"
"""Payload entries that start with this are pieces of state."""
