"""Sources: batches in event time, arriving later, held back when their job is full."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from laxity.sim.operators import Message

if TYPE_CHECKING:
    from laxity.sim.dataflow import SourceSpec
    from laxity.sim.operators import Operator
    from laxity.sim.simulation import Simulation

_CATCH_UP = 2.0


class Source:
    """Sends batch n, which covers event time ((n − 1) · interval, n · interval].

    It may have as many batches under way as a mailbox holds. Without credit, or while an
    operator further down its job is full, it waits. What it has not sent is not kept anywhere,
    because batch n can be made at any time: it reads a log, from which it catches up at
    `_CATCH_UP` times its usual pace.
    """

    __slots__ = (
        "_at",
        "_batch",
        "_lag",
        "_operator",
        "_random",
        "_simulation",
        "_spec",
        "_transfer",
        "_volume",
        "blocked",
        "contexts",
        "credit",
        "job",
        "sent",
    )

    def __init__(
        self, simulation: Simulation, operator: Operator, spec: SourceSpec, random: Random
    ) -> None:
        self._simulation = simulation
        self._at = simulation.engine.at
        self._operator = operator
        self.job = operator.job
        self._spec = spec
        self._random = random.random
        self._volume = None if spec.volume is None else partial(spec.volume, random)
        self._lag = spec.delay + simulation.cluster.network_delay
        self._transfer = simulation.cluster.network_delay
        contexts = operator.job.contexts
        self.contexts = None if contexts is None else contexts.sources[operator.job.id_of(operator)]
        self.credit = simulation.cluster.mailbox
        self.blocked = False
        self.sent = 0
        self._batch = int(spec.start / spec.interval)
        self._plan(0.0)

    def _plan(self, now: float) -> None:
        """Schedule the next batch's arrival, after the one at `now`: channels are FIFO."""
        spec = self._spec
        self._batch = batch = self._batch + 1
        cut = batch * spec.interval
        if cut > spec.stop:
            return
        arrival = cut + self._lag + spec.jitter * self._random()
        if arrival <= now:
            arrival = now + spec.interval / _CATCH_UP
        self._at(arrival, self._arrive, None)

    def _arrive(self, now: float, _: object) -> None:
        if self.credit <= 0 or self.job.congested:
            if not self.blocked:
                self.blocked = True
                self.job.blocked.append(self)
            return
        self.credit -= 1
        self.sent += 1
        spec = self._spec
        progress = self._batch * spec.interval
        since = progress - spec.interval
        rows = spec.rows if self._volume is None else self._volume(progress)
        message = Message(self._operator, 0, rows, since, progress, now, self)
        if self.contexts is not None:
            message.context = self.contexts.build(message)
        self._simulation.submitted += 1
        self._operator.pending += 1
        self._operator.node.submit(now, message)
        self._plan(now)

    def give_back(self, now: float) -> None:
        """A batch was processed: its credit returns, and a source that waited goes on."""
        self.credit += 1
        if self.blocked and not self.job.congested:
            self.resume(now)

    def resume(self, now: float) -> None:
        self.blocked = False
        self.job.blocked.remove(self)
        self._at(now + self._transfer, self._arrive, None)

    def behind(self, now: float) -> float:
        """Seconds by which the next batch is late because the source was held back."""
        spec = self._spec
        cut = self._batch * spec.interval
        return 0.0 if cut > spec.stop else max(0.0, now - cut - self._lag - spec.jitter)
