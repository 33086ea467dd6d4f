"""Runs tenants in one mode, in a process and a JVM of their own."""

from __future__ import annotations

import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laxity.bench.modes import Mode
from laxity.bench.tenants import Tenant
from laxity.core.errors import LaxityError

CORES = 2
SLACK = 60.0
"""Seconds for which rows go on arriving after the measurement, so that nothing runs dry in it."""


class ContestError(LaxityError, RuntimeError):
    """A mode's process ended without an outcome."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a worker process is to do."""

    mode: Mode
    tenants: tuple[Tenant, ...]
    warmup: float
    seconds: float
    cores: int = CORES


@dataclass(frozen=True, slots=True)
class Outcome:
    mode: str
    answers: list[tuple[str, float, float]]
    """(tenant, seconds into the run at which the last needed event arrived, latency) of the
    latency-sensitive results. What had not left at the end counts with the time it had waited."""
    bulk_rows_per_second: float
    bulk_offered: float
    cpu_cores: float
    """CPU of the driver, its JVM and its Python workers, in cores."""
    batches: dict[str, int]
    target: float
    spark: str
    loop_share: float | None
    """CPU of Laxity's own loop, in cores; None where it is not attached."""
    notes: list[str]

    @property
    def latencies(self) -> list[float]:
        return sorted(latency for _, _, latency in self.answers)

    def percentile(self, share: float) -> float:
        ordered = self.latencies
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0

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


def run_plan(plan: Plan, *, on_progress: Callable[[float], None] = lambda elapsed: None) -> Outcome:
    """`on_progress` is told the seconds done, of warm-up and measurement together."""
    with tempfile.TemporaryDirectory(prefix="laxity-plan-") as folder:
        file = Path(folder, "plan")
        file.write_bytes(pickle.dumps(plan))
        errors = Path(folder, "stderr.txt")
        with (
            errors.open("w") as stderr,
            subprocess.Popen(
                [sys.executable, "-m", "laxity.bench.worker", str(file)],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            ) as worker,
        ):
            try:
                outcome = _follow(worker, on_progress)
            finally:
                worker.terminate()
        if outcome is None:
            last = errors.read_text().strip().splitlines()[-1:] or ["no output"]
            raise ContestError(f"mode {plan.mode.name!r} ended without an outcome: {last[0]}")
    answers = [(t, at, latency) for t, at, latency in outcome.pop("answers")]
    return Outcome(mode=plan.mode.name, answers=answers, **outcome)


def _follow(
    worker: subprocess.Popen[str], on_progress: Callable[[float], None]
) -> dict[str, Any] | None:
    assert worker.stdout is not None
    outcome = None
    for text in worker.stdout:
        try:
            line = json.loads(text)
        except ValueError:
            continue  # Spark prints a line of its own now and then
        if "progress" in line:
            on_progress(line["progress"])
        outcome = line.get("outcome", outcome)
    worker.wait()
    return outcome
