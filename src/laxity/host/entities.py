"""What is scheduled: queries, their logical and physical operators, and the threads behind them.

Ids are unique over all engines (`entity_id`), so that one schedule can hold operators of several.
A thread is known by its tid *and* its start time: the kernel reuses tids, and a priority must
never reach a stranger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain


def entity_id(engine: str, query: str, operator: str) -> str:
    return f"{engine}/{query}/{operator}"


@dataclass(frozen=True, slots=True, order=True)
class Thread:
    """A kernel thread; `started` is field 22 of /proc/<pid>/stat, in clock ticks since boot."""

    pid: int
    tid: int
    started: int
    name: str = field(default="", compare=False)

    def __hash__(self) -> int:
        return self.tid  # enough to tell threads of one moment apart, and hashed a lot


@dataclass(frozen=True, slots=True)
class Query:
    """`target` is the latency the query must keep, in seconds; none means best effort."""

    name: str
    engine: str
    target: float | None = None


@dataclass(frozen=True, slots=True)
class LogicalOperator:
    """An operator as the user wrote it. `downstream` holds ids; an operator without any is an
    egress."""

    id: str
    query: str
    downstream: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PhysicalOperator:
    """What the engine runs. Fission: several share a logical operator. Fusion: `logical` holds
    several, in stream order. Helper threads count as threads of their operator."""

    id: str
    query: str
    logical: tuple[str, ...]
    threads: tuple[Thread, ...] = ()

    @property
    def engine(self) -> str:
        return self.id.partition("/")[0]


@dataclass(frozen=True)
class Deployment:
    """One engine's entities at one moment."""

    engine: str
    queries: tuple[Query, ...] = ()
    logical: tuple[LogicalOperator, ...] = ()
    physical: tuple[PhysicalOperator, ...] = ()

    @cached_property
    def query_by_name(self) -> Mapping[str, Query]:
        return {query.name: query for query in self.queries}

    @cached_property
    def physical_of(self) -> Mapping[str, tuple[PhysicalOperator, ...]]:
        """Algorithm 2's getPhysical: more than one where fission was applied."""
        found: dict[str, list[PhysicalOperator]] = {op.id: [] for op in self.logical}
        for physical in self.physical:
            for logical in physical.logical:
                found.setdefault(logical, []).append(physical)
        return {logical: tuple(ops) for logical, ops in found.items()}

    @cached_property
    def downstream(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        """Where an operator's output goes, for logical and physical ids alike.

        Each inner tuple is one destination: a tuple reaches every destination, but only one
        replica of it.
        """
        found: dict[str, tuple[tuple[str, ...], ...]] = {
            op.id: tuple((down,) for down in op.downstream) for op in self.logical
        }
        logical = {op.id: op for op in self.logical}
        for physical in self.physical:
            inside = set(physical.logical)
            outside = dict.fromkeys(
                down
                for member in physical.logical
                if member in logical
                for down in logical[member].downstream
                if down not in inside
            )
            replicas = (tuple(op.id for op in self.physical_of.get(d, ())) for d in outside)
            found[physical.id] = tuple(group for group in replicas if group)
        return found

    @cached_property
    def physical_by_id(self) -> Mapping[str, PhysicalOperator]:
        return {op.id: op for op in self.physical}

    @cached_property
    def downstream_first(self) -> tuple[str, ...]:
        """Every id after those its output goes to; an edge that closes a cycle is overlooked."""
        order: list[str] = []
        entered: set[str] = set()
        work = [(operator, False) for operator in reversed([*self.downstream])]
        while work:
            here, all_below_are_done = work.pop()
            if all_below_are_done:
                order.append(here)
            elif here not in entered:
                entered.add(here)
                work.append((here, True))
                below = chain.from_iterable(self.downstream.get(here, ()))
                work += ((operator, False) for operator in below)
        return tuple(order)

    @cached_property
    def upstream(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for above, destinations in self.downstream.items():
            for below in chain.from_iterable(destinations):
                found.setdefault(below, []).append(above)
        return {operator: tuple(above) for operator, above in found.items()}

    @cached_property
    def query_of(self) -> Mapping[str, str]:
        return {op.id: op.query for op in self.logical} | {op.id: op.query for op in self.physical}

    def only(self, queries: Iterable[str]) -> Deployment:
        """The part of it that belongs to these queries."""
        keep = set(queries)
        return Deployment(
            self.engine,
            tuple(q for q in self.queries if q.name in keep),
            tuple(op for op in self.logical if op.query in keep),
            tuple(op for op in self.physical if op.query in keep),
        )
