"""A dataflow in memory, one step at a time: the smallest engine the control plane runs on.

Which step comes next is the caller's choice, so a test can try any interleaving and repeat it. It
keeps to what Chi asks of an engine: channels are in order and lose nothing while both ends live, an
operator does one thing at a time. An operator that crashes loses its state and its channels.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from laxity.control.controller import (
    ControllerEffect,
    DataflowController,
    OperationCompleted,
    StartOperators,
)
from laxity.control.errors import ProtocolError, UnknownParameterError
from laxity.control.graph import Route, Vertex
from laxity.control.host import StatePart
from laxity.control.instructions import Custom
from laxity.control.keys import KeyRange, Positioner, hashed
from laxity.control.ledger import Ledger
from laxity.control.messages import CONTROLLER, ControlMessage, Delivery
from laxity.control.operation import ControlOperation
from laxity.control.processor import (
    ControlProcessor,
    Effect,
    RemoveOperator,
    SendMessage,
    StartData,
    StopData,
)
from laxity.control.trees import Gatherer, Relay, Tree, is_tree_node


@dataclass(frozen=True, slots=True)
class Item:
    """A data message."""

    id: str
    key: str
    value: Any = None
    trail: tuple[Any, ...] = ()
    """What functions note on it, for tests that ask which way it went."""

    side: str = ""
    """The stage it was sent by."""


Tables = dict[str, dict[str, Any]]
"""State: table → key → value."""

Function = Callable[["MemoryOperator", Item], Iterable[Item]]

OFFSETS = "offsets"
"""Sources keep what they have read as state: partition → offset. So a source's partitions move,
and roll back, with its keys."""


class MemoryOperator:
    """An `OperatorHost` whose state is a dictionary."""

    def __init__(self, vertex: Vertex, position: Positioner, started: bool) -> None:
        self.name = vertex.name
        self.stage = vertex.stage
        self.function = vertex.function
        self.parameters: dict[str, Any] = dict(vertex.parameters)
        self.routes: Mapping[str, tuple[Route, ...]] = {}
        self.state: Tables = {}
        self.started = started
        self.processed = 0
        self._position = position

    def split_state(self, keep: KeyRange, share: KeyRange) -> StatePart:
        part: Tables = {}
        for table, rows in self.state.items():
            for key in [k for k in rows if self._position(k) in share]:
                part.setdefault(table, {})[key] = rows.pop(key)
        return part

    def spread_state(
        self, table: str, keys: KeyRange, among: tuple[str, ...], to_all: bool
    ) -> Mapping[str, StatePart]:
        parts: dict[str, Tables] = {name: {table: {}} for name in among if name != self.name}
        rows = self.state.get(table, {})
        for key in [k for k in rows if self._position(k) in keys]:
            for name, part in parts.items():
                part[table][key] = [
                    row for row in rows[key] if to_all or among[share_of(row[0], among)] == name
                ]
            if not to_all:
                rows[key] = [r for r in rows[key] if among[share_of(r[0], among)] == self.name]
        return parts

    def merge_state(self, part: StatePart, keys: KeyRange | None) -> None:
        for table, rows in part.items():
            for key, value in rows.items():
                if keys is not None and self._position(key) not in keys:
                    raise ProtocolError(f"{self.name!r} was sent state of {key!r}, not its own")
                if key in self.state.setdefault(table, {}):
                    raise ProtocolError(f"{self.name!r} has state of {key!r} already")
                self.state[table][key] = value

    def load_function(self, function: str) -> None:
        self.function = function

    def set_parameters(self, values: Mapping[str, Any]) -> None:
        self.parameters.update(values)

    def reconnect(self, routes: Mapping[str, tuple[Route, ...]]) -> None:
        self.routes = routes

    def perform(self, instruction: Custom) -> Any:
        raise UnknownParameterError(f"{self.name!r} cannot perform {instruction.name!r}")

    def snapshot(self) -> Any:
        return json.loads(json.dumps(self.state))

    def metrics(self) -> Mapping[str, Any]:
        keys = {key for rows in self.state.values() for key in rows}
        return {"processed": self.processed, "keys": len(keys)}

    def targets(self, item: Item) -> Iterator[str]:
        """Where an item of this operator goes."""
        position = self._position(item.key)
        for routes in self.routes.values():
            for route in routes:
                if position in route.keys:
                    if route.to_all:
                        yield from route.to
                    else:
                        yield route.to[share_of(item.id, route.to)]


def share_of(id_: str, among: Sequence[str]) -> int:
    """Which of several an item goes to: the same for the item and for its row in a state."""
    return hashed(id_) % len(among)


Step = tuple[str, ...]
"""What can happen next, as plain data: ("take", from, to), ("read", source, partition), …"""


class MemoryDataflow:
    """A running dataflow with its controllers."""

    def __init__(
        self,
        ledger: Ledger,
        functions: Mapping[str, Function],
        inputs: Mapping[str, Sequence[Item]],
        *,
        capacity: int | None = None,
        timeout: float | None = 100.0,
        fan_out: int | None = None,
    ) -> None:
        """`inputs`: partition, named `key@stage` → items; a source reads those it owns."""
        self.ledger = ledger
        self._functions = functions
        self._inputs = inputs
        self._capacity = capacity
        self._timeout = timeout
        self._fan_out = fan_out
        self._position = ledger.graph.position
        self.now = 0.0
        self.operators: dict[str, MemoryOperator] = {}
        self.processors: dict[str, ControlProcessor] = {}
        self.channels: dict[tuple[str, str], deque[Item | ControlMessage]] = {}
        self.controllers: dict[str, DataflowController] = {}
        self.dead: set[str] = set()
        self.completed: list[str] = []
        self.log: list[tuple[str, str, str]] = []
        """(operator, operation, what): "complete" of each operator in its order."""
        self._gatherers: dict[tuple[str, tuple[str, ...]], Gatherer] = {}
        self._launch({}, ledger.epoch, ledger.next_order)
        self._place_partitions()

    # -- starting ------------------------------------------------------------------------------

    def _launch(self, snapshots: Mapping[str, Any], epoch: int, next_order: int) -> None:
        graph = self.ledger.checkpoint().graph
        self.operators, self.processors, self.dead = {}, {}, set()
        # What is under way between controllers and operators survives, from an earlier life.
        self.channels = {
            ends: channel
            for ends, channel in self.channels.items()
            if set(ends) & set(self.controllers)
        }
        self._gatherers = {}
        for vertex in graph.vertices.values():
            operator = self._add(vertex, next_order, epoch, started=True)
            operator.reconnect(graph.routes(vertex.name))
            operator.state = json.loads(json.dumps(snapshots.get(vertex.name, {})))

    def _add(self, vertex: Vertex, order: int, epoch: int, *, started: bool) -> MemoryOperator:
        operator = MemoryOperator(vertex, self._position, started)
        self.operators[vertex.name] = operator
        self.processors[vertex.name] = ControlProcessor(operator, order, epoch)
        return operator

    def _place_partitions(self) -> None:
        """Each partition belongs to the source that owns its key; from the start."""
        graph = self.ledger.checkpoint().graph
        for stage in {graph.vertices[s].stage for s in graph.sources}:
            for partition in self._inputs:
                if not partition.endswith(f"@{stage}"):
                    continue
                for vertex in graph.stage(stage):
                    if self._position(partition) in vertex.keys:
                        offsets = self.operators[vertex.name].state.setdefault(OFFSETS, {})
                        offsets.setdefault(partition, 0)

    def controller(self, name: str) -> DataflowController:
        """A controller of this dataflow; made when first asked for."""
        if name not in self.controllers:
            self.controllers[name] = DataflowController(name, self.ledger, timeout=self._timeout)
        return self.controllers[name]

    def submit(
        self, operation: ControlOperation, *, controller: str = "main", queue: bool = False
    ) -> str | None:
        """Send an operation; its id, or None if it waits in the queue."""
        submitted = self.controller(controller).submit(operation, self.now, queue=queue)
        self._carry_out_controller(submitted.effects, controller)
        return submitted.entry.id if submitted.entry else None

    def cancel(self, operation: str) -> None:
        """Give up an operation that is under way."""
        name = self.ledger.entry(operation).controller
        self._carry_out_controller(self.controllers[name].cancel(operation, self.now), name)

    # -- steps ---------------------------------------------------------------------------------

    def steps(self) -> list[Step]:
        """All that could happen next, in a fixed order."""
        found: list[Step] = []
        for name, operator in self.operators.items():
            if name not in self.dead and operator.started and self._has_room(name):
                if CONTROLLER in self.processors[name].blocked:
                    continue
                for partition, offset in operator.state.get(OFFSETS, {}).items():
                    if offset < len(self._inputs[partition]):
                        found.append(("read", name, partition))
        for (source, target), channel in self.channels.items():
            if channel and self._can_take(source, target, channel[0]):
                found.append(("take", source, target))
        if self.dead:
            found.append(("recover",))
        return found

    def _can_take(self, source: str, target: str, first: Item | ControlMessage) -> bool:
        if target in self.controllers or is_tree_node(target):
            return True
        if target in self.dead or target not in self.processors:
            return False
        if isinstance(first, ControlMessage):
            return first.source not in self.processors[target].blocked
        operator = self.operators[target]
        return (
            source not in self.processors[target].blocked
            and operator.started
            and self._has_room(target)
        )

    def _has_room(self, name: str) -> bool:
        if self._capacity is None:
            return True
        return all(
            len(channel) < self._capacity
            for (source, _), channel in self.channels.items()
            if source == name
        )

    def step(self, step: Step) -> None:
        """Let one thing happen."""
        self.now += 1.0
        match step:
            case ("read", name, partition):
                offsets = self.operators[name].state[OFFSETS]
                item = self._inputs[partition][offsets[partition]]
                offsets[partition] += 1
                self._process(name, item)
            case ("take", source, target):
                self._deliver(source, target, self.channels[source, target].popleft())
            case ("recover",):
                self.recover()
            case ("tick",):
                self.tick()
            case _:
                raise ProtocolError(f"no such step: {step}")

    def run(self, choose: Callable[[list[Step]], Step] | None = None, limit: int = 10_000) -> None:
        """Until nothing more can happen. Time-outs only expire when all else has: whatever was
        lost, is lost for good by then."""
        for _ in range(limit):
            possible = self.steps()
            if not possible:
                if not any(c.busy for c in self.controllers.values()):
                    return
                self.tick()
                if not self.steps():
                    raise ProtocolError("the dataflow is stuck: an operation never completes")
                continue
            self.step(choose(possible) if choose else possible[0])
        raise ProtocolError(f"the dataflow has not come to rest after {limit} steps")

    def tick(self) -> None:
        """Let enough time pass for every time-out."""
        self.now += self._timeout or 0.0
        for name, controller in self.controllers.items():
            self._carry_out_controller(controller.tick(self.now), name)

    # -- failures ------------------------------------------------------------------------------

    def crash(self, name: str) -> None:
        """An operator dies with its state and all that was on its channels."""
        self.dead.add(name)
        for ends, channel in self.channels.items():
            if name in ends:
                channel.clear()

    def crash_controller(self, name: str) -> None:
        """A controller dies; a new instance takes over with what is in the store."""
        self.controllers[name] = DataflowController(name, self.ledger, timeout=self._timeout)
        for ends, channel in self.channels.items():
            if name in ends:
                channel.clear()
        self._carry_out_controller(self.controllers[name].recover(self.now), name)

    def lose(self, source: str, target: str) -> bool:
        """The network between a controller and an operator loses all that is under way."""
        channel = self.channels.get((source, target))
        if not channel or not {source, target} & set(self.controllers):
            return False
        channel.clear()
        return True

    def recover(self) -> None:
        """Checkpoint and replay, the default answer to an operator's failure: everybody goes back
        to the last checkpoint, sources read again from there, lost operations are sent again."""
        rollback = self.ledger.roll_back()
        saved = rollback.checkpoint
        self._launch(saved.snapshots, rollback.epoch, rollback.next_order)
        if not saved.snapshots:
            self._place_partitions()
        for name, controller in self.controllers.items():
            self._carry_out_controller(controller.recover(self.now), name)

    # -- carrying out --------------------------------------------------------------------------

    def _deliver(self, source: str, target: str, first: Item | ControlMessage) -> None:
        if isinstance(first, Item):
            if not self.operators[target].started:
                raise ProtocolError(f"data reached {target!r}, which has retired")
            self._process(target, first)
        elif target in self.controllers:
            self._carry_out_controller(self.controllers[target].receive(first, self.now), target)
        elif is_tree_node(target):
            self._through_tree(source, target, first)
        else:
            before = self.processors[target].visits
            effects = self.processors[target].receive(first)
            for operation, phase in self.processors[target].visits.items():
                if before.get(operation) != phase:
                    self.log.append((target, operation, phase.value))
            self._carry_out(target, effects)

    def _process(self, name: str, item: Item) -> None:
        operator = self.operators[name]
        operator.processed += 1
        for produced in self._functions[operator.function](operator, item):
            sent = replace(produced, side=operator.stage)
            for target in operator.targets(sent):
                self._channel(name, target).append(sent)

    def _carry_out(self, name: str, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendMessage(message):
                    self._send(name, message)
                case StartData():
                    self.operators[name].started = True
                case StopData():
                    self.operators[name].started = False
                case RemoveOperator():
                    self._remove(name)

    def _carry_out_controller(self, effects: Iterable[ControllerEffect], name: str) -> None:
        for effect in effects:
            match effect:
                case StartOperators(vertices, order, epoch):
                    for vertex in vertices:
                        if vertex.name not in self.operators:
                            self._add(vertex, order, epoch, started=False)
                case SendMessage(message):
                    self._send(name, message)
                case OperationCompleted(entry):
                    self.completed.append(entry.id)

    def _send(self, source: str, message: ControlMessage) -> None:
        target = message.destination
        if target == CONTROLLER:
            owner = self.ledger.entry(message.delivery.operation).controller
            if self._fan_out is not None:
                tree = self._tree(message.delivery, up=True)
                target = tree.above(source) if source in tree.leaves else CONTROLLER
            target = owner if target == CONTROLLER else target
        elif source in self.controllers and self._fan_out is not None:
            self._broadcast(source, message)
            return
        if target in self.operators or target in self.controllers or is_tree_node(target):
            self._channel(source, target).append(message)

    # -- trees: between controllers and operators --------------------------------------------------

    def _tree(self, delivery: Delivery, *, up: bool) -> Tree:
        plan = self.ledger.plan(delivery.operation)
        assert self._fan_out is not None
        return Tree(plan.reporters if up else plan.roots, self._fan_out)

    def _broadcast(self, source: str, message: ControlMessage) -> None:
        """The controller names every root; one message for each of its children is enough."""
        tree = self._tree(message.delivery, up=False)
        if message.destination == tree.leaves[0]:
            for child in tree.top:
                self._channel(source, child).append(message.forwarded(CONTROLLER, child))

    def _through_tree(self, source: str, node: str, message: ControlMessage) -> None:
        down = message.source == CONTROLLER
        tree = self._tree(message.delivery, up=not down)
        if down:
            sends = Relay(node, tree).receive(message)
        else:
            gatherer = self._gatherers.setdefault((node, tree.leaves), Gatherer(node, tree))
            sends = gatherer.receive(message)
        for send in sends:
            target = send.message.destination
            if target == CONTROLLER:
                target = self.ledger.entry(message.delivery.operation).controller
            self._channel(node, target).append(send.message)

    def _remove(self, name: str) -> None:
        for (source, target), channel in list(self.channels.items()):
            if target == name:
                if any(isinstance(item, Item) for item in channel):
                    raise ProtocolError(f"{name!r} leaves with data still to process")
                del self.channels[source, target]
        if any(self.operators[name].state.get(table) for table in self.operators[name].state):
            raise ProtocolError(f"{name!r} leaves with state that nobody took over")
        del self.operators[name], self.processors[name]

    def _channel(self, source: str, target: str) -> deque[Item | ControlMessage]:
        return self.channels.setdefault((source, target), deque())

    # -- looking ---------------------------------------------------------------------------------

    def state(self, table: str) -> dict[str, Any]:
        """A table over all operators that hold a part of it."""
        found: dict[str, Any] = {}
        for operator in self.operators.values():
            for key, value in operator.state.get(table, {}).items():
                if key in found:
                    raise ProtocolError(f"two operators hold {key!r} of {table!r}")
                found[key] = value
        return found
