"""Change parameters or functions of a running dataflow, all operators at one boundary."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from laxity.control.errors import InvalidOperationError, UnknownParameterError
from laxity.control.graph import Dataflow
from laxity.control.operations.reconfigure import Reconfiguration


@dataclass(frozen=True)
class Tune(Reconfiguration):
    """Set parameters of stages or single operators. Every tuple is processed with the old values
    at all of them or with the new ones at all of them (figure 4b)."""

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Stage or operator → parameter → new value."""

    name = "tune"

    def target(self, graph: Dataflow) -> Dataflow:
        changes: dict[str, dict[str, Any]] = {}
        for where, values in self.values.items():
            members = graph.stage(where) if where in graph.stages else (graph.vertex(where),)
            for vertex in members:
                for parameter, value in values.items():
                    _check(vertex.parameters, where, parameter, value)
                changes.setdefault(vertex.name, {}).update(values)
        if not changes:
            raise InvalidOperationError("nothing to tune: give {stage: {parameter: value}}")
        return graph.with_parameters(changes)


def _check(present: Any, where: str, parameter: str, value: Any) -> None:
    if parameter not in present:
        has = ", ".join(present) or "no parameters"
        raise UnknownParameterError(f"{where!r} has no parameter {parameter!r}; it has {has}")
    old = present[parameter]
    number = isinstance(old, int | float) and not isinstance(old, bool)
    fits = (
        isinstance(value, int | float) and not isinstance(value, bool)
        if number
        else old is None or isinstance(value, type(old))
    )
    if not fits:
        raise InvalidOperationError(
            f"{parameter!r} of {where!r} is a {type(old).__name__} ({old!r}), not {value!r}"
        )


@dataclass(frozen=True)
class SwapFunction(Reconfiguration):
    """Compute with another function from a boundary on; state is kept."""

    functions: dict[str, str] = field(default_factory=dict)
    """Stage → the new function's name."""

    name = "swap-function"

    def target(self, graph: Dataflow) -> Dataflow:
        if not self.functions:
            raise InvalidOperationError("nothing to swap: give {stage: function}")
        for stage, function in self.functions.items():
            swapped = [replace(v, function=function) for v in graph.stage(stage)]
            graph = graph.with_stage(stage, swapped)
        return graph
