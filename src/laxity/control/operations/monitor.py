"""Monitoring in the data plane (Chi §5): measurements are gathered along the dataflow."""

from __future__ import annotations

from dataclasses import dataclass

from laxity.control.contexts import ControllerContext, OperatorContext
from laxity.control.messages import ControlMessage
from laxity.control.operation import ControlOperation

_METRICS = "metrics"


@dataclass(frozen=True)
class Monitor(ControlOperation):
    """Result: operator → its metrics. Nobody is asked twice and nothing waits: each operator
    passes what it has heard, and its own, on to one of its outputs."""

    only: tuple[str, ...] = ()
    """Names of metrics to collect; all if empty."""

    name = "monitor"
    blocking = False

    def on_begin_at_operator(self, ctx: OperatorContext, message: ControlMessage) -> None:
        ctx.session.gathered = {}

    def on_next_at_operator(self, ctx: OperatorContext, message: ControlMessage) -> None:
        ctx.session.gathered.update(message.payload.get(_METRICS, {}))

    def on_complete_at_operator(self, ctx: OperatorContext) -> None:
        own = {k: v for k, v in ctx.metrics().items() if not self.only or k in self.only}
        ctx.attach_once(_METRICS, {**ctx.session.gathered, ctx.name: own})

    def on_begin_at_controller(self, ctx: ControllerContext, message: ControlMessage) -> None:
        ctx.session.gathered = {}

    def on_next_at_controller(self, ctx: ControllerContext, message: ControlMessage) -> None:
        ctx.session.gathered.update(message.payload.get(_METRICS, {}))

    def on_complete_at_controller(self, ctx: ControllerContext) -> None:
        ctx.result = dict(sorted(ctx.session.gathered.items()))
