"""Dataflow jobs: a DAG of stages, each stage a set of parallel operators (Cameo §4.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import NamedTuple

from laxity.core.durations import Duration, parse_target
from laxity.core.errors import InvalidJobError, UnknownOperatorError
from laxity.core.windows import Window


class TimeDomain(Enum):
    """What a stream's logical time is made of (Cameo §4.3, step 2)."""

    EVENT = "event"
    INGESTION = "ingestion"
    PROCESSING = "processing"


class OperatorId(NamedTuple):
    job: str
    stage: str
    partition: int = 0

    def __str__(self) -> str:
        return f"{self.job}/{self.stage}[{self.partition}]"


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a dataflow. Without a window its operators are *regular*: triggered on every
    invocation. With one they are *windowed*: triggered when a window is complete."""

    name: str
    parallelism: int = 1
    window: Window | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidJobError("a stage needs a name")
        if self.parallelism < 1:
            raise InvalidJobError(
                f"stage {self.name!r} needs a parallelism of at least 1, got {self.parallelism!r}"
            )


@dataclass(frozen=True)
class Job:
    """A validated DAG of stages with a latency target (the paper's L, in seconds)."""

    name: str
    target: float
    stages: Mapping[str, Stage]
    downstream: Mapping[str, tuple[str, ...]]
    tenant: str = "default"
    time_domain: TimeDomain = TimeDomain.EVENT
    upstream: Mapping[str, tuple[str, ...]] = field(init=False)
    topological_order: tuple[str, ...] = field(init=False)
    _emission_slide: Mapping[str, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        upstream: dict[str, tuple[str, ...]] = {
            name: tuple(u for u, downs in self.downstream.items() if name in downs)
            for name in self.stages
        }
        try:
            order = tuple(TopologicalSorter(upstream).static_order())
        except CycleError as cycle:
            path = " → ".join(cycle.args[1])
            raise InvalidJobError(f"job {self.name!r} has a cycle: {path}") from None
        object.__setattr__(self, "upstream", upstream)
        object.__setattr__(self, "topological_order", order)
        slides: dict[str, float] = {}
        for name in order:
            window = self.stages[name].window
            slides[name] = max(
                [slides[u] for u in upstream[name]] + [window.slide if window else 0.0]
            )
        object.__setattr__(self, "_emission_slide", slides)

    @classmethod
    def of(
        cls,
        name: str,
        target: Duration,
        stages: Iterable[Stage],
        edges: Iterable[tuple[str, str]] | None = None,
        *,
        tenant: str = "default",
        time_domain: TimeDomain = TimeDomain.EVENT,
    ) -> Job:
        """A job from its stages; without `edges` they form a chain in the order given."""
        by_name: dict[str, Stage] = {}
        for stage in stages:
            if stage.name in by_name:
                raise InvalidJobError(f"job {name!r} has two stages named {stage.name!r}")
            by_name[stage.name] = stage
        if not name:
            raise InvalidJobError("a job needs a name")
        if not by_name:
            raise InvalidJobError(f"job {name!r} has no stages")
        if edges is None:
            names = list(by_name)
            edges = pairwise(names)
        downstream: dict[str, list[str]] = {stage: [] for stage in by_name}
        for source, sink in edges:
            for end in (source, sink):
                if end not in by_name:
                    raise InvalidJobError(
                        f"job {name!r} has an edge to the unknown stage {end!r}; "
                        f"its stages are {', '.join(by_name)}"
                    )
            if sink not in downstream[source]:
                downstream[source].append(sink)
        return cls(
            name=name,
            target=parse_target(target, name=f"target of job {name!r}"),
            stages=by_name,
            downstream={stage: tuple(downs) for stage, downs in downstream.items()},
            tenant=tenant,
            time_domain=time_domain,
        )

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(s for s in self.topological_order if not self.upstream[s])

    @property
    def sinks(self) -> tuple[str, ...]:
        return tuple(s for s in self.topological_order if not self.downstream[s])

    def stage(self, name: str) -> Stage:
        try:
            return self.stages[name]
        except KeyError:
            raise UnknownOperatorError(
                f"job {self.name!r} has no stage {name!r}; its stages are {', '.join(self.stages)}"
            ) from None

    def emission_slide(self, stage: str) -> float:
        """The pace, in logical time, at which a stage emits: the paper's S_o. It is the largest
        slide on the way to it, and zero where no window lies on the way."""
        self.stage(stage)
        return self._emission_slide[stage]

    def arrival_slide(self, stage: str) -> float:
        """The pace at which messages reach a stage: the S_{o_u} of TRANSFORM."""
        return max((self.emission_slide(u) for u in self.upstream[stage]), default=0.0)

    def operators(self) -> Iterator[OperatorId]:
        for name in self.topological_order:
            for partition in range(self.stages[name].parallelism):
                yield OperatorId(self.name, name, partition)

    def check_operator(self, operator: OperatorId) -> None:
        if operator.job != self.name:
            raise UnknownOperatorError(f"{operator} is not an operator of job {self.name!r}")
        stage = self.stage(operator.stage)
        if not 0 <= operator.partition < stage.parallelism:
            raise UnknownOperatorError(
                f"stage {operator.stage!r} of job {self.name!r} has operators 0 to "
                f"{stage.parallelism - 1}, not {operator.partition}"
            )
