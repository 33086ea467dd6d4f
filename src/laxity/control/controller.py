"""A dataflow controller: decides, sends, and gathers (phases I and III of a control loop).

Like the operators' processor it does no input or output: whatever happens is passed in with the
time, and effects come back for the engine to carry out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from laxity.control.contexts import ControllerContext
from laxity.control.draft import Plan
from laxity.control.errors import OperationInProgressError, UnsupportedInstructionError
from laxity.control.graph import Vertex
from laxity.control.instructions import instruction_name
from laxity.control.ledger import Entry, Ledger
from laxity.control.machines import AT_CONTROLLER, Machine, Phase, Step
from laxity.control.messages import CONTROLLER, ControlMessage, Delivery, Kind
from laxity.control.operation import ControlOperation, check_operation, operation_from
from laxity.control.processor import SendMessage
from laxity.core.errors import LaxityError


@dataclass(frozen=True, slots=True)
class StartOperators:
    """Make these operators of the new graph. They get control messages at once, data only after
    `StartData`. Ones that exist already (after a restart) are left alone."""

    vertices: tuple[Vertex, ...]
    order: int
    epoch: int


@dataclass(frozen=True, slots=True)
class OperationCompleted:
    entry: Entry


ControllerEffect = SendMessage | StartOperators | OperationCompleted


@dataclass
class _Running:
    operation: ControlOperation
    plan: Plan
    entry: Entry
    machine: Machine
    context: ControllerContext
    epoch: int
    sent_at: float


@dataclass(frozen=True, slots=True)
class Submitted:
    """An operation that has been accepted. Queued ones have no entry yet."""

    entry: Entry | None
    effects: tuple[ControllerEffect, ...]


class DataflowController:
    """One of the controllers of a dataflow; all of them share its ledger."""

    def __init__(
        self,
        name: str,
        ledger: Ledger,
        *,
        timeout: float | None = None,
        capabilities: frozenset[str] | None = None,
    ) -> None:
        """`timeout`: send an operation again that has not completed after so many seconds.
        `capabilities`: names of the instructions that the engine can carry out, if not all."""
        self.name = name
        self.ledger = ledger
        self._timeout = timeout
        self._capabilities = capabilities
        self._running: dict[str, _Running] = {}
        self.refused: list[tuple[str, LaxityError]] = []
        """Queued operations that no longer made sense when their turn came."""
        self.on_completed: Callable[[Entry], None] | None = None

    def submit(
        self, operation: ControlOperation, now: float, *, by: str = "", queue: bool = False
    ) -> Submitted:
        """Check an operation, plan it, write it down, send it. What is wrong is raised before
        anything has changed. `queue`: wait for an exclusive operation in progress, not refuse."""
        check_operation(operation)
        try:
            entry, effects = self._start(operation, now, by)
        except OperationInProgressError:
            if not queue:
                raise
            waits = {"name": operation.name, "arguments": operation.arguments(), "by": by}
            self.ledger.set_queue(self.name, [*self.ledger.queue(self.name), waits])
            return Submitted(None, ())
        return Submitted(entry, tuple(effects))

    def check(self, operation: ControlOperation, now: float) -> Plan:
        """What `submit` would do, without doing it."""
        check_operation(operation)
        return self._plan(operation, now)[0]

    def receive(self, message: ControlMessage, now: float) -> list[ControllerEffect]:
        """A report has come from a sink, or several from an aggregation tree."""
        running = self._running.get(message.delivery.operation)
        if running is None or message.delivery.epoch != running.epoch:
            return []  # a repetition of what is over, or of an earlier life
        effects: list[ControllerEffect] = []
        reports = message.bundle or ((message.source, message.payload),)
        for sink, payload in reports:
            if running.machine.phase is Phase.COMPLETED:
                break
            effects += self._report(running, message.forwarded(sink, CONTROLLER, payload), now)
        return effects

    def tick(self, now: float) -> list[ControllerEffect]:
        """Time has passed: send again what has timed out, start what was queued."""
        effects: list[ControllerEffect] = []
        for running in list(self._running.values()):
            if self._timeout is not None and now - running.sent_at >= self._timeout:
                running.entry = self.ledger.restart(running.entry.id)
                running.sent_at = now
                effects += self._send(running)
        return effects + self._start_queued(now)

    def cancel(self, operation: str, now: float) -> list[ControllerEffect]:
        """Give up an operation under way, so that nobody waits for it any more. Only one that
        changes nothing: of another, some operators may have carried out their part."""
        entry = self.ledger.cancel(operation, now)
        running = self._running.pop(operation, None)
        plan = running.plan if running is not None else self.ledger.plan(operation)
        if running is not None:
            running.machine.step(Step.CANCEL)
            running.operation.on_dispose_at_controller(running.context)
        delivery = Delivery(
            entry.id, entry.order, entry.attempt, CONTROLLER, "", 0, self.ledger.epoch
        )
        message = ControlMessage(
            delivery, Kind.CANCEL, entry.name, entry.arguments, plan.configurations
        )
        sends = [SendMessage(message.forwarded(CONTROLLER, root)) for root in plan.roots]
        return [*sends, *self._start_queued(now)]

    @property
    def next_awake(self) -> float | None:
        """When `tick` has something to do, if nothing happens before."""
        if self._timeout is None or not self._running:
            return None
        return min(running.sent_at for running in self._running.values()) + self._timeout

    @property
    def busy(self) -> bool:
        return bool(self._running or self.ledger.queue(self.name))

    def recover(self, now: float) -> list[ControllerEffect]:
        """Take up what the ledger says this controller has under way: after its own failure, or
        after a rollback of the dataflow."""
        effects: list[ControllerEffect] = []
        epoch = self.ledger.epoch
        under_way = {entry.id for entry in self.ledger.running()}
        for id_ in [id_ for id_ in self._running if id_ not in under_way]:
            over = self._running.pop(id_)  # the checkpoint rolled back to contains it
            over.operation.on_dispose_at_controller(over.context)
        for entry in self.ledger.running():
            known = self._running.get(entry.id)
            if entry.controller != self.name or (known is not None and known.epoch == epoch):
                continue
            if known is None:
                entry = self.ledger.restart(entry.id)
            operation = operation_from(entry.name, entry.arguments)
            plan = self.ledger.plan(entry.id)
            context = ControllerContext(plan.before, now, operation.blocking)
            running = self._track(operation, plan, entry, context, now)
            effects += self._send(running)
        return effects

    def _start(
        self, operation: ControlOperation, now: float, by: str
    ) -> tuple[Entry, list[ControllerEffect]]:
        if operation.exclusive and (other := self.ledger.exclusive_running()) is not None:
            raise OperationInProgressError(
                f"{other} is in progress on {self.ledger.dataflow!r}; wait for it, or submit "
                f"{operation.name!r} with queue=True"
            )
        plan, context = self._plan(operation, now)
        entry = self.ledger.admit(self.name, operation, plan, now, by)
        running = self._track(operation, plan, entry, context, now)
        return entry, self._send(running)

    def _plan(self, operation: ControlOperation, now: float) -> tuple[Plan, ControllerContext]:
        context = ControllerContext(self.ledger.graph, now, operation.blocking)
        plan = operation.on_init_at_controller(context).plan()
        if self._capabilities is not None:
            for vertex, configuration in plan.configurations.items():
                for name in map(instruction_name, configuration.instructions):
                    if name not in self._capabilities:
                        can = ", ".join(sorted(self._capabilities)) or "nothing"
                        raise UnsupportedInstructionError(
                            f"{operation.name!r} needs {name} at {vertex!r}, which this engine "
                            f"cannot do; it can do {can}"
                        )
        return plan, context

    def _track(
        self,
        operation: ControlOperation,
        plan: Plan,
        entry: Entry,
        context: ControllerContext,
        now: float,
    ) -> _Running:
        where = f"{entry.id} at controller {self.name!r}"
        machine = Machine(AT_CONTROLLER, Phase.CREATED, frozenset(plan.reporters), where)
        machine.step(Step.INIT)
        epoch = self.ledger.epoch
        running = _Running(operation, plan, entry, machine, context, epoch, now)
        self._running[entry.id] = running
        return running

    def _send(self, running: _Running) -> list[ControllerEffect]:
        plan, entry = running.plan, running.entry
        effects: list[ControllerEffect] = []
        if plan.starting:
            vertices = tuple(plan.after.vertices[v] for v in plan.starting)
            effects.append(StartOperators(vertices, entry.order, running.epoch))
        kind = Kind.BLOCKING if plan.blocking else Kind.NON_BLOCKING
        return effects + [SendMessage(self._message(running, kind, v)) for v in plan.roots]

    def _message(self, running: _Running, kind: Kind, destination: str) -> ControlMessage:
        entry = running.entry
        return ControlMessage(
            Delivery(
                entry.id,
                entry.order,
                entry.attempt,
                CONTROLLER,
                destination,
                self.ledger.settled_before(),
                running.epoch,
            ),
            kind,
            entry.name,
            entry.arguments,
            {} if kind is Kind.DISPOSE else running.plan.configurations,
        )

    def _report(
        self, running: _Running, message: ControlMessage, now: float
    ) -> list[ControllerEffect]:
        machine, context = running.machine, running.context
        context.now = now
        if not machine.hear(message.source):
            return []
        if machine.phase is Phase.SENT:
            machine.step(Step.BEGIN)
            running.operation.on_begin_at_controller(context, message)
        machine.step(Step.NEXT)
        running.operation.on_next_at_controller(context, message)
        return self._complete(running, now) if machine.all_heard else []

    def _complete(self, running: _Running, now: float) -> list[ControllerEffect]:
        running.operation.on_complete_at_controller(running.context)
        running.machine.step(Step.COMPLETE)
        context = running.context
        entry = self.ledger.complete(running.entry.id, now, context.result, context.snapshots)
        running.entry = entry
        effects: list[ControllerEffect] = [OperationCompleted(entry)]
        effects += [
            SendMessage(self._message(running, Kind.DISPOSE, v)) for v in running.plan.roots
        ]
        running.operation.on_dispose_at_controller(context)
        running.machine.step(Step.DISPOSE)
        del self._running[entry.id]
        if self.on_completed is not None:
            self.on_completed(entry)
        return effects + self._start_queued(now)

    def _start_queued(self, now: float) -> list[ControllerEffect]:
        effects: list[ControllerEffect] = []
        while waiting := self.ledger.queue(self.name):
            first = waiting[0]
            try:
                operation = operation_from(first["name"], first["arguments"])
                _, started = self._start(operation, now, first["by"])
            except OperationInProgressError:
                break
            except LaxityError as error:
                # What it was meant for has changed while it waited; the others still count.
                self.refused.append((first["name"], error))
                started = []
            self.ledger.set_queue(self.name, waiting[1:])
            effects += started
        return effects
