"""The driver seam, and what every driver can offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Protocol

from laxity.core.durations import Duration, parse_target
from laxity.host import procfs
from laxity.host.entities import Deployment, Thread
from laxity.host.metrics import Snapshot, Values

COMMON_METRICS = frozenset({"cpu_seconds", "target"})
"""What `common_metrics` gives: CPU time from /proc, targets from the configuration."""


class Driver(Protocol):
    """Reads one engine and never alters it. Any exception is taken as "cannot be read now"."""

    @property
    def name(self) -> str: ...

    @property
    def metrics(self) -> frozenset[str]:
        """The raw metrics it can provide."""
        ...

    def snapshot(self, now: float, wanted: frozenset[str]) -> Snapshot:
        """Entities and the wanted raw metrics, all of one moment."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Targets:
    """Latency targets by query name; keys are patterns, the first that matches counts."""

    patterns: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, written: Mapping[str, Duration]) -> Targets:
        return cls({p: parse_target(t, name=f"target of {p!r}") for p, t in written.items()})

    def of(self, query: str) -> float | None:
        for pattern, target in self.patterns.items():
            if fnmatchcase(query, pattern):
                return target
        return None


FIRST_ANSWER = 5.0
"""Seconds that an engine may take for its first answer: a cold REST API compiles itself."""

CpuClock = Callable[[Thread], float | None]


def common_metrics(
    deployment: Deployment, wanted: frozenset[str], cpu: CpuClock = procfs.cpu_seconds
) -> dict[str, Values]:
    found: dict[str, Values] = {}
    if "target" in wanted:
        targets = {q.name: q.target for q in deployment.queries if q.target is not None}
        found["target"] = {
            op: targets[query] for op, query in deployment.query_of.items() if query in targets
        }
    if "cpu_seconds" in wanted:
        found["cpu_seconds"] = _cpu_seconds(deployment, cpu)
    return found


def _cpu_seconds(deployment: Deployment, cpu: CpuClock) -> Values:
    """A logical operator has the time of its replicas; of fused ones the first has it all, since
    nobody outside can tell them apart."""
    seconds: dict[str, float] = {op.id: 0.0 for op in deployment.logical}
    for physical in deployment.physical:
        used = [t for t in map(cpu, physical.threads) if t is not None]
        if len(used) < len(physical.threads):
            continue  # a thread ended just now: a sum without it would look like a step back
        seconds[physical.id] = sum(used)
        for first in physical.logical[:1]:
            seconds[first] = seconds.get(first, 0.0) + seconds[physical.id]
    return seconds
