"""Operators as actors: what a message costs, and which results it triggers.

A windowed operator keeps one pane for each boundary that is still open: the rows in it and when
the last of them arrived. It triggers when every input channel has progressed past the boundary.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any

from laxity.core.windows import Window, next_boundary

if TYPE_CHECKING:
    from laxity.core.contexts import PriorityContext
    from laxity.sim.contexts import CostReports
    from laxity.sim.dataflow import StageCost
    from laxity.sim.jobrun import JobRun
    from laxity.sim.nodes import Node
    from laxity.sim.sources import Source

NOISE = 4096
"""Length of the table of noise factors, a power of two."""

_EPSILON = 1e-9
"""Event times are cut on a grid; this absorbs what binary fractions lose."""

_NO_PANE: tuple[float, float, list[float]] = (math.inf, -math.inf, [])
"""A pane that no message falls into."""


class Message:
    """One columnar batch on its way to an operator.

    `progress`, `since` and `arrival` are as in `laxity.core.contexts.Message`; `channel` is the
    sender's place among the operator's inputs. `source` gets its credit back.
    """

    __slots__ = (
        "arrival",
        "channel",
        "context",
        "operator",
        "progress",
        "rows",
        "since",
        "source",
    )

    def __init__(
        self,
        operator: Operator,
        channel: int,
        rows: float,
        since: float,
        progress: float,
        arrival: float,
        source: Source | None = None,
    ) -> None:
        self.operator = operator
        self.channel = channel
        self.rows = rows
        self.since = since
        self.progress = progress
        self.arrival = arrival
        self.source = source
        self.context: PriorityContext | None = None


Result = tuple[float, float, float, float]
"""What an operator emits: (since, progress, arrival of the last event in it, rows)."""


class Operator:
    """An actor. It runs one message at a time; `node` decides which."""

    __slots__ = (
        "_count",
        "_first_end",
        "_inputs",
        "_low",
        "_pane",
        "_panes",
        "bound",
        "congested",
        "cost",
        "job",
        "last_worker",
        "listed",
        "mailbox",
        "node",
        "noise",
        "number",
        "partition",
        "pending",
        "reports",
        "stage",
        "targets",
        "window",
    )

    def __init__(
        self,
        job: JobRun,
        stage: str,
        partition: int,
        window: Window | None,
        cost: StageCost,
        noise: tuple[float, ...],
        number: int,
    ) -> None:
        self.job = job
        self.stage = stage
        self.partition = partition
        self.window = window
        self.cost = cost
        self.noise = noise
        self.number = number
        """Unique in the simulation, and where this operator starts in the table of noise."""
        self.node: Node
        self.targets: list[tuple[str, list[tuple[Operator, int]]]] = []
        """For each downstream stage: operators and this operator's channel there."""
        self.mailbox: deque[Message] = deque()
        self.listed = False
        """Both for schedulers that keep an operator's messages with it."""
        self.last_worker: Any = -1
        self.reports: CostReports | None = None
        """Where what messages cost here is noted, if the scheduler wants to know."""
        self.pending = 0
        self.bound = 1
        """Pending messages above which the job's sources are held."""
        self.congested = False
        self._inputs: list[float] = []
        self._low = -math.inf
        self._panes: dict[float, list[float]] = {}
        self._pane = _NO_PANE
        self._first_end = math.inf
        self._count = number * 61

    def add_input(self) -> int:
        self._inputs.append(-math.inf)
        return len(self._inputs) - 1

    @property
    def inputs(self) -> int:
        return len(self._inputs)

    def execute(self, message: Message) -> tuple[float, list[Result] | None]:
        """What `message` costs here and the results it triggers."""
        cost = self.cost
        self._count = count = self._count + 1
        seconds = (cost.fixed + cost.per_row * message.rows) * self.noise[count & (NOISE - 1)]
        progress = message.progress
        low = self._low
        if len(self._inputs) > 1:
            low = self._advance(message.channel, progress)
        elif progress > low:
            self._low = low = progress
        window = self.window
        if window is None:
            rows = message.rows * cost.selectivity
            return seconds, [(message.since, min(progress, low), message.arrival, rows)]
        begin, end, pane = self._pane
        if begin <= message.since + _EPSILON and progress <= end + _EPSILON:
            pane[0] += message.rows
            if message.arrival > pane[1]:
                pane[1] = message.arrival
        else:
            self._open(window, message)
        if low - window.delay + _EPSILON < self._first_end:
            return seconds, None
        results = self._close(window, message, low - window.delay + _EPSILON)
        return seconds + cost.trigger * len(results), results

    def _advance(self, channel: int, progress: float) -> float:
        inputs = self._inputs
        was = inputs[channel]
        if progress > was:
            inputs[channel] = progress
            if was <= self._low:
                self._low = min(inputs)
        return self._low

    def _open(self, window: Window, message: Message) -> None:
        """Note a message in the panes it has rows for; the last one is expected again."""
        slide, origin, arrival = window.slide, window.origin, message.arrival
        end = next_boundary(message.since + _EPSILON, slide, origin)
        spanned = max(0.0, (message.progress - end) / slide)
        ends = [end] + [
            next_boundary(end + (i - 0.5) * slide, slide, origin)
            for i in range(1, math.ceil(spanned - _EPSILON) + 1)
        ]
        for end in ends:
            pane = self._panes.setdefault(end, [0.0, arrival])
            pane[0] += message.rows / len(ends)
            pane[1] = max(pane[1], arrival)
            self._pane = (end - slide, end, pane)
        self._first_end = min(self._first_end, ends[0])

    def _close(self, window: Window, message: Message, bound: float) -> list[Result]:
        panes, cost = self._panes, self.cost
        results: list[Result] = []
        for end in sorted(end for end in panes if end <= bound):
            rows, arrival = panes.pop(end)
            rows = min(rows * cost.selectivity * window.size / window.slide, cost.groups)
            if window.delay and message.arrival > arrival:
                arrival = message.arrival  # the result needed the progress this message brought
            results.append((end - window.slide, end, arrival, rows))
        self._first_end = min(panes, default=math.inf)
        if self._pane[1] <= bound:
            self._pane = _NO_PANE
        return results
