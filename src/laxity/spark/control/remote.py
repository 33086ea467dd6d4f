"""Operations as they come from outside: names and JSON data in, data out."""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from laxity.control.ledger import Entry
from laxity.core.errors import LaxityError
from laxity.spark.control.errors import UnfitOperationError
from laxity.spark.control.query import QueryControl


def _change(
    q: QueryControl, by: str, variables: Mapping[str, Any] | None = None, **settings: Any
) -> Entry:
    return q.change(by=by, variables=_typed(q, variables), **settings)


def _scale(q: QueryControl, by: str, partitions: int) -> Entry:
    return q.scale(partitions, by=by)


def _savepoint(q: QueryControl, by: str, path: str) -> Entry:
    return q.savepoint(path, by=by)


def _rollback(
    q: QueryControl, by: str, batch: int, variables: Mapping[str, Any] | None = None
) -> Entry:
    return q.rollback(batch, by=by, variables=_typed(q, variables))


def _monitor(q: QueryControl, by: str, every: int = 10, columns: tuple[str, ...] = ()) -> Entry:
    return q.monitor(every=every, columns=columns, by=by)


def _repair_skew(
    q: QueryControl,
    by: str,
    method: str = "auto",
    keys: tuple[str, ...] = (),
    ways: int | None = None,
) -> Entry:
    return q.repair_skew(method, keys=keys, ways=ways, by=by)


def _tune(
    q: QueryControl,
    by: str,
    target: float | str,
    start: int | None = None,
    rate: float | None = None,
) -> Entry:
    q.tune(target, start=start, rate=rate, by=by)
    return q.history()[-1]


def _undo(q: QueryControl, by: str) -> Entry:
    return q.undo(by=by)


OPERATIONS: dict[str, Callable[..., Entry]] = {
    "change": _change,
    "scale": _scale,
    "savepoint": _savepoint,
    "rollback": _rollback,
    "monitor": _monitor,
    "repair-skew": _repair_skew,
    "tune": _tune,
    "undo": _undo,
}


def operate(query: QueryControl, name: str, arguments: Mapping[str, Any], by: str) -> Entry:
    """Carry out an operation. Whatever is wrong with it is a `LaxityError`."""
    operation = OPERATIONS.get(name)
    if operation is None:
        raise UnfitOperationError(
            f"there is no operation {name!r}; there are {', '.join(OPERATIONS)}"
        )
    try:
        inspect.signature(operation).bind(query, by, **arguments)
    except TypeError as error:
        takes = list(inspect.signature(operation).parameters)[2:]
        raise UnfitOperationError(f"{name!r} takes ({', '.join(takes)}): {error}") from None
    try:
        return operation(query, by, **arguments)
    except LaxityError:
        raise
    except (TypeError, ValueError, AttributeError) as error:
        raise UnfitOperationError(f"{name!r} cannot take {dict(arguments)}: {error}") from error


def _typed(query: QueryControl, variables: Mapping[str, Any] | None) -> dict[str, Any]:
    """JSON has no dates: they come as text."""
    types = query.variable_types()
    made: dict[str, Any] = {}
    for name, value in dict(variables or {}).items():
        kind = types.get(name)
        try:
            if isinstance(value, str) and kind == "timestamp":
                value = datetime.datetime.fromisoformat(value)
            elif isinstance(value, str) and kind == "date":
                value = datetime.date.fromisoformat(value)
        except ValueError as error:
            raise UnfitOperationError(f"{name} is a {kind}: {error}") from None
        made[name] = value
    return made
