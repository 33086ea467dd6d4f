"""Algorithm 1: change the dataflow's graph and move state along, while data flows."""

from __future__ import annotations

from dataclasses import dataclass

from laxity.control.contexts import STATE, ControllerContext, OperatorContext
from laxity.control.draft import Draft
from laxity.control.errors import InvalidOperationError
from laxity.control.graph import Dataflow
from laxity.control.instructions import (
    Instruction,
    LoadFunction,
    MergeState,
    Reconnect,
    SetParameters,
    SplitState,
)
from laxity.control.keys import NO_KEY
from laxity.control.messages import ControlMessage
from laxity.control.operation import ControlOperation
from laxity.control.transition import Transition


@dataclass(frozen=True)
class Reconfiguration(ControlOperation):
    """Base of operations that lead to another graph. A derived class says to which."""

    exclusive = True

    def target(self, graph: Dataflow) -> Dataflow:
        raise InvalidOperationError(f"{type(self).__name__} must say which graph it leads to")

    def on_init_at_controller(self, ctx: ControllerContext) -> Draft:
        after = self.target(ctx.graph)
        if after == ctx.graph:
            raise InvalidOperationError(f"{self.name!r} would change nothing in {after.name!r}")
        transition = ctx.transition(after)
        draft = ctx.draft(transition)
        for vertex in transition.vertices:
            draft.configure(vertex, *self.instructions(transition, vertex))
        return draft

    def instructions(self, transition: Transition, vertex: str) -> list[Instruction]:
        """Lines 3 to 10 for one operator of G′, and its new routes."""
        before, after = (
            transition.before.vertices.get(vertex),
            transition.after.vertices.get(vertex),
        )
        found: list[Instruction] = []
        if vertex in transition.ships and before is not None:
            shares = tuple(
                (taker, before.keys & transition.after.vertices[taker].keys)
                for giver, taker in sorted(transition.state_edges)
                if giver == vertex
            )
            found.append(SplitState(after.keys if after else NO_KEY, shares))
        if after is None:
            return found
        if vertex in transition.receives:
            found.append(MergeState(after.keys))
        if before is None or before.function != after.function:
            found.append(LoadFunction(after.function))
        if before is None or before.parameters != after.parameters:
            found.append(SetParameters(after.parameters))
        routes = transition.after.routes(vertex)
        if before is None or transition.before.routes(vertex) != routes:
            found.append(Reconnect(routes))
        return found

    def on_begin_at_operator(self, ctx: OperatorContext, message: ControlMessage) -> None:
        ctx.session.incoming = []

    def on_next_at_operator(self, ctx: OperatorContext, message: ControlMessage) -> None:
        ctx.session.incoming += [
            part for name, part in message.payload.items() if name.startswith(STATE)
        ]

    def on_complete_at_operator(self, ctx: OperatorContext) -> None:
        for instruction in ctx.configuration.instructions:
            ctx.apply(instruction)
