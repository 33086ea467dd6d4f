"""Schedules: from priorities of operators to the two formats translators take (§5.1, §5.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from laxity.host.entities import Deployment, PhysicalOperator, Thread
from laxity.host.normalise import Spacing


class GroupBy(StrEnum):
    """Which operators share a control group."""

    QUERY = "query"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class SinglePrioritySchedule:
    """A priority for each thread."""

    priorities: Mapping[Thread, float] = field(default_factory=dict)
    spacing: Spacing = Spacing.LINEAR


@dataclass(frozen=True, slots=True)
class Group:
    priority: float
    threads: frozenset[Thread]


@dataclass(frozen=True, slots=True)
class GroupingSchedule:
    """Groups of threads, a priority for each group."""

    groups: Mapping[str, Group] = field(default_factory=dict)
    spacing: Spacing = Spacing.LINEAR


@dataclass(frozen=True, slots=True)
class NestedSchedule:
    """Two dimensions: groups compete for the CPU, the threads of a group for its part."""

    groups: GroupingSchedule
    inside: SinglePrioritySchedule


Schedule = SinglePrioritySchedule | GroupingSchedule | NestedSchedule


def transform(logical: Mapping[str, float], deployment: Deployment) -> dict[str, float]:
    """Algorithm 2: a logical schedule to a physical one.

    Fission gives every replica its operator's priority; a fused operator takes the highest
    priority of those it comprises.
    """
    out: dict[str, float] = {}
    for operator, priority in logical.items():
        for physical in deployment.physical_of.get(operator, ()):
            if len(physical.logical) > 1 and physical.id in out:
                out[physical.id] = max(out[physical.id], priority)
            else:
                out[physical.id] = priority
    return out


PrioritisedOperators = Iterable[tuple[PhysicalOperator, float]]


def single_priority(operators: PrioritisedOperators, spacing: Spacing) -> SinglePrioritySchedule:
    """A thread that serves several operators takes the highest priority of them."""
    priorities: dict[Thread, float] = {}
    for operator, priority in operators:
        for thread in operator.threads:
            priorities[thread] = max(priority, priorities.get(thread, priority))
    return SinglePrioritySchedule(priorities, spacing)


def grouping(
    operators: PrioritisedOperators, spacing: Spacing, by: GroupBy = GroupBy.QUERY
) -> GroupingSchedule:
    """A group is as urgent as its most urgent operator; a thread belongs to the most urgent
    group that claims it."""
    urgency: dict[str, float] = {}
    owner: dict[Thread, str] = {}
    for operator, priority in sorted(operators, key=lambda pair: (-pair[1], pair[0].id)):
        group = f"{operator.engine}/{operator.query}" if by is GroupBy.QUERY else operator.id
        urgency.setdefault(group, priority)
        for thread in operator.threads:
            owner.setdefault(thread, group)
    members: dict[str, set[Thread]] = {group: set() for group in urgency}
    for thread, group in owner.items():
        members[group].add(thread)
    groups = {
        group: Group(urgency[group], frozenset(threads))
        for group, threads in members.items()
        if threads
    }
    return GroupingSchedule(groups, spacing)
