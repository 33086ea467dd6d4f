from __future__ import annotations

import math

import pytest

from laxity.sim.reproduce.report import Claim, Verdict, factor
from laxity.sim.results import JobResult, Latencies


def test_percentiles_are_within_a_hundredth() -> None:
    latencies = Latencies()
    for n in range(1, 1001):
        latencies.add(n / 1000, target=0.9)
    assert latencies.p50 == pytest.approx(0.5, rel=0.01)
    assert latencies.p99 == pytest.approx(0.99, rel=0.01)
    assert latencies.mean == pytest.approx(0.5005)
    assert latencies.met == pytest.approx(0.9)
    assert latencies.cdf()[-1][1] == 1.0


def test_memory_does_not_grow_with_samples() -> None:
    latencies = Latencies()
    for n in range(100_000):
        latencies.add(1e-7 * (n % 5000) ** 3)
    assert len(latencies._buckets) < 2500


def test_merging_is_adding() -> None:
    one, two, both = Latencies(), Latencies(), Latencies()
    for n in range(100):
        (one if n % 3 else two).add(n * 0.01)
        both.add(n * 0.01)
    merged = Latencies.merged([one, two])
    assert merged.p50 == both.p50
    assert merged.deviation == pytest.approx(both.deviation)


def test_without_samples_nothing_is_claimed() -> None:
    assert math.isnan(Latencies().p99)
    assert math.isnan(JobResult("a", "a", 1.0).success)


def test_results_that_never_came_are_misses() -> None:
    job = JobResult("a", "a", 1.0, expected=10.0)
    for _ in range(4):
        job.latencies.add(0.5, 1.0)
    assert job.success == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (factor("x", 3.0, 1.6), Verdict.AGREES),
        (factor("x", 3.0, 1.4), Verdict.DIRECTION),
        (factor("x", 3.0, 6.1), Verdict.DIRECTION),
        (factor("x", 3.0, 0.9), Verdict.DISAGREES),
        (factor("x", 3.0, math.nan), Verdict.DISAGREES),
        (Claim("x", "low", "low", True), Verdict.AGREES),
        (Claim("x", "low", "high", False), Verdict.DISAGREES),
        (Claim("x", 0.1, 0.0, True, "%"), Verdict.DIRECTION),
        (Claim("x", "4 %", "1 us", True, comparable=False), Verdict.SHOWN),
    ],
)
def test_verdicts(claim: Claim, verdict: Verdict) -> None:
    assert claim.verdict is verdict
