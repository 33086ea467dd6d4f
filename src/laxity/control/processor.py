"""The control processor of an operator (figure 5b): control messages in, effects out.

It holds the state machine of each operation that passes through, calls the operation's handlers,
and says which channels must wait. It does no input or output: the engine around it does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from laxity.control.contexts import OperatorContext
from laxity.control.host import OperatorHost
from laxity.control.machines import AT_OPERATOR, Machine, Phase, Step
from laxity.control.messages import CONTROLLER, ControlMessage, Kind
from laxity.control.operation import ControlOperation, operation_from


@dataclass(frozen=True, slots=True)
class SendMessage:
    """Put a message onto the channel to its destination, behind the data already there."""

    message: ControlMessage


@dataclass(frozen=True, slots=True)
class StartData:
    """The operator is part of the new graph: process data from now on."""


@dataclass(frozen=True, slots=True)
class StopData:
    """The operator is not part of the new graph: there will be no more data."""


@dataclass(frozen=True, slots=True)
class RemoveOperator:
    """The operator is not needed any more, not even for a restart."""


Effect = SendMessage | StartData | StopData | RemoveOperator


@dataclass
class _Visit:
    """An operation at this operator."""

    operation: ControlOperation
    machine: Machine
    context: OperatorContext
    first: ControlMessage
    attempt: int
    sent: tuple[ControlMessage, ...] = ()
    """Kept until disposed: what a restart is answered with."""

    holding: set[str] = field(default_factory=set)


class ControlProcessor:
    """One for each operator. `held_back` keeps operations of several controllers in order."""

    def __init__(self, host: OperatorHost, next_order: int = 1, epoch: int = 0) -> None:
        self._host = host
        self._epoch = epoch
        self._visits: dict[str, _Visit] = {}
        self._next_order = next_order
        self._held_back: dict[int, ControlMessage] = {}
        self._settled_before = 0
        self._retired = False
        self._over: set[int] = set()
        """Orders of operations that were disposed of before earlier ones: a repetition that is
        still under way on another channel must not begin them again."""

    @property
    def blocked(self) -> frozenset[str]:
        """Channels, by their source, from which nothing may be taken now."""
        return frozenset(c for visit in self._visits.values() for c in visit.holding)

    @property
    def visits(self) -> dict[str, Phase]:
        """The operations that are known here, and how far they are."""
        return {name: visit.machine.phase for name, visit in self._visits.items()}

    def receive(self, message: ControlMessage) -> list[Effect]:
        """A control message has come to the front of its channel."""
        if message.delivery.epoch != self._epoch:
            return []  # sent before a rollback
        if message.source == CONTROLLER and message.kind is not Kind.DISPOSE:
            effects = self._in_order(message)
        else:
            effects = self._take(message)
        while self._next_order in self._held_back and CONTROLLER not in self.blocked:
            effects += self._take(self._held_back.pop(self._next_order))
            self._next_order += 1
        return effects

    def _in_order(self, message: ControlMessage) -> list[Effect]:
        """Sources take operations in their one order, whichever controller was faster."""
        order = message.delivery.order
        if order > self._next_order:
            self._held_back[order] = message
            return []
        self._next_order = max(self._next_order, order + 1)
        return self._take(message)

    def _take(self, message: ControlMessage) -> list[Effect]:
        if message.kind is Kind.CANCEL:
            return self._cancel(message)
        effects: list[Effect] = []
        if message.kind is Kind.DISPOSE:
            over = self._visits.get(message.delivery.operation)
            effects += self._dispose(over, message) if over else []
        if message.delivery.settled_before > self._settled_before:
            self._settled_before = message.delivery.settled_before
            self._over = {order for order in self._over if order >= self._settled_before}
            for visit in list(self._visits.values()):
                if visit.first.delivery.order < self._settled_before:
                    effects += self._dispose(visit, forward=None)
        if message.kind is Kind.DISPOSE:
            return effects
        order = message.delivery.order
        if order < self._settled_before or order in self._over:
            return effects  # a repetition of what is over
        known = self._visits.get(message.delivery.operation)
        if known is None:
            known = self._begin(message)
        elif known.machine.phase is Phase.COMPLETED:
            return effects + self._repeat(known, message)
        known.attempt = max(known.attempt, message.delivery.attempt)
        if known.machine.hear(message.source):
            if message.blocking:
                known.holding.add(message.source)
            known.machine.step(Step.NEXT)
            known.operation.on_next_at_operator(known.context, message)
            if known.machine.all_heard:
                effects += self._complete(known)
        return effects

    def _begin(self, message: ControlMessage) -> _Visit:
        configuration = message.configuration
        operation = operation_from(message.name, message.arguments)
        where = f"{message.delivery.operation} at {self._host.name!r}"
        machine = Machine(AT_OPERATOR, Phase.WAITING, frozenset(configuration.inputs), where)
        context = OperatorContext(self._host, configuration)
        context.may_touch_state = operation.reads_state_anywhere
        visit = _Visit(operation, machine, context, message, message.delivery.attempt)
        self._visits[message.delivery.operation] = visit
        machine.step(Step.BEGIN)
        operation.on_begin_at_operator(context, message)
        return visit

    def _complete(self, visit: _Visit) -> list[Effect]:
        context = visit.context
        context.may_touch_state = True
        visit.operation.on_complete_at_operator(context)
        context.may_touch_state = visit.operation.reads_state_anywhere
        visit.machine.step(Step.COMPLETE)
        visit.sent = tuple(
            visit.first.forwarded(
                self._host.name, output, context.attachments.get(output)
            ).at_attempt(visit.attempt)
            for output in context.outputs
        )
        visit.holding.clear()
        effects: list[Effect] = [SendMessage(message) for message in visit.sent]
        if context.configuration.starts:
            effects.append(StartData())
        if context.configuration.retires:
            effects.append(StopData())
        return effects

    def _repeat(self, visit: _Visit, message: ControlMessage) -> list[Effect]:
        if message.delivery.attempt <= visit.attempt:
            return []
        visit.attempt = message.delivery.attempt
        return [SendMessage(sent.at_attempt(visit.attempt)) for sent in visit.sent]

    def _cancel(self, message: ControlMessage) -> list[Effect]:
        """Forget the operation and pass the word on, once. It comes by channels that do not wait
        for the operation: those that do are let go here."""
        order = message.delivery.order
        if order in self._over or order < self._settled_before:
            return []
        self._over.add(order)
        visit = self._visits.pop(message.delivery.operation, None)
        if visit is not None:
            visit.machine.step(Step.CANCEL)
            visit.operation.on_dispose_at_operator(visit.context)
        return [
            SendMessage(message.forwarded(self._host.name, output))
            for output in message.configuration.outputs
            if output != CONTROLLER
        ]

    def _dispose(self, visit: _Visit, forward: ControlMessage | None) -> list[Effect]:
        """Release what was kept. An operation that has not completed here cannot be over."""
        visit.machine.step(Step.DISPOSE)
        visit.operation.on_dispose_at_operator(visit.context)
        del self._visits[visit.first.delivery.operation]
        self._over.add(visit.first.delivery.order)
        effects: list[Effect] = []
        if forward is not None:
            effects += [
                SendMessage(forward.forwarded(self._host.name, output))
                for output in visit.context.outputs
                if output != CONTROLLER
            ]
        self._retired = self._retired or visit.context.configuration.retires
        if self._retired and not self._visits:  # an earlier operation may still be sent again
            effects.append(RemoveOperator())
        return effects
