"""A windowed aggregation in virtual time that is changed, or loses a node, while it runs.

The operations are the library's own: real controllers, ledgers and control processors, whose
messages ride the simulated channels (`ScaleTo`, `Checkpoint`, `roll_back`). Freezing the world and
BSP are what engines without control messages do instead: stop the sources, let everything drain,
start the new graph. The simulator adds what things cost and how long they take.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from laxity.control.controller import ControllerEffect, DataflowController, StartOperators
from laxity.control.graph import Dataflow
from laxity.control.keys import SPACE, even_ranges
from laxity.control.ledger import Ledger
from laxity.control.memory import MemoryOperator
from laxity.control.messages import CONTROLLER, ControlMessage
from laxity.control.operations import Checkpoint, ScaleTo
from laxity.control.processor import ControlProcessor, SendMessage, StartData, StopData
from laxity.sim.engine import Engine

WINDOW, TICK, HOP = 1.0, 0.1, 1e-3
CONTROL, MOVE = 20e-6, 0.2
"""Seconds to handle a control message, and to cut and send a reducer's state. Assumed."""

BUFFERS = 0.5
"""Seconds of work that channels hold; beyond it sources wait (back-pressure). Assumed."""

READ = "read"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A tick's tuples of a source for one reducer."""

    window: int
    tuples: float
    life: int


@dataclass(frozen=True, slots=True)
class Way:
    """How an engine goes about a change. All in seconds."""

    name: str
    delay: float = 0.0
    """Until it can begin."""
    downtime: float | None = None
    """Without any processing, once everything has drained; None: control messages, no stop."""
    deploy: float = 0.0
    """For new operators to start, beside the old ones."""


class _Node:
    """One operator on a core: takes messages in order of arrival from channels that are free."""

    def __init__(self, run: Adapting, host: MemoryOperator, processor: ControlProcessor) -> None:
        self.run, self.host, self.processor = run, host, processor
        self._queue: list[tuple[int, str, Any]] = []
        self._held: list[tuple[int, str, Any]] = []
        self._arrived = 0
        self.busy = self.dead = False

    @property
    def idle(self) -> bool:
        return not (self.busy or self._queue or self._held)

    def accept(self, now: float, item: tuple[str, Any]) -> None:
        if self.dead:
            return
        self._arrived += 1
        heappush(self._queue, (self._arrived, *item))
        if not self.busy:
            self._next(now)

    def retry(self, now: float) -> None:
        for entry in self._held:
            heappush(self._queue, entry)
        self._held.clear()
        if not self.busy:
            self._next(now)

    def _next(self, now: float) -> None:
        while self._queue:
            entry = heappop(self._queue)
            control = isinstance(entry[2], ControlMessage)
            waits = entry[1] in self.processor.blocked or not (control or self.host.started)
            if waits:
                self._held.append(entry)
                continue
            self.busy = True
            cost = self._cost(entry[2])
            self.run.engine.at(now + cost, self._done, entry[2])
            return

    def _cost(self, item: ControlMessage | Chunk) -> float:
        if isinstance(item, Chunk):
            return item.tuples * self.run.per_tuple
        from_reducer = item.source.startswith("reduce")
        return MOVE if from_reducer and item.name == ScaleTo.name else CONTROL

    def _done(self, now: float, item: ControlMessage | Chunk) -> None:
        self.busy = False
        if self.dead:
            return
        if isinstance(item, Chunk):
            self.run.processed(now, item)
        else:
            for effect in self.processor.receive(item):
                match effect:
                    case SendMessage(message):
                        self.run.send(now, message)
                    case StartData():
                        self.host.started = True
                    case StopData():
                        self.host.started = False
        self.retry(now)


