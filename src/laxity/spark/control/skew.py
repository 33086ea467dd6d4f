"""Skew repair: the load of a hot key is spread over all tasks, from one batch to the next.

What can be repaired is a join of a stream with a table that both are shuffled for: all rows of a
key meet in one task. Spark's own remedy, adaptive execution, splits only partitions above 256 MB,
which those of a micro-batch hardly are. Elsewhere there is nothing to repair, or nothing that may
be moved between two batches; `check` says which.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from laxity.spark.control.errors import UnfitOperationError
from laxity.spark.control.monitoring import HeavyKey
from laxity.spark.control.operation import SparkOperation

if TYPE_CHECKING:
    from laxity.spark.control.query import QueryControl

METHODS = ("auto", "broadcast", "salt", "none")
_BROADCAST_AT_MOST = 32 * 2**20
"""Bytes of a table, as Spark estimates them, up to which every task is given all of it."""


@dataclass(frozen=True, slots=True)
class JoinState:
    """How a query joins a stream with a table at the moment."""

    shuffled: bool = False
    broadcast: bool = False
    streams: bool = False
    """Whether it joins two streams with each other."""
    aggregates: bool = False
    table_bytes: int | None = None
    """None: it joins no table by a key."""


@dataclass(frozen=True)
class RepairSkew(SparkOperation):
    """`broadcast` gives every task the table, `salt` makes each of the `keys` into `ways` of them,
    `auto` takes the first where the table is small; `none` takes the repair back."""

    name: ClassVar[str] = "spark-repair-skew"
    exclusive: ClassVar[bool] = True

    method: str = "auto"
    keys: tuple[str, ...] = ()
    ways: int = 2

    def check(self, query: QueryControl) -> None:
        if self.method not in METHODS:
            raise UnfitOperationError(
                f"there is no method {self.method!r} of repair; there are {', '.join(METHODS)}"
            )
        if self.method == "none":
            return
        state = query.join_state()
        if state.table_bytes is None:
            raise UnfitOperationError(f"query {query.name!r} {_not_repairable(state)}")
        if not state.shuffled and query.repair_order.method == "none":
            raise UnfitOperationError(
                f"query {query.name!r} joins without a shuffle, so no key's rows meet in one task: "
                f"there is no skew to repair"
            )
        if self._resolved(state) == "salt":
            if not self.keys:
                raise UnfitOperationError("salting needs the hot keys: keys=['…']")
            if type(self.ways) is not int or self.ways < 2:
                raise UnfitOperationError(f"ways is a whole number from 2 on, got {self.ways!r}")

    def _resolved(self, state: JoinState) -> str:
        if self.method != "auto":
            return self.method
        small = state.table_bytes is not None and state.table_bytes <= _BROADCAST_AT_MOST
        return "broadcast" if small else "salt"

    def at_boundary(self, query: QueryControl, batch: int) -> dict[str, Any]:
        before = query.repair_order
        method = "none" if self.method == "none" else self._resolved(query.join_state())
        query.order_repair(RepairSkew(method, tuple(self.keys), self.ways))
        return {
            "method": method,
            "keys": list(self.keys),
            "undo": {"operation": self.name, "arguments": before.arguments()},
        }


def _not_repairable(state: JoinState) -> str:
    if state.streams:
        return (
            "joins two streams: their rows wait in state where their key lives, so spreading a "
            "key would mean to move state; scale(n) gives other keys more room"
        )
    if state.aggregates:
        return (
            "aggregates, and Spark combines the rows of a key before it sends them: a hot key "
            "travels as one row a task, so there is no skew to repair"
        )
    return "joins no stream with a table by a key, so no key's rows meet in one task"


def hot_keys(heaviest: Iterable[HeavyKey], partitions: int) -> list[HeavyKey]:
    """Keys that alone are more than a partition's fair share."""
    return [key for key in heaviest if partitions > 1 and key.share > 1.0 / partitions]


def ways_for(hot: Iterable[HeavyKey], partitions: int) -> int:
    """Into how many the heaviest must be divided for none to be more than a fair share."""
    heaviest = max((key.share for key in hot), default=0.0)
    return max(2, min(partitions, math.ceil(heaviest * partitions)))
