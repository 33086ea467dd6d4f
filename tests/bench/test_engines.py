"""A contest's plan on the real engines: what comes back is whole. Nothing is said about speed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from laxity.bench.contest import Outcome, Plan, run_plan
from laxity.bench.flink import NotOnFlinkError, perform
from laxity.bench.flink_cluster import FlinkUnavailableError, flink_home
from laxity.bench.modes import FLINK, LAXITY, Mode
from laxity.bench.workloads.mixes import MIXES

SECONDS = 8.0


def plan(mode: Mode, mix: str = "standard") -> Plan:
    small = replace(MIXES[mix], alerts=1, bulk=1, bulk_rows=2000)
    return Plan(mode, small.tenants(120), warmup=12.0, seconds=SECONDS)


def check(outcome: Outcome, version: str) -> None:
    assert outcome.version.startswith(version)
    # Every window that was due is there, answered or not.
    due = [at for _, at, _ in outcome.answers]
    assert len(due) in {SECONDS - 1, SECONDS}
    assert all(latency > 0 for latency in outcome.latencies)
    assert outcome.bulk_offered == pytest.approx(2000, rel=0.01)
    assert outcome.bulk_rows_per_second > 0
    assert outcome.cpu_cores > 0
    assert len(outcome.cpu_by_second) >= SECONDS / 2


@pytest.mark.spark
@pytest.mark.slow
def test_a_plan_on_spark() -> None:
    told: list[float] = []
    outcome = run_plan(plan(LAXITY), on_progress=told.append)
    check(outcome, "Spark")
    assert told == sorted(told)
    assert set(outcome.batches) == {"alerts-0", "bulk-0"}
    assert {query for query, *_ in outcome.tasks} == {"alerts-0", "bulk-0"}
    assert {stage for _, stage, *_ in outcome.tasks} == {0, 1}
    assert outcome.loop_share is not None


@pytest.mark.flink
def test_a_plan_on_flink() -> None:
    try:
        flink_home()
    except FlinkUnavailableError as missing:
        pytest.skip(str(missing))
    check(run_plan(plan(FLINK)), "Flink")


def test_a_query_without_sql_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(NotOnFlinkError, match="ipq1"):
        perform(plan(FLINK, "ipq"), tmp_path, lambda said: None)
