"""Copies what matters of a streaming logical plan out of the JVM.

The plan is walked node by node and not read as Spark's plan JSON: that JSON leaves out watermark
delays and column metadata, and repeats a sliding window's arithmetic for every overlap, which
for a day sliding by a second would be a gigabyte. Only the arithmetic of one window is read so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from laxity.semantics import WindowColumn
from laxity.spark.emission import Grouping, Operator

# How Spark marks columns, in their metadata.
_TIME_WINDOW = "spark.timeWindow"
_SESSION_WINDOW = "spark.sessionWindow"
_WATERMARK_DELAY = "spark.watermarkDelayMs"

_MICROSECONDS = 1_000_000
# A watermark far from zero to solve join conditions for; any will do (milliseconds).
_SOME_WATERMARK = 10**12


def read_tree(plan: Any) -> Operator:
    """The streaming part of an analysed logical plan."""
    return _Reader().read(plan)


class _Reader:
    def __init__(self) -> None:
        self._shared: dict[int, Operator] = {}  # common table expressions, by their id

    def read(self, node: Any) -> Operator:
        name = str(node.nodeName())
        if name == "CTERelationRef":
            return self._shared[node.cteId()]
        if name == "WithCTE":
            for definition in _each(node.cteDefs()):
                self._shared[definition.id()] = self.read(definition)
            return self.read(node.plan())
        children = list(_each(node.children()))
        if len(children) > 1:
            children = [child for child in children if child.isStreaming()]
        return Operator(
            name,
            tuple(self.read(child) for child in children),
            defines=_defined_windows(node, name),
            groupings=tuple(_window_groupings(node)) if name == "Aggregate" else (),
            watermark=_watermark(node) if name == "EventTimeWatermark" else None,
            join_type=str(node.joinType().sql()) if name == "Join" else "",
            join_lag=_join_lag(node) if name == "Join" and len(children) == 2 else 0.0,
        )


def _each(seq: Any) -> Iterator[Any]:
    """The elements of a Scala Seq."""
    for index in range(seq.size()):
        yield seq.apply(index)


def _jvm() -> Any:
    from pyspark import SparkContext

    return SparkContext._jvm


def _watermark(node: Any) -> tuple[str, float]:
    logical = _jvm().org.apache.spark.sql.catalyst.plans.logical
    milliseconds = logical.EventTimeWatermark.getDelayMs(node.delay())
    return str(node.eventTime().name()), milliseconds / 1000


def _window_groupings(aggregate: Any) -> Iterator[Grouping]:
    for expression in _each(aggregate.groupingExpressions()):
        column = expression.child() if expression.nodeName() == "Alias" else expression
        if column.nodeName() != "AttributeReference":
            continue
        metadata = json.loads(column.metadata().json())
        if metadata.get(_TIME_WINDOW) or metadata.get(_SESSION_WINDOW):
            yield Grouping(
                column.exprId().id(),
                session=bool(metadata.get(_SESSION_WINDOW)),
                watermarked=_WATERMARK_DELAY in metadata,
            )


def _defined_windows(node: Any, name: str) -> dict[int, WindowColumn | int | None]:
    if name not in ("Project", "Expand"):
        return {}
    fields = json.loads(node.schema().json())["fields"]
    marked = [(at, f["name"]) for at, f in enumerate(fields) if f["metadata"].get(_TIME_WINDOW)]
    if not marked:
        return {}
    # A sliding window is a row for each overlap; the first is enough.
    expressions = node.projectList() if name == "Project" else node.projections().apply(0)
    output = node.output()
    defines: dict[int, WindowColumn | int | None] = {}
    for at, column in marked:
        made = expressions.apply(at)
        if made.nodeName() == "Alias":
            made = made.child()
        expr_id = output.apply(at).exprId().id()
        if made.nodeName() != "AttributeReference":
            defines[expr_id] = parse_window(made.toJSON(), column)
        elif made.exprId().id() != expr_id:
            defines[expr_id] = made.exprId().id()
    return defines


def _join_lag(join: Any) -> float:
    """How far a time-bounded join of streams sets back the watermark of what follows it.

    Spark's own solver is asked, as its planner does.
    """
    jvm = _jvm()
    helper = jvm.org.apache.spark.sql.catalyst.analysis.StreamingJoinHelper
    if helper.isWatermarkInJoinKeys(join):
        return 0.0
    left, right = join.left().outputSet(), join.right().outputSet()
    watermark = jvm.scala.Option.apply(_SOME_WATERMARK)
    lag = 0
    for one, other in ((left, right), (right, left)):
        solved = helper.getStateValueWatermark(one, other, join.condition(), watermark)
        if solved.isDefined():
            lag = max(lag, _SOME_WATERMARK - solved.get())
    return lag / 1000


@dataclass(frozen=True, slots=True)
class _Expression:
    name: str
    value: str | None
    children: tuple[_Expression, ...]

    def unwrapped(self) -> _Expression:
        """Below casts and conversions."""
        inner = self
        while len(inner.children) == 1:
            inner = inner.children[0]
        return inner


def parse_window(text: str, column: str) -> WindowColumn | None:
    """A time window from the JSON of the struct that Spark computes it by; None if it is not one.

    Spark drops the window's own parameters and keeps their arithmetic
    (TimeWindowing.getWindow), of which this reads

        remainder = (time − START) % SLIDE
        start     = (time − CASE … ELSE remainder) − i · slide
        end       = start + SIZE
    """
    try:
        struct = _parse_expression(iter(json.loads(text)))
        _, start, _, end = struct.children
        start, end = start.unwrapped(), end.unwrapped()
        overlap_start, _ = _operands(start, "Subtract")
        _, case = _operands(overlap_start, "Subtract")
        if case.name != "CaseWhen":
            return None
        shifted, slide = _operands(case.children[-1], "Remainder")
        _, origin = _operands(shifted, "Subtract")
        _, size = _operands(end, "Add")
        return WindowColumn(
            column,
            _literal(size) / _MICROSECONDS,
            _literal(slide) / _MICROSECONDS,
            _literal(origin) / _MICROSECONDS,
        )
    except (ValueError, KeyError, StopIteration):
        return None


def _parse_expression(nodes: Iterator[dict[str, Any]]) -> _Expression:
    """Spark's JSON of a tree is the list of its nodes, each before its children."""
    node = next(nodes)
    children = tuple([_parse_expression(nodes) for _ in range(node["num-children"])])
    return _Expression(node["class"].rpartition(".")[2], node.get("value"), children)


def _operands(expression: _Expression, name: str) -> tuple[_Expression, _Expression]:
    if expression.name != name:
        raise ValueError(f"{expression.name} is not {name}")
    left, right = expression.children
    return left, right


def _literal(expression: _Expression) -> int:
    inner = expression.unwrapped()
    if inner.name != "Literal" or inner.value is None:
        raise ValueError(f"{inner.name} is not a literal")
    return int(inner.value)
