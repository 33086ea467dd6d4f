"""When do results leave? Decided on a small copy of the plan, without Spark.

The rules follow Spark's own: in append mode an aggregation emits a window once the watermark
passes its end; every other operator emits what it has in the batch it comes. Where a rule does
not fit, the answer is "with every batch", the one that never makes a query wait for an event
time it does not need, and a note says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from laxity.core.durations import format_duration
from laxity.core.windows import Window
from laxity.semantics import WindowColumn

# Operators that keep state between batches, by Spark's class name.
STATEFUL = {
    "Aggregate": "aggregation",
    "Distinct": "aggregation",
    "Deduplicate": "dedup",
    "DeduplicateWithinWatermark": "dedup",
    "Join": "join",
    "FlatMapGroupsWithState": "flatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "TransformWithState": "transformWithState",
    "TransformWithStateInPandas": "transformWithState",
    "TransformWithStateInPySpark": "transformWithState",
    "GlobalLimit": "limit",
}

# Operators whose output leaves when their input comes: they keep their input's pace.
_PASSING = frozenset(
    [
        "AppendColumns",
        "AppendColumnsWithObject",
        "CTERelationDef",
        "CollectMetrics",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "DeserializeToObject",
        "EventTimeWatermark",
        "Expand",
        "Filter",
        "FlatMapGroupsInArrow",
        "FlatMapGroupsInPandas",
        "Generate",
        "GlobalLimit",
        "LocalLimit",
        "MapElements",
        "MapInArrow",
        "MapInPandas",
        "MapPartitions",
        "MapPartitionsInR",
        "Project",
        "PythonMapInArrow",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "ReturnAnswer",
        "Sample",
        "SerializeFromObject",
        "Sort",
        "SubqueryAlias",
        "Tail",
        "TypedFilter",
        "UpdateEventTimeWatermarkColumn",
        "View",
    ]
)
_USER_STATE = frozenset(name for name in STATEFUL if "WithState" in name)


@dataclass(frozen=True, slots=True)
class Grouping:
    """A grouping column that is a window: which definition, and does a watermark govern it?"""

    expr_id: int
    session: bool = False
    watermarked: bool = True


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a streaming plan. Children that do not stream are left out."""

    name: str
    children: tuple[Operator, ...] = ()
    # Window columns made here, by expression id: a window, another column's id where it is only
    # renamed, or None where its arithmetic is not the one known.
    defines: dict[int, WindowColumn | int | None] = field(default_factory=dict)
    groupings: tuple[Grouping, ...] = ()
    watermark: tuple[str, float] | None = None
    join_type: str = ""
    # How far a join's output lags behind the watermark of its input, in seconds.
    join_lag: float = 0.0

    def walk(self) -> Iterator[Operator]:
        """From the sources up."""
        for child in self.children:
            yield from child.walk()
        yield self


@dataclass(frozen=True, slots=True)
class _Pace:
    """What sets the moment results leave an operator, and how far the watermark lags there."""

    window: WindowColumn | None = None
    delayed_by: float = 0.0
    lag: float = 0.0


def windows_of(plan: Operator) -> tuple[WindowColumn, ...]:
    found = (made for op in plan.walk() for made in op.defines.values())
    return tuple(dict.fromkeys(made for made in found if isinstance(made, WindowColumn)))


def watermarks_of(plan: Operator) -> tuple[tuple[str, float], ...]:
    return tuple(op.watermark for op in plan.walk() if op.watermark is not None)


def stateful_of(plan: Operator) -> tuple[str, ...]:
    kinds = []
    for op in plan.walk():
        kind = STATEFUL.get(op.name)
        if kind == "join" and len(op.children) < 2:
            continue  # beside static data a join keeps no state
        if any(group.session for group in op.groupings):
            kind = "session_window"
        if kind is not None:
            kinds.append(kind)
    return tuple(kinds)


