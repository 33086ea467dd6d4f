"""Runs the same tenants in several modes, each in a process of its own, and compares."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from laxity.bench.tenants import Tenant
from laxity.core.errors import LaxityError


class ContestError(LaxityError, RuntimeError):
    """A mode's process ended without an outcome."""


@dataclass(frozen=True, slots=True)
class Mode:
    """`laxity` holds the options of attach(), or is None for stock Spark."""

    name: str
    conf: dict[str, str] = field(default_factory=dict)
    laxity: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    mode: str
    answers: list[tuple[str, float, float]]
    """(tenant, seconds into the run, latency) of the latency-sensitive results."""
    bulk_rows_per_second: float
    cpu_cores: float
    batches: dict[str, int]
    target: float
    details: dict[str, Any]

    @property
    def latencies(self) -> list[float]:
        return sorted(latency for _, _, latency in self.answers)

    def percentile(self, share: float) -> float:
        ordered = self.latencies
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0

    @property
    def met(self) -> float:
        ordered = self.latencies
        return sum(x <= self.target for x in ordered) / len(ordered) if ordered else 0.0


def run_mode(
    mode: Mode,
    tenants: list[Tenant],
    *,
    warmup: float,
    seconds: float,
    master: str = "local[2]",
    on_progress: Callable[[float], None] = lambda elapsed: None,
) -> Outcome:
    """`on_progress` is told the seconds done, of warm-up and measurement together."""
    plan = asdict(mode) | {
        "mode": mode.name,
        "tenants": [asdict(t) for t in tenants],
        "warmup": warmup,
        "seconds": seconds,
        "master": master,
    }
    with tempfile.TemporaryDirectory(prefix="laxity-plan-") as folder:
        file = Path(folder, "plan.json")
        file.write_text(json.dumps(plan))
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
            raise ContestError(f"mode {mode.name!r} ended without an outcome: {last[0]}")
    return Outcome(
        mode=mode.name,
        answers=[(t, at, latency) for t, at, latency in outcome.pop("answers")],
        bulk_rows_per_second=outcome.pop("bulk_rows_per_second"),
        cpu_cores=outcome.pop("cpu_cores"),
        batches=outcome.pop("batches"),
        target=outcome.pop("target"),
        details=outcome,
    )


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
