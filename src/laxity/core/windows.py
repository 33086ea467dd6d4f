"""Windows over logical time, and TRANSFORM: which progress will trigger a windowed operator.

Cameo §4.3, step 1. Logical time (`progress`) is in seconds of the stream's own time domain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from laxity.core.durations import Duration, parse_duration, parse_target
from laxity.core.errors import InvalidWindowError


@dataclass(frozen=True, slots=True)
class Window:
    """Windows of `size`, one ending every `slide`, one of them at `origin`.

    A result for the window that ends at W is due once the stream's progress reaches W + `delay`
    (`delay` is a watermark's allowance for late events; zero where there is none). Where `slide`
    divides `size`, as it nearly always does, windows start at these moments too.
    """

    size: float
    slide: float
    origin: float = 0.0
    delay: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.size) and self.size > 0):
            raise InvalidWindowError(f"window size must be above zero, got {self.size!r}")
        if not 0 < self.slide <= self.size:
            raise InvalidWindowError(
                f"slide must be above zero and at most the window size {self.size!r}, "
                f"got {self.slide!r}"
            )
        if not (math.isfinite(self.origin) and math.isfinite(self.delay) and self.delay >= 0):
            raise InvalidWindowError(
                f"window origin must be finite and delay not negative, "
                f"got {self.origin!r} and {self.delay!r}"
            )

    @classmethod
    def tumbling(cls, size: Duration, *, origin: float = 0.0, delay: Duration = 0.0) -> Window:
        """Windows that follow each other without overlap."""
        width = parse_target(size, name="window size")
        return cls(width, width, origin, parse_duration(delay, name="window delay"))

    @classmethod
    def sliding(
        cls, size: Duration, slide: Duration, *, origin: float = 0.0, delay: Duration = 0.0
    ) -> Window:
        """Windows of `size`, one every `slide`."""
        return cls(
            parse_target(size, name="window size"),
            parse_target(slide, name="slide"),
            origin,
            parse_duration(delay, name="window delay"),
        )

    def next_end(self, progress: float) -> float:
        """The end of the earliest window that `progress` has not completed yet."""
        return next_boundary(progress - self.delay, self.slide, self.origin)

    def frontier(self, progress: float) -> float:
        """The progress that completes that window: its end plus the allowance for late events."""
        return self.next_end(progress) + self.delay


def next_boundary(progress: float, slide: float, origin: float = 0.0) -> float:
    """(⌊(p − origin) / slide⌋ + 1) · slide + origin: the first window boundary after `progress`.

    The Java twin of the rule evaluator repeats these operations in this order, to the bit.
    """
    return (math.floor((progress - origin) / slide) + 1.0) * slide + origin


def transform(progress: float, upstream_slide: float, window: Window | None) -> float:
    """TRANSFORM: the frontier progress of a message that has seen `progress`.

    Regular operators (`window` is None) trigger at once. A windowed operator triggers at its
    next boundary, unless the message comes from an operator that already emits at this pace or
    a slower one: then each message completes a window.
    """
    if window is None or upstream_slide >= window.slide:
        return progress
    return window.frontier(progress)
