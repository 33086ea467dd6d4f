"""The event loop: a heap of (time, sequence, function, argument).

The sequence number breaks ties by the order of scheduling, so a run depends on its seed alone.
docs/simulator.md says how far a simulation library fell short of this loop.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Handler = Callable[[float, Any], None]


class Engine:
    __slots__ = ("_heap", "_sequence", "handled", "now")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Handler, Any]] = []
        self._sequence = 0
        self.now = 0.0
        self.handled = 0
        """Events so far."""

    def at(self, instant: float, handler: Handler, argument: Any = None) -> None:
        """Call `handler(instant, argument)` when virtual time gets there."""
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (instant, sequence, handler, argument))

    def run(self, until: float) -> None:
        """Handle every event before `until`, which becomes the present."""
        heap = self._heap
        handled = 0
        while heap and heap[0][0] < until:
            instant, _, handler, argument = heappop(heap)
            self.now = instant
            handled += 1
            handler(instant, argument)
        self.handled += handled
        self.now = until
