"""A policy at work: which queries it ranks, how often, and through which translator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from laxity.host.entities import PhysicalOperator
from laxity.host.errors import InvalidHostConfigError
from laxity.host.metrics import Snapshot, Values
from laxity.host.policies import HostPolicy, Level, View
from laxity.host.schedule import (
    GroupBy,
    NestedSchedule,
    Schedule,
    grouping,
    single_priority,
    transform,
)
from laxity.host.translators import Format, Translator


@dataclass(frozen=True, slots=True)
class Measured:
    """One engine in one period: what it is and what is known of it."""

    snapshot: Snapshot
    metrics: Mapping[str, Values]


@dataclass(slots=True)
class Binding:
    """`queries` and `engines` are patterns. `group_policy` ranks the groups where the translator
    has two dimensions; without it all groups are equal, as in §6.6."""

    name: str
    policy: HostPolicy
    translator: Translator
    period: float = 1.0
    queries: str = "*"
    engines: str = "*"
    group_by: GroupBy = GroupBy.QUERY
    group_policy: HostPolicy | None = None
    enabled: bool = True

    def __post_init__(self) -> None:
        if not self.period > 0:
            raise InvalidHostConfigError(
                f"the period of policy {self.name!r} must be above zero, got {self.period!r}"
            )

    @property
    def metrics(self) -> frozenset[str]:
        grouped = self.group_policy.metrics if self.group_policy else ()
        return frozenset((*self.policy.metrics, *grouped))

    def covers(self, engine: str) -> bool:
        return fnmatchcase(engine, self.engines)

    def schedule(self, engines: Iterable[Measured]) -> Schedule:
        """One schedule over the operators of all engines it covers."""
        measured = [m for m in engines if self.covers(m.snapshot.deployment.engine)]
        operators = self._rank(self.policy, measured)
        spacing = self.policy.spacing
        if self.translator.format is Format.SINGLE:
            return single_priority(operators, spacing)
        if self.translator.format is Format.GROUPING:
            return grouping(operators, spacing, self.group_by)
        if self.group_policy is None:
            groups = grouping(((op, 1.0) for op, _ in operators), spacing, self.group_by)
        else:
            ranked = self._rank(self.group_policy, measured)
            groups = grouping(ranked, self.group_policy.spacing, self.group_by)
        return NestedSchedule(groups, single_priority(operators, spacing))

    def _rank(
        self, policy: HostPolicy, engines: list[Measured]
    ) -> list[tuple[PhysicalOperator, float]]:
        ranked: list[tuple[PhysicalOperator, float]] = []
        for engine in engines:
            whole = engine.snapshot.deployment
            names = [q.name for q in whole.queries if fnmatchcase(q.name, self.queries)]
            deployment = whole if len(names) == len(whole.queries) else whole.only(names)
            priorities = policy.priorities(View(deployment, engine.metrics, policy.level))
            if policy.level is Level.LOGICAL:
                priorities = transform(priorities, deployment)
            physical = deployment.physical_by_id
            ranked += [(physical[op], p) for op, p in priorities.items() if op in physical]
        return ranked
