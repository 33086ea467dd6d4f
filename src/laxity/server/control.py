"""What can be changed about a running query, and what has been: a part of the seam (service.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Operation:
    """One that was carried out: who changed what, when, before which batch."""

    id: str
    name: str
    by: str
    at: float
    took: float | None
    batch: int | None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeavyKey:
    key: str
    rows: int
    share: float


@dataclass(frozen=True, slots=True)
class Keys:
    """What the last batch that counted keys has found."""

    batch: int
    rows: int
    keys: int
    heaviest: tuple[HeavyKey, ...] = ()
    lag: float | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """What can be changed about a query, as it is, and its history, oldest first."""

    query: str
    variables: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    partitions: int | None = None
    batches: tuple[int, ...] = ()
    """The first and the last finished batch it can go back to."""
    keys: Keys | None = None
    history: tuple[Operation, ...] = ()


@runtime_checkable
class Controllable(Protocol):
    """A `Service` whose queries can be changed at a boundary as well."""

    def control(self, name: str) -> Control: ...

    def operate(
        self, name: str, operation: str, arguments: Mapping[str, Any], by: str
    ) -> Operation:
        """May take as long as a batch. `RefusedError` before anything has changed."""
        ...
