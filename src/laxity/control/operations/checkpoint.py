"""A consistent copy of all operators' state, taken while data flows."""

from __future__ import annotations

from dataclasses import dataclass

from laxity.control.contexts import ControllerContext, OperatorContext
from laxity.control.messages import ControlMessage
from laxity.control.operation import ControlOperation

_SNAPSHOTS = "snapshots"


@dataclass(frozen=True)
class Checkpoint(ControlOperation):
    """Each operator takes its snapshot when the barrier has passed on all its inputs, so each
    snapshot reflects exactly the tuples that came before the barrier."""

    name = "checkpoint"

    def on_begin_at_operator(self, ctx: OperatorContext, message: ControlMessage) -> None:
        ctx.session.gathered = {}

    def on_next_at_operator(self, ctx: OperatorContext, message: ControlMessage) -> None:
        ctx.session.gathered.update(message.payload.get(_SNAPSHOTS, {}))

    def on_complete_at_operator(self, ctx: OperatorContext) -> None:
        ctx.attach_once(_SNAPSHOTS, {**ctx.session.gathered, ctx.name: ctx.snapshot()})

    def on_begin_at_controller(self, ctx: ControllerContext, message: ControlMessage) -> None:
        ctx.session.gathered = {}

    def on_next_at_controller(self, ctx: ControllerContext, message: ControlMessage) -> None:
        ctx.session.gathered.update(message.payload.get(_SNAPSHOTS, {}))

    def on_complete_at_controller(self, ctx: ControllerContext) -> None:
        ctx.snapshots = ctx.session.gathered
        ctx.result = sorted(ctx.session.gathered)
