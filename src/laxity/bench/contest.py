"""A mix of tenants in one mode: what is run, and what is found out."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laxity.bench.modes import Mode
from laxity.bench.process import Say, run_apart
from laxity.bench.workloads.tenants import Tenant

if TYPE_CHECKING:
    from laxity.spark import Laxity

CORES = 2
SLACK = 60.0
"""Seconds for which rows go on arriving after the measurement, so that nothing runs dry in it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    mode: str
    seconds: float
    answers: list[tuple[str, float, float]]
    """(tenant, seconds into the run at which the last needed event arrived, latency) of the
    latency-sensitive results. What had not left at the end counts with the time it had waited."""
    bulk_answers: list[tuple[str, float, float]]
    """The same of bulk."""
    bulk_rows_per_second: float
    bulk_offered: float
    cpu_cores: float
    """CPU of the driver, its JVM and its Python workers, in cores."""
    batches: dict[str, int]
    target: float
    version: str
    """Of the engine."""
    loop_share: float | None = None
    """CPU of Laxity's own loop, in cores; None where it is not attached."""
    notes: list[str] = field(default_factory=list)
    cpu_by_second: list[tuple[float, float]] = field(default_factory=list)
    bulk_by_batch: list[tuple[float, int]] = field(default_factory=list)
    """(seconds into the run at which a bulk batch ended, its rows)"""
    batch_ends: list[float] = field(default_factory=list)
    """Of all queries, in seconds into the run."""
    tasks: list[tuple[str, int, float, float]] = field(default_factory=list)
    """(tenant, stage of its batch, start and end in seconds into the run) of every task."""

    @property
    def latencies(self) -> list[float]:
        return sorted(latency for _, _, latency in self.answers)

    def percentile(self, share: float) -> float:
        return _percentile(self.latencies, share)

    def bulk_percentile(self, share: float) -> float:
        return _percentile(sorted(latency for _, _, latency in self.bulk_answers), share)

    @property
    def spread(self) -> float:
        """Standard deviation of latency."""
        return statistics.pstdev(self.latencies) if self.answers else 0.0

    @property
    def met(self) -> float:
        ordered = self.latencies
        return sum(x <= self.target for x in ordered) / len(ordered) if ordered else 0.0

    @property
    def all_batches(self) -> int:
        return sum(self.batches.values())

    @property
    def cpu_per_batch(self) -> float:
        return self.cpu_cores * self.seconds / max(1, self.all_batches)


def _percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A job for a process of its own."""

    mode: Mode
    tenants: tuple[Tenant, ...]
    warmup: float
    seconds: float
    cores: int = CORES

    @property
    def label(self) -> str:
        return f"mode {self.mode.name!r}"

    def perform(self, scratch: Path, say: Say) -> dict[str, Any]:
        """Says how many seconds of warm-up and measurement are done."""
        if self.mode.engine == "flink":
            from laxity.bench import flink

            return asdict(flink.perform(self, scratch, say))
        return asdict(_on_spark(self, scratch, say))


def run_plan(plan: Plan, *, on_progress: Callable[[float], None] = lambda elapsed: None) -> Outcome:
    """`on_progress` is told the seconds done, of warm-up and measurement together."""
    return Outcome(**run_apart(plan, on_said=on_progress))


def _on_spark(plan: Plan, scratch: Path, say: Say) -> Outcome:
    from laxity.bench.stage import batches_in, rows_in, staged
    from laxity.bench.tasklog import TaskLog

    with staged(plan.mode, scratch, plan.cores, plan.tenants) as stage:
        log = TaskLog(stage.spark)
        stage.start(plan.tenants)
        stage.watch(plan.warmup, say)
        period = stage.watch(plan.seconds, lambda at: say(plan.warmup + at))
        tasks = log.between(period.began, period.until)
        stage.drain()
        seen = stage.observe(period)
        inside = {name: batches_in(each, period) for name, each in seen.items()}
        lax = [t.name for t in plan.tenants if not t.sensitive]
        attached = stage.laxity is not None
        return Outcome(
            mode=plan.mode.name,
            seconds=period.seconds,
            answers=stage.answers(seen, period),
            bulk_answers=stage.answers(seen, period, sensitive=False),
            bulk_rows_per_second=sum(rows_in(seen[n], period) for n in lax) / period.seconds,
            bulk_offered=stage.offered(period) / period.seconds,
            cpu_cores=period.cpu_seconds / period.seconds,
            batches={name: len(each) for name, each in inside.items()},
            target=next((t.target for t in plan.tenants if t.sensitive), 0.0),
            version=f"Spark {stage.spark.version}",
            loop_share=period.loop_seconds / period.seconds if attached else None,
            notes=[] if stage.laxity is None else _notes(stage.laxity, plan.tenants),
            cpu_by_second=period.cpu_by_second,
            bulk_by_batch=sorted((b.ended - period.began, b.rows) for n in lax for b in inside[n]),
            batch_ends=sorted(b.ended - period.began for each in inside.values() for b in each),
            tasks=tasks,
        )


def _notes(lx: Laxity, tenants: tuple[Tenant, ...]) -> list[str]:
    """What Laxity itself has to say of the run."""
    status = lx.status()
    missed = [lx.query(t.name).explain() for t in tenants if t.sensitive]
    return [str(status), *(m for m in missed if "missed" in m)]
