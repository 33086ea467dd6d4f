"""What a streaming query means for its schedule: when its results leave, and what steers it.

Pure data, so that the simulator, the server and tests can hold it without Spark. Reading it off
a query's plan is `laxity.spark.plan`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from laxity.core.durations import Duration, format_duration, parse_duration, parse_target
from laxity.core.errors import LaxityError
from laxity.core.windows import Window

# Triggers whose own promise leaves no room to hold a batch back or to resize it.
_HANDS_OFF = frozenset({"available-now", "once", "continuous", "real-time"})


class InvalidOverrideError(LaxityError, ValueError):
    """The user's own words on a query's windows contradict each other or the query."""


@dataclass(frozen=True, slots=True)
class WindowColumn:
    """A time window in the plan, in seconds: rows of [start + k·slide, start + k·slide + size)."""

    column: str
    size: float
    slide: float
    start: float = 0.0

    def with_delay(self, delay: float) -> Window:
        """As the core sees it, which counts window *ends* from the origin.

        Ends lie at start + size + k·slide: off the grid of starts where the slide does not
        divide the size.
        """
        origin = (self.start + self.size) % self.slide
        return Window(self.size, self.slide, origin, delay)

    def __str__(self) -> str:
        text = f"{self.column}: {format_duration(self.size)}"
        if self.slide != self.size:
            text += f" every {format_duration(self.slide)}"
        if self.start:
            text += f" from {format_duration(self.start)}"
        return text


@dataclass(frozen=True, slots=True)
class Source:
    """One source of the query, and how much of it a batch may take.

    `limit_by` is what a batch of it can be limited by: "rows", "files", "bytes", or None where
    nothing can be. `limit` is the user's own limit in that unit, never to be exceeded.
    """

    description: str
    class_name: str
    limit_by: str | None = None
    limit: int | None = None

    def __str__(self) -> str:
        if self.limit_by is None:
            return f"{self.description} (no batch limit)"
        own = "none of its own" if self.limit is None else f"{self.limit} by the user"
        return f"{self.description} (limit by {self.limit_by}, {own})"


@dataclass(frozen=True, slots=True)
class Semantics:
    """A query's meaning as read from its plan, or as the user corrected it.

    `window` is the one that decides when results leave; None means a regular operator, whose
    every batch emits. Durations are seconds, and windows and operators go from source to sink.
    """

    output_mode: str
    window: Window | None = None
    windows: tuple[WindowColumn, ...] = ()
    watermark_delays: tuple[tuple[str, float], ...] = ()
    event_time: bool = False
    stateful: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    sink: str = "unknown"
    trigger: str = "unknown"
    only_streams: bool = False
    """Is all it reads a stream, its sink no code of the user's, and no table read on the side?"""
    notes: tuple[str, ...] = ()

    @property
    def paced_by_laxity(self) -> bool:
        """May its batches be held back and resized? Not where the trigger promises otherwise."""
        return self.trigger not in _HANDS_OFF

    def facts(self) -> list[tuple[str, str]]:
        """What was read, as (label, text)."""
        watermarks = (f"{name} − {format_duration(delay)}" for name, delay in self.watermark_delays)
        return [
            ("results leave", _when(self.window)),
            ("output mode", self.output_mode),
            ("windows", "; ".join(map(str, self.windows))),
            ("watermark", "; ".join(watermarks)),
            ("state", ", ".join(self.stateful)),
            ("sources", "; ".join(map(str, self.sources))),
            ("sink", self.sink),
            ("trigger", self.trigger),
        ]

    def describe(self) -> str:
        """A few lines for people."""
        lines = [f"{label:<14} {text or '–'}" for label, text in self.facts()]
        return "\n".join([*lines, *(f"· {note}" for note in self.notes)])


def _when(window: Window | None) -> str:
    if window is None:
        return "with every batch"
    every = f"every {format_duration(window.slide)} of event time"
    if not window.delay:
        return f"{every}, once a window of {format_duration(window.size)} ends"
    late = format_duration(window.delay)
    return f"{every}, {late} after a window of {format_duration(window.size)} ends"


def apply_override(
    semantics: Semantics,
    *,
    window: Duration | None = None,
    slide: Duration | None = None,
    delay: Duration | None = None,
    regular: bool = False,
) -> Semantics:
    """The user knows better: a window size, slide or delay, or that every batch emits.

    What is not given is kept from the plan. A new `window` without a `slide` is a tumbling one,
    and its delay is the plan's watermark.
    """
    if regular:
        given = {"window": window, "slide": slide, "delay": delay}
        if clash := [name for name, value in given.items() if value is not None]:
            raise InvalidOverrideError(
                f"regular=True means every batch emits, so {clash[0]}={given[clash[0]]!r} has no "
                f"meaning beside it: give one or the other"
            )
        note = "You said: every batch emits its results."
        return replace(semantics, window=None, notes=(*semantics.notes, note))
    if window is None and slide is None and delay is None:
        return semantics
    chosen = _corrected(semantics, window, slide, delay)
    note = f"You said: results leave {_when(chosen)}."
    return replace(semantics, window=chosen, notes=(*semantics.notes, note))


def _corrected(
    semantics: Semantics, window: Duration | None, slide: Duration | None, delay: Duration | None
) -> Window:
    known = semantics.window
    if window is not None:
        size = parse_target(window, name="window")
        late = max((seconds for _, seconds in semantics.watermark_delays), default=0.0)
        known = Window(size, size, 0.0, known.delay if known is not None else late)
    elif known is None:
        name, value = ("slide", slide) if slide is not None else ("delay", delay)
        raise InvalidOverrideError(
            f"{name}={value!r} needs a window, and the plan of this query has none that decides "
            f'when results leave: give window="1min" as well'
        )
    pace = known.slide if slide is None else parse_target(slide, name="slide")
    if pace > known.size:
        raise InvalidOverrideError(
            f"slide {format_duration(pace)} is longer than the window "
            f"{format_duration(known.size)}: give a slide of at most the window"
        )
    late = known.delay if delay is None else parse_duration(delay, name="delay")
    # Windows keep their starts when only their pace changes, and ends follow from starts.
    starts = known.origin - known.size
    return WindowColumn("", known.size, pace, starts % pace).with_delay(late)