class Adapting:
    """`rate` tuples a second before the change and `later` after it, on reducers that can do
    `capacity` in all."""

    def __init__(
        self,
        way: Way,
        *,
        rate: float,
        later: float,
        capacity: float,
        reducers: int,
        sources: int = 8,
        change_at: float = 40.0,
    ) -> None:
        self.way, self.engine, self.change_at = way, Engine(), change_at
        self.per_tuple = reducers / capacity
        self._rate, self._later, self._width = rate, later, reducers
        stages = {"map": sources, "reduce": reducers}
        graph = Dataflow.of("adapting", stages, [("map", "reduce")])
        self.ledger = Ledger(graph)
        self.controller = DataflowController("main", self.ledger)
        self.nodes: dict[str, _Node] = {}
        self.latencies: dict[int, float] = {}
        """Window → its result's emission less its end."""
        self._life, self._stopped = 0, False
        self._left: dict[int, int] = {}
        self._in_flight, self._buffers = 0.0, BUFFERS * capacity
        self._build(graph)

    # What happens.

    def double(self, until: float) -> None:
        """The load doubles, and so do the reducers, each way."""
        self.engine.at(self.change_at + self.way.delay, self._scale)
        self._go(until)

    def kill(self, until: float, *, every: float, detect: float) -> None:
        """A node dies; all go back to the last checkpoint."""
        self.engine.at(5.0, self._checkpoint, every)
        self.engine.at(self.change_at, self._die)
        self.engine.at(self.change_at + detect + self.way.delay, self._roll_back)
        self._go(until)

    def _go(self, until: float) -> None:
        self.engine.at(0.0, self._tick)
        self.engine.run(until)

    def _scale(self, now: float, _: object = None) -> None:
        operation = ScaleTo("reduce", 2 * self._width, self._halves())
        if self.way.downtime is None:
            self._carry_out(now, self.controller.submit(operation, now).effects)
            return
        self._stopped = True
        self._when_drained(now, self.controller.check(operation, now).after)

    def _when_drained(self, now: float, after: Dataflow) -> None:
        if not all(node.idle for node in self.nodes.values()):
            self.engine.at(now + 0.01, self._when_drained, after)
            return
        self.engine.at(now + (self.way.downtime or 0.0), self._start_anew, after)

    def _start_anew(self, now: float, after: Dataflow) -> None:
        positions = [self._source_state(s)[READ] for s in self._sources]
        self._build(after)
        for source, read in zip(self._sources, positions, strict=True):
            self._source_state(source)[READ] = read
        self._stopped = False

    def _checkpoint(self, now: float, every: float) -> None:
        self.engine.at(now + every, self._checkpoint, every)
        if not any(node.dead for node in self.nodes.values()):
            self._carry_out(now, self.controller.submit(Checkpoint(), now).effects)

    def _die(self, now: float, _: object) -> None:
        self.nodes["reduce-0"].dead = True

    def _roll_back(self, now: float, _: object) -> None:
        rollback = self.ledger.roll_back()
        self._life += 1
        self._left.clear()
        self._in_flight = 0.0
        self._stopped = True
        saved = rollback.checkpoint
        self._build(saved.graph, rollback.epoch, rollback.next_order)
        for source in self._sources:
            self._source_state(source)[READ] = saved.snapshots[source]["offsets"][READ]
        # One node is less than there were: the rest share its work.
        self.per_tuple *= self._width / (self._width - 1)
        self.engine.at(now + (self.way.downtime or 0.0), self._resume)

    def _resume(self, now: float, _: object) -> None:
        self._stopped = False
        self._carry_out(now, self.controller.recover(now))

    # The dataflow.

    def _build(self, graph: Dataflow, epoch: int = 0, next_order: int = 1) -> None:
        self.nodes = {}
        for vertex in graph.vertices.values():
            host = MemoryOperator(vertex, graph.position, True)
            host.reconnect(graph.routes(vertex.name))
            self.nodes[vertex.name] = _Node(self, host, ControlProcessor(host, next_order, epoch))
        self._sources = graph.stages["map"]
        for source in self._sources:
            self.nodes[source].host.state["offsets"] = {READ: 0}

    def _source_state(self, source: str) -> dict[str, Any]:
        return self.nodes[source].host.state["offsets"]

    def _tick(self, now: float, _: object = None) -> None:
        self.engine.at(now + TICK, self._tick)
        self._pump(now)
        self._close_windows(now)

    def _pump(self, now: float) -> None:
        """Sources send what has arrived and was not sent yet, as far as buffers take it."""
        arrived = int(now / TICK + 1e-9)
        while not self._stopped and self._in_flight < self._buffers:
            source = min(self._sources, key=lambda s: self._source_state(s)[READ])
            state = self._source_state(source)
            if state[READ] >= arrived:
                return
            self._emit(now, source, state[READ])
            state[READ] += 1

    def _emit(self, now: float, source: str, tick: int) -> None:
        at = tick * TICK
        rate = self._rate if at < self.change_at else self._later
        window = int(at / WINDOW + 1e-9)
        for route in self.nodes[source].host.routes["reduce"]:
            tuples = rate * TICK / len(self._sources) * route.keys.width / SPACE
            self._left[window] = self._left.get(window, 0) + 1
            self._in_flight += tuples
            accept = self.nodes[route.to[0]].accept
            self.engine.at(now + HOP, accept, (source, Chunk(window, tuples, self._life)))

    def processed(self, now: float, chunk: Chunk) -> None:
        if chunk.life != self._life:
            return
        self._left[chunk.window] -= 1
        self._in_flight -= chunk.tuples
        self._close_windows(now)
        if self._in_flight < self._buffers:
            self._pump(now)

    def _close_windows(self, now: float) -> None:
        read = min(self._source_state(s)[READ] for s in self._sources)
        for window in [w for w, left in self._left.items() if left == 0]:
            if read * TICK + 1e-9 >= (window + 1) * WINDOW:
                del self._left[window]
                self.latencies.setdefault(window, now - (window + 1) * WINDOW)

    # Control messages.

    def _carry_out(self, now: float, effects: Iterable[ControllerEffect]) -> None:
        later = now
        for effect in effects:
            match effect:
                case StartOperators(vertices, order, epoch):
                    later = now + self.way.deploy
                    for vertex in vertices:
                        host = MemoryOperator(vertex, self.ledger.graph.position, False)
                        processor = ControlProcessor(host, order, epoch)
                        self.nodes[vertex.name] = _Node(self, host, processor)
                case SendMessage(message):  # once those who shall get it are there
                    self.engine.at(later, self._send_later, message)

    def _send_later(self, now: float, message: ControlMessage) -> None:
        self.send(now, message)

    def send(self, now: float, message: ControlMessage) -> None:
        if message.destination == CONTROLLER:
            self.engine.at(now + HOP, self._report, message)
        elif message.destination in self.nodes:
            accept = self.nodes[message.destination].accept
            self.engine.at(now + HOP, accept, (message.source, message))

    def _report(self, now: float, message: ControlMessage) -> None:
        self._carry_out(now, self.controller.receive(message, now))

    def _halves(self) -> dict[str, list[list[int]]]:
        """Each reducer keeps the first half of its keys, and a newcomer takes the second."""
        graph = self.ledger.graph
        joining, _ = graph.fresh_names("reduce", self._width)
        parts = even_ranges(2 * self._width)
        names = [v.name for v in graph.stage("reduce")]
        shares = {name: parts[2 * i] for i, name in enumerate(names)}
        shares |= {name: parts[2 * i + 1] for i, name in enumerate(joining)}
        return {name: [list(i) for i in keys.intervals] for name, keys in shares.items()}
