"""The metric provider (Algorithm 3).

A metric names the metrics it is computed from. What a driver measures is fetched; the rest is
computed recursively, once a period and driver. A metric that is neither is a configuration error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from laxity.host.entities import Deployment
from laxity.host.errors import MissingMetricError

Values = Mapping[str, float]
"""A metric's value for each entity id; an entity whose value is unknown is left out."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a driver saw at one moment: entities and the raw metrics it provides."""

    deployment: Deployment
    taken_at: float
    raw: Mapping[str, Values] = field(default_factory=dict)

    def provides(self, metric: str) -> bool:
        return metric in self.raw

    def get(self, metric: str) -> Values:
        return self.raw[metric]


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a metric is computed from. `before` holds the dependencies as they were `elapsed`
    seconds ago, for rates; it is empty in an engine's first period."""

    now: Mapping[str, Values]
    before: Mapping[str, Values]
    elapsed: float
    deployment: Deployment


@dataclass(frozen=True, slots=True)
class Metric:
    """A primitive metric has no dependencies and can only come from a driver."""

    name: str
    dependencies: tuple[str, ...] = ()
    compute: Callable[[Inputs], Values] | None = None


class Observed(Protocol):
    """The part of a driver the provider needs before anything was measured."""

    @property
    def name(self) -> str: ...

    @property
    def metrics(self) -> frozenset[str]: ...


class MetricProvider:
    """Computes registered metrics for every driver's snapshot."""

    def __init__(self, catalogue: Iterable[Metric]) -> None:
        self._catalogue = {metric.name: metric for metric in catalogue}
        self._previous: dict[str, tuple[float, dict[str, Values]]] = {}

    def raw_needs(self, wanted: Iterable[str], driver: Observed) -> frozenset[str]:
        """What must be fetched from this driver to compute `wanted`; raises if it cannot be."""
        needed: set[str] = set()
        for metric in wanted:
            self._collect(metric, driver, needed, metric)
        return frozenset(needed)

    def _collect(self, name: str, driver: Observed, needed: set[str], root: str) -> None:
        if name in driver.metrics:
            needed.add(name)
            return
        metric = self._metric(name)
        if not metric.dependencies:
            raise _missing(name, root, driver.name, driver.metrics)
        for dependency in metric.dependencies:
            self._collect(dependency, driver, needed, root)

    def update(self, snapshot: Snapshot, wanted: Iterable[str]) -> Mapping[str, Values]:
        """All wanted metrics of one driver (Algorithm 3, L3–L7)."""
        engine = snapshot.deployment.engine
        before_at, before = self._previous.get(engine, (snapshot.taken_at, {}))
        cache: dict[str, Values] = {}
        elapsed = snapshot.taken_at - before_at
        result = {
            name: self._compute(name, snapshot, cache, before, elapsed, name) for name in wanted
        }
        if elapsed > 0 or not before:
            self._previous[engine] = (snapshot.taken_at, cache)
        return result

    def forget(self, engine: str) -> None:
        """The engine was restarted or is gone: its counters begin anew."""
        self._previous.pop(engine, None)

    def _compute(
        self,
        name: str,
        snapshot: Snapshot,
        cache: dict[str, Values],
        before: Mapping[str, Values],
        elapsed: float,
        root: str,
    ) -> Values:
        if name in cache:
            return cache[name]
        if snapshot.provides(name):
            cache[name] = snapshot.get(name)
            return cache[name]
        metric = self._metric(name)
        if metric.compute is None or not metric.dependencies:
            raise _missing(name, root, snapshot.deployment.engine, snapshot.raw)
        now = {
            dependency: self._compute(dependency, snapshot, cache, before, elapsed, root)
            for dependency in metric.dependencies
        }
        cache[name] = metric.compute(Inputs(now, before, elapsed, snapshot.deployment))
        return cache[name]

    def _metric(self, name: str) -> Metric:
        try:
            return self._catalogue[name]
        except KeyError:
            known = ", ".join(sorted(self._catalogue))
            raise MissingMetricError(f"no metric is named {name!r}; known are {known}") from None


def _missing(name: str, root: str, engine: str, given: Iterable[str]) -> MissingMetricError:
    purpose = "" if name == root else f" (needed for {root!r})"
    return MissingMetricError(
        f"engine {engine!r} does not provide the primitive metric {name!r}{purpose}; it provides "
        f"{', '.join(sorted(given)) or 'none'}. Choose a policy that needs only those, or give "
        f"the engine a metrics page or file that has it."
    )
