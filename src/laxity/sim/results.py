"""Latencies and throughput of a run, in memory that does not grow with time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field


class Latencies:
    """A histogram with buckets 1 % wide: any percentile within 1 %, the mean exact.

    Samples below a microsecond count as one.
    """

    _LEAST = 1e-6
    _LOG = math.log(1.01)

    __slots__ = ("_buckets", "_sum", "_sum_squares", "count", "late", "worst")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self._sum = 0.0
        self._sum_squares = 0.0
        self.count = 0
        self.late = 0
        """Samples above their target."""
        self.worst = 0.0

    def add(self, seconds: float, target: float = math.inf) -> None:
        bucket = int(math.log(max(seconds, self._LEAST) / self._LEAST) / self._LOG)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self._sum += seconds
        self._sum_squares += seconds * seconds
        self.count += 1
        self.worst = max(self.worst, seconds)
        if seconds > target:
            self.late += 1

    def merge(self, other: Latencies) -> None:
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self._sum += other._sum
        self._sum_squares += other._sum_squares
        self.count += other.count
        self.late += other.late
        self.worst = max(self.worst, other.worst)

    @classmethod
    def merged(cls, parts: Iterable[Latencies]) -> Latencies:
        total = cls()
        for part in parts:
            total.merge(part)
        return total

    def percentile(self, percent: float) -> float:
        """NaN without samples."""
        if not self.count:
            return math.nan
        rank = max(1, math.ceil(self.count * percent / 100.0))
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= rank:
                return min(self._LEAST * math.exp((bucket + 0.5) * self._LOG), self.worst)
        raise AssertionError("a rank is at most the count")

    @property
    def p50(self) -> float:
        return self.percentile(50)

    @property
    def p99(self) -> float:
        return self.percentile(99)

    @property
    def mean(self) -> float:
        return self._sum / self.count if self.count else math.nan

    @property
    def deviation(self) -> float:
        if not self.count:
            return math.nan
        return math.sqrt(max(0.0, self._sum_squares / self.count - self.mean**2))

    @property
    def met(self) -> float:
        """The fraction of samples in time; NaN without samples."""
        return 1.0 - self.late / self.count if self.count else math.nan

    def cdf(self, points: int = 200) -> list[tuple[float, float]]:
        """(seconds, fraction at or below), at most `points` of them."""
        curve: list[tuple[float, float]] = []
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            upper = self._LEAST * math.exp((bucket + 1) * self._LOG)
            curve.append((upper, seen / self.count))
        step = max(1, len(curve) // points)
        return curve[::step] + ([curve[-1]] if curve and (len(curve) - 1) % step else [])


@dataclass(slots=True)
class JobResult:
    """One job after a run. Rows are those its source operators have processed."""

    name: str
    group: str
    target: float
    latencies: Latencies = field(default_factory=Latencies)
    rows: float = 0.0
    expected: float = 0.0
    """Results whose deadline has passed: those that never came are misses too."""
    behind: float = 0.0
    """Seconds of event time by which the slowest source trails because it was held back."""

    @property
    def success(self) -> float:
        """Results in time as a fraction of the results that were due."""
        in_time = self.latencies.count - self.latencies.late
        due = max(self.expected, float(self.latencies.count))
        return in_time / due if due else math.nan


@dataclass(slots=True)
class RunResult:
    """All of a run. `busy` is the fraction of the cores' time spent on messages."""

    scheduler: str
    measured: float
    jobs: dict[str, JobResult]
    busy: float = 0.0
    events: int = 0
    queued: int = 0
    """Messages still waiting or running at the end."""

    def groups(self) -> list[str]:
        return list(dict.fromkeys(job.group for job in self.jobs.values()))

    def group(self, name: str) -> JobResult:
        """The jobs of a group added up."""
        jobs = [job for job in self.jobs.values() if job.group == name]
        return JobResult(
            name,
            name,
            max((job.target for job in jobs), default=math.nan),
            Latencies.merged(job.latencies for job in jobs),
            sum(job.rows for job in jobs),
            sum(job.expected for job in jobs),
            max((job.behind for job in jobs), default=0.0),
        )

    def throughput(self, group: str) -> float:
        """Rows a second."""
        return self.group(group).rows / self.measured
