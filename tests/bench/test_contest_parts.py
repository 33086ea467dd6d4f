"""Modes, mixes and the truth about latency: what a contest is made of, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from laxity.bench.modes import MODES, UnknownModeError, find_modes, find_spark_modes
from laxity.bench.workloads.arrivals import constant
from laxity.bench.workloads.mixes import MIXES, UnknownMixError, find_mix
from laxity.bench.workloads.tenants import alert, observe

ORIGIN = 1_700_000_000.0


def test_modes_are_found_by_name_and_by_group_once_each() -> None:
    names = [mode.name for mode in find_modes("fifo, laxity, stock")]
    assert names == ["fifo", "laxity", "fair", "fair-tuned", "triggers", "expert"]
    assert {mode.name for mode in find_modes("all")} == set(MODES) - {"flink"}


@pytest.mark.parametrize("names", ["", "fast", "fifo,fast"])
def test_an_unknown_mode_is_refused_with_the_known_ones(names: str) -> None:
    with pytest.raises(UnknownModeError):
        find_modes(names)


@pytest.mark.parametrize("names", ["alone", "fifo,flink"])
def test_what_only_a_mix_can_be_run_in_is_refused_elsewhere(names: str) -> None:
    with pytest.raises(UnknownModeError, match="contests of mixes only"):
        find_spark_modes(names)


def test_an_unknown_mix_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownMixError, match="standard"):
        find_mix("light")


@pytest.mark.parametrize("name", MIXES)
def test_a_mix_gives_the_same_tenants_whoever_asks(name: str) -> None:
    assert find_mix(name).tenants(30) == find_mix(name).tenants(30)


def test_a_window_is_answered_by_the_first_batch_whose_watermark_passed_its_end() -> None:
    tenant = alert(0, 10).arriving(constant(1000, 10))
    reports = [_report(at=1.2, watermark=0.0), _report(at=1.7, watermark=1.1), _report(2.3, 2.1)]
    seen = observe(tenant, ORIGIN, reports)
    assert [a.emitted - ORIGIN for a in seen.answers] == pytest.approx([1.7, 2.3])
    assert [a.latency for a in seen.answers] == pytest.approx([0.69, 0.29])


def test_a_batch_that_writes_nothing_answers_nothing() -> None:
    """With chained operators a window can leave a batch after the watermark has passed it."""
    tenant = alert(0, 10, query="ipq4").arriving(constant(1000, 10))
    seen = observe(tenant, ORIGIN, [_report(1.5, 1.1, rows=0), _report(2.0, 1.1)])
    assert [a.emitted - ORIGIN for a in seen.answers] == pytest.approx([2.0])


def _report(at: float, watermark: float, rows: int = 1) -> dict[str, Any]:
    """A batch that ended `at` seconds into the run, after 100 ms."""
    return {
        "timestamp": _stamp(at - 0.1),
        "durationMs": {"triggerExecution": 100, "addBatch": 60},
        "numInputRows": 500,
        "sink": {"numOutputRows": rows},
        "eventTime": {"watermark": _stamp(watermark)},
    }


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(ORIGIN + at, UTC).isoformat()
