"""The policy seam."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from laxity.host.entities import Deployment
from laxity.host.metrics import Values
from laxity.host.normalise import Spacing


class Level(StrEnum):
    """What a policy ranks. Logical priorities are carried over by `schedule.transform`."""

    LOGICAL = "logical"
    PHYSICAL = "physical"


@dataclass(frozen=True, slots=True)
class View:
    """What a policy sees of one engine in one period."""

    deployment: Deployment
    metrics: Mapping[str, Values]
    level: Level

    def operators(self) -> tuple[str, ...]:
        deployment = self.deployment
        chosen = deployment.logical if self.level is Level.LOGICAL else deployment.physical
        return tuple(op.id for op in chosen)

    def values(self, metric: str) -> dict[str, float]:
        """The metric for this level's operators, as far as it is known."""
        known = self.metrics[metric]
        return {op: known[op] for op in self.operators() if op in known}


class HostPolicy(Protocol):
    """Ranks operators; one it leaves out keeps the operating system's default."""

    @property
    def name(self) -> str: ...

    @property
    def metrics(self) -> tuple[str, ...]: ...

    @property
    def spacing(self) -> Spacing: ...

    @property
    def level(self) -> Level: ...

    def priorities(self, view: View) -> Mapping[str, float]: ...
