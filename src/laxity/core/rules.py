"""Priority rules: what a policy compiles a stage's situation into.

A rule is a few numbers, so it can be pushed into Spark's JVM and evaluated there for each task
set without asking Python (the paper's stateless scheduler). `evaluate` is the one evaluator in
Python; its Java twin must give the same double to the last bit, so both use the same operations
in the same order. Lower values run first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from laxity.core.errors import InvalidRuleError
from laxity.core.progress import IDENTITY, ProgressLine
from laxity.core.windows import next_boundary

MINIMUM_PRIORITY = math.inf
"""Runs only when nothing else waits (the paper's MIN_VALUE)."""


class Base(IntEnum):
    """What a rule starts from; the numbers are part of the wire format."""

    CONSTANT = 0
    ARRIVAL = 1
    FRONTIER = 2
    TOKEN = 3


CONSTANT, ARRIVAL, FRONTIER, TOKEN = Base
"""The members as plain names: looking one up in its class costs as much as an evaluation."""


class Facts(NamedTuple):
    """What is known of one message when its priority is asked for.

    `arrival` is when the newest event behind it was seen at a source. `progress` is the stream
    progress that had been seen *before* this message, so that its frontier is the earliest window
    it can help to complete; NaN where it is unknown. `token` is the tag of the message's token;
    infinite without one.
    """

    arrival: float
    progress: float = math.nan
    token: float = MINIMUM_PRIORITY


@dataclass(frozen=True, slots=True)
class PriorityRule:
    """base + offset, where base is one of four. `slide`, `origin`, `delay` and `line` describe
    the window and the progress map of a FRONTIER rule and mean nothing otherwise."""

    base: Base
    offset: float = 0.0
    slide: float = 0.0
    origin: float = 0.0
    delay: float = 0.0
    line: ProgressLine = IDENTITY

    def __post_init__(self) -> None:
        if math.isnan(self.offset) or self.offset == -math.inf:
            raise InvalidRuleError(f"offset must be a number or +inf, got {self.offset!r}")
        if self.base == Base.FRONTIER:
            window = (self.slide, self.origin, self.delay, *self.line)
            if not all(map(math.isfinite, window)) or self.slide <= 0:
                raise InvalidRuleError(
                    f"a frontier rule needs a slide above zero and finite origin, delay and "
                    f"progress line, got {window!r}"
                )

    def with_offset(self, offset: float) -> PriorityRule:
        return replace(self, offset=offset)

    def evaluate(self, facts: Facts) -> float:
        """The priority of a message: lower runs first."""
        return self.base_value(facts) + self.offset

    def base_value(self, facts: Facts) -> float:
        return self.base_at(self.frontier_time(facts.progress), facts.arrival, facts.token)

    def base_at(self, frontier_time: float, arrival: float, token: float) -> float:
        """`base_value` where the frontier time is known already: it is the same for all messages
        of a window."""
        base = self.base
        if base is CONSTANT:
            return 0.0
        if base is TOKEN:
            return token
        # The window waits for this message, so it is not complete before its arrival: after a
        # silence the line lies far in the past, and would make a message urgent beyond reason.
        return arrival if arrival > frontier_time else frontier_time

    def frontier_time(self, progress: float) -> float:
        """When the sources reach the frontier of `progress`; −∞ where this rule has no frontier
        or the progress is unknown (NaN): then the arrival decides."""
        if self.base is not FRONTIER or progress != progress:
            return -math.inf
        p0, t0, slope = self.line
        return t0 + slope * (self.frontier_progress(progress) - p0)

    def frontier_progress(self, progress: float) -> float:
        """TRANSFORM, as in `laxity.core.windows`, on this rule's numbers."""
        return next_boundary(progress - self.delay, self.slide, self.origin) + self.delay
