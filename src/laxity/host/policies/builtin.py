"""QS, HR, FCFS, RANDOM (§5.1), constants, and LAXITY, which brings the core's deadlines here."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain

from laxity.host.errors import InvalidHostConfigError
from laxity.host.normalise import Spacing
from laxity.host.policies.api import HostPolicy, Level, View


@dataclass(frozen=True)
class _ByMetric:
    """CPU time in the ratio of a metric, plus `least`: where hardly anything waits, nothing is
    far ahead of anything else."""

    level: Level = Level.LOGICAL
    name: str = ""
    metrics: tuple[str, ...] = ()
    least: float = 0.0
    spacing: Spacing = Spacing.LOG

    def priorities(self, view: View) -> Mapping[str, float]:
        return {op: value + self.least for op, value in view.values(self.metrics[0]).items()}


@dataclass(frozen=True)
class QueueSize(_ByMetric):
    """More waiting tuples first: keeps queues even, and so throughput high."""

    name: str = "qs"
    metrics: tuple[str, ...] = ("queue_size",)
    least: float = 1.0


@dataclass(frozen=True)
class HighestRate(_ByMetric):
    """Productive and cheap paths first: lowers the average latency."""

    name: str = "hr"
    metrics: tuple[str, ...] = ("highest_rate",)


@dataclass(frozen=True)
class FirstComeFirstServed(_ByMetric):
    """The tuple longest in the system first: lowers the maximum latency."""

    name: str = "fcfs"
    metrics: tuple[str, ...] = ("head_age",)
    least: float = 0.001


@dataclass(frozen=True)
class Random:
    """Uniformly random: shows what of a policy's gain comes from merely changing priorities."""

    level: Level = Level.LOGICAL
    seed: int = 0
    name: str = "random"
    metrics: tuple[str, ...] = ()
    spacing: Spacing = Spacing.LINEAR
    _random: random.Random = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_random", random.Random(self.seed))

    def priorities(self, view: View) -> Mapping[str, float]:
        return {op: self._random.random() for op in view.operators()}


@dataclass(frozen=True)
class Constant:
    """Fixed priorities, in the ratio CPU time should have. Keys are patterns for "query" or
    "query/operator"; the first that matches counts."""

    weights: Mapping[str, float] = field(default_factory=dict)
    default: float = 1.0
    level: Level = Level.LOGICAL
    name: str = "constant"
    metrics: tuple[str, ...] = ()
    spacing: Spacing = Spacing.LOG

    def __post_init__(self) -> None:
        for pattern, weight in {**self.weights, "default": self.default}.items():
            if not weight > 0:
                raise InvalidHostConfigError(
                    f"the weight of {pattern!r} must be above zero, got {weight!r}"
                )

    def priorities(self, view: View) -> Mapping[str, float]:
        query_of = view.deployment.query_of
        return {op: self._weight(query_of[op], op) for op in view.operators()}

    def _weight(self, query: str, operator: str) -> float:
        without_engine = operator.partition("/")[2]
        for pattern, weight in self.weights.items():
            if fnmatchcase(query, pattern) or fnmatchcase(without_engine, pattern):
                return weight
        return self.default


@dataclass(frozen=True)
class LeastLaxity:
    """The least time left before its target is lost first.

    What waits upstream will need an operator next, long before the next period: an operator is
    as urgent as the most urgent one before it.

    Priority is 1 / laxity, so that 0.5 s and 1 s differ as much as 1 h and 2 h do. Below `floor`
    seconds it grows with the logarithm only: late work still ranks by how late it is, but one
    query that is lost must not take the CPU from those that can still be saved. A query without
    a target is as lax as `best_effort` seconds.
    """

    floor: float = 0.05
    best_effort: float = 86_400.0
    level: Level = Level.LOGICAL
    name: str = "laxity"
    metrics: tuple[str, ...] = ("laxity",)
    spacing: Spacing = Spacing.LOG

    def priorities(self, view: View) -> Mapping[str, float]:
        least = dict.fromkeys(view.operators(), self.best_effort) | view.values("laxity")
        downstream = view.deployment.downstream
        for operator in sorted(least, key=least.__getitem__):  # so that each is lowered once
            reached = [operator]
            while reached:
                above = reached.pop()
                for below in chain.from_iterable(downstream.get(above, ())):
                    if least.get(below, -math.inf) > least[above]:
                        least[below] = least[above]
                        reached.append(below)
        return {operator: self.urgency(laxity) for operator, laxity in least.items()}

    def urgency(self, laxity: float) -> float:
        if laxity >= self.floor:
            return 1.0 / laxity
        return (1.0 + math.log1p((self.floor - laxity) / self.floor)) / self.floor


_FACTORIES: Mapping[str, Callable[..., HostPolicy]] = {
    "qs": QueueSize,
    "hr": HighestRate,
    "fcfs": FirstComeFirstServed,
    "random": Random,
    "constant": Constant,
    "laxity": LeastLaxity,
}

POLICY_NAMES = tuple(sorted(_FACTORIES))


def make_policy(name: str, **options: object) -> HostPolicy:
    """The built-in policy of that name."""
    factory = _FACTORIES.get(name.strip().lower())
    if factory is None:
        raise InvalidHostConfigError(
            f"no host policy is named {name!r}; known are {', '.join(POLICY_NAMES)}"
        )
    try:
        return factory(**options)
    except TypeError as error:
        raise InvalidHostConfigError(f"policy {name!r}: {error}") from None
