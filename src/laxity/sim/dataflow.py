"""What is simulated: a job of the core, what its stages cost, and where its input comes from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from laxity.core.jobs import Job
from laxity.sim.errors import InvalidSimulationError


class Routing(Enum):
    """To which partitions of the next stage an operator sends."""

    MERGE = "merge"
    """To one, partition modulo parallelism: trees of partial aggregates."""
    SHUFFLE = "shuffle"
    """To all, each its share of the rows."""


@dataclass(frozen=True, slots=True)
class StageCost:
    """Seconds of CPU that a message takes: fixed + per_row · rows, times noise.

    `noise` is the coefficient of variation of a log-normal factor of mean one. `trigger` is added
    where the message completes a window. `locality` is added as a fraction where the operator
    last ran on another worker, whose caches hold its state. `selectivity` is rows out for each
    row in; the result of a window has at most `groups` rows, one for each key.
    """

    fixed: float = 0.001
    per_row: float = 0.0
    noise: float = 0.2
    trigger: float = 0.0
    locality: float = 0.0
    selectivity: float = 1.0
    groups: float = math.inf

    def __post_init__(self) -> None:
        if not self.groups > 0:
            raise InvalidSimulationError(f"cost groups must be above zero, got {self.groups!r}")
        for name in ("fixed", "per_row", "noise", "trigger", "locality", "selectivity"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InvalidSimulationError(f"cost {name} must not be negative, got {value!r}")

    def of(self, rows: float) -> float:
        """The mean cost of a message of `rows`."""
        return self.fixed + self.per_row * rows


Volume = Callable[[Random, float], float]
"""Rows of the batch that ends at a given time."""


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """What one source sends: a batch every `interval`, with the rows of that stretch of event
    time. A batch arrives `delay` after its last event (sources that are not in step with each
    other have different ones), plus uniform `jitter`; channels are FIFO, so a late batch holds
    back the next. `volume` gives the rows where they vary; batches of no
    rows are still sent, as punctuation.

    Event time is cut on a grid of `interval`, as batching sources do.
    """

    rows: float = 1000.0
    interval: float = 1.0
    delay: float = 0.05
    jitter: float = 0.05
    start: float = 0.0
    stop: float = math.inf
    volume: Volume | None = None
    bytes_per_row: float = 100.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.interval) and self.interval > 0):
            raise InvalidSimulationError(
                f"a source's interval must be above zero, got {self.interval!r}"
            )
        for name in ("rows", "delay", "jitter", "start", "bytes_per_row"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InvalidSimulationError(f"a source's {name} must not be negative: {value!r}")


@dataclass(frozen=True)
class Dataflow:
    """A job with its costs and sources. `sources` holds one list for each source stage, an entry
    for each of its partitions. `group` is what results are added up by, next to the job."""

    job: Job
    costs: Mapping[str, StageCost]
    sources: Mapping[str, tuple[SourceSpec, ...]]
    routing: Mapping[str, Routing] = field(default_factory=dict)
    group: str = ""
    tokens: float | None = None
    """Tokens a second for each source, where the policy shares by tokens."""

    def __post_init__(self) -> None:
        job = self.job
        missing = [stage for stage in job.stages if stage not in self.costs]
        if missing:
            raise InvalidSimulationError(f"job {job.name!r} has no cost for stage {missing[0]!r}")
        for stage in job.sources:
            given, wanted = len(self.sources.get(stage, ())), job.stages[stage].parallelism
            if given != wanted:
                raise InvalidSimulationError(
                    f"stage {stage!r} of job {job.name!r} has {wanted} operators and "
                    f"{given} sources; each operator reads one source"
                )

    def routing_between(self, sender: str, receiver: str) -> Routing:
        """As asked for, but for a stage that widens: a receiver without any input would hold up
        every window, so then all get their share."""
        stages = self.job.stages
        if stages[receiver].parallelism > stages[sender].parallelism:
            return Routing.SHUFFLE
        return self.routing.get(sender, Routing.MERGE)

    def demand(self) -> float:
        """Cores this dataflow keeps busy on average (volumes that vary are not counted)."""
        rate: dict[str, float] = {}  # messages a second of the whole stage
        rows: dict[str, float] = {}  # rows a second of the whole stage
        total = 0.0
        for name in self.job.topological_order:
            stage, cost = self.job.stages[name], self.costs[name]
            specs = self.sources.get(name, ())
            messages = sum(1 / spec.interval for spec in specs)
            volume = sum(spec.rows / spec.interval for spec in specs)
            for up in self.job.upstream[name]:
                width = self.job.stages[up].parallelism
                shuffled = self.routing_between(up, name) is Routing.SHUFFLE
                share = stage.parallelism if shuffled else 1
                window = self.job.stages[up].window
                emitted = rows[up] * self.costs[up].selectivity
                if window is None:
                    messages += share * rate[up]
                else:
                    messages += share * width / window.slide
                    overlap = window.size / window.slide
                    emitted = min(emitted * overlap, self.costs[up].groups * width / window.slide)
                volume += emitted
            rate[name], rows[name] = messages, volume
            total += messages * cost.fixed + volume * cost.per_row
            if stage.window is not None:
                total += cost.trigger * stage.parallelism / stage.window.slide
        return total