class EmissionRules:
    """The rules for append mode; `notes` gathers what was found and why it was decided so."""

    def __init__(self, plan: Operator, *, watermark_policy: str = "min") -> None:
        self._plan = plan
        self._definitions = {id_: made for op in plan.walk() for id_, made in op.defines.items()}
        self._policy = watermark_policy
        self.notes: list[str] = []

    def window(self) -> Window | None:
        """The window that decides when results leave, with all that delays it."""
        pace = self._pace(self._plan)
        if pace.window is None:
            return None
        return pace.window.with_delay(self._watermark_delay() + pace.delayed_by)

    def _watermark_delay(self) -> float:
        delays = [delay for _, delay in watermarks_of(self._plan)]
        if len(set(delays)) < 2:
            return delays[0] if delays else 0.0
        # The global watermark follows the slowest input under "min", the fastest under "max".
        delay = max(delays) if self._policy == "min" else min(delays)
        self.notes.append(
            f"{len(delays)} watermarks under policy {self._policy!r}: "
            f"a delay of {format_duration(delay)} decides."
        )
        return delay

    def _pace(self, op: Operator) -> _Pace:
        inputs = [self._pace(child) for child in op.children]
        lag = max((pace.lag for pace in inputs), default=0.0)
        if op.name == "Aggregate":
            return self._aggregate(op, inputs, lag)
        if op.name in _USER_STATE:
            return self._regular(f"{STATEFUL[op.name]}: the user's function decides what it emits")
        if op.name == "Distinct":
            return self._regular("distinct over event time: each event time is a result of its own")
        if not inputs:
            return _Pace()
        if len(inputs) == 1 and (op.name in _PASSING or op.name in ("Join", "Union")):
            return inputs[0]
        if op.name == "Join":
            return self._join(op, inputs, lag + op.join_lag)
        if op.name == "Union":
            return self._merge(inputs, lag, "a union")
        if len(inputs) == 1 and inputs[0].window is None:
            return inputs[0]
        return self._regular(f"{op.name} is not an operator Laxity knows")

    def _regular(self, why: str, lag: float = 0.0) -> _Pace:
        self.notes.append(f"{why[0].upper()}{why[1:]}; taken as emitting with every batch.")
        return _Pace(lag=lag)

    def _aggregate(self, op: Operator, inputs: list[_Pace], lag: float) -> _Pace:
        if any(group.session for group in op.groupings):
            return self._regular("a session window ends at a moment that depends on the data", lag)
        if not op.groupings:
            return self._regular("the aggregation has no time window", lag)
        group = next((g for g in op.groupings if g.watermarked), None)
        if group is None:
            return self._regular("no watermark governs the aggregation's window", lag)
        own = self._resolve(group.expr_id, op)
        if own is None:
            return self._regular("the window of the aggregation could not be read", lag)
        before = inputs[0].window if inputs else None
        if before is None or before.slide <= own.slide:
            return _Pace(own, lag, lag)
        self.notes.append(
            f"Its input comes every {format_duration(before.slide)} only, so that decides "
            f"and not the slide of {format_duration(own.slide)}."
        )
        return _Pace(before, lag, lag)

    def _resolve(self, expr_id: int, op: Operator) -> WindowColumn | None:
        made: WindowColumn | int | None = expr_id
        seen: set[int] = set()
        while isinstance(made, int) and made in self._definitions and made not in seen:
            seen.add(made)
            made = self._definitions[made]
        if not isinstance(made, int):
            return made
        # Unions and common table expressions give columns new ids. With one window below there
        # is no doubt which it is.
        below = windows_of(op)
        specs = {(w.size, w.slide, w.start) for w in below}
        return below[-1] if len(specs) == 1 else None

    def _join(self, op: Operator, inputs: list[_Pace], lag: float) -> _Pace:
        if "OUTER" in op.join_type or "ANTI" in op.join_type:
            wait = f" by {format_duration(op.join_lag)}" if op.join_lag else ""
            self.notes.append(
                f"{op.join_type.capitalize()} join of streams: matches leave at once, rows "
                f"without one after the watermark has passed them{wait}."
            )
        if op.join_lag:
            self.notes.append(
                f"The join's condition looks back {format_duration(op.join_lag)}, and the "
                f"watermark behind it lags by as much."
            )
        return self._merge(inputs, lag, "a join", slowest=True)

    def _merge(self, inputs: list[_Pace], lag: float, what: str, *, slowest: bool = False) -> _Pace:
        windows = [pace.window for pace in inputs if pace.window is not None]
        if not windows:
            return _Pace(lag=lag)
        delayed_by = max(pace.delayed_by for pace in inputs)
        specs = {(w.size, w.slide, w.start) for w in windows}
        if len(windows) == len(inputs) and (slowest or len(specs) == 1):
            # Both sides of a join must have come; those of a union come one by one.
            return _Pace(max(windows, key=lambda w: w.slide), delayed_by, lag)
        return self._regular(f"{what} of inputs that come at different paces", lag)
