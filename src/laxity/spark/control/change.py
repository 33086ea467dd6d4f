"""The everyday operation: several settings of a query at once, from one batch to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from laxity.core.durations import parse_duration, parse_target
from laxity.plugins import load_policy
from laxity.spark.control.errors import UnfitOperationError, UnknownVariableError
from laxity.spark.control.operation import SparkOperation
from laxity.spark.control.variables import versions_of

if TYPE_CHECKING:
    from laxity.spark.control.query import QueryControl

SETTINGS = ("target", "batch_size", "pace", "paused", "policy", "caps")


@dataclass(frozen=True)
class Change(SparkOperation):
    """`values`: variable → SQL text, or None for its default; `functions`: name → version, or
    None for the first; `settings`: some of SETTINGS."""

    name: ClassVar[str] = "spark-change"

    values: dict[str, str | None] = field(default_factory=dict)
    functions: dict[str, str | None] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def check(self, query: QueryControl) -> None:
        for name, version in self.functions.items():
            known = versions_of(name)
            if version is not None and version not in known:
                raise UnknownVariableError(
                    f"function {name!r} has no version {version!r}; it has {', '.join(known)}"
                )
        for name, value in self.settings.items():
            if name not in SETTINGS:
                raise UnfitOperationError(
                    f"there is no setting {name!r}; there are {', '.join(SETTINGS)}"
                )
            if name == "target" and value is not None:
                parse_target(value)
            elif name == "pace":
                parse_duration(value)
            elif name == "policy":
                load_policy(value)
            elif name == "batch_size" and (
                isinstance(value, bool) or not isinstance(value, int) or value < 0
            ):
                raise UnfitOperationError(
                    f"batch_size is a whole number of rows or files, 0 for none; got {value!r}"
                )

            elif name == "paused" and not isinstance(value, bool):
                raise UnfitOperationError(f"paused is true or false, got {value!r}")
            elif name == "caps":
                _check_caps(value)

    def at_boundary(self, query: QueryControl, batch: int) -> dict[str, Any]:
        before = {
            "values": query.chosen(self.values),
            "functions": query.chosen(self.functions),
            "settings": {name: query.setting(name) for name in self.settings},
        }
        for name, value in self.settings.items():
            query.apply_setting(name, value)
        if self.values or self.functions:
            query.choose(self.values, self.functions, batch)
        return {"undo": {"operation": Change.name, "arguments": before}}


def _check_caps(caps: Any) -> None:
    fits = isinstance(caps, dict) and all(
        not isinstance(cap, bool)
        and ((isinstance(cap, int) and cap >= 1) or (isinstance(cap, float) and 0 < cap <= 1))
        for cap in caps.values()
    )
    if not fits:
        raise UnfitOperationError(
            f"caps gives each tenant slots from 1 on, or a share up to 1.0; got {caps!r}"
        )
