"""Bars of the timeline, from what was measured: without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from laxity.spark.timeline import bars
from laxity.spark.wire import StageDone

NOW = 1000.0


def stage(submitted: float, launched: float, runs: str) -> StageDone:
    return StageDone(
        *("q", 7, 0, 0, (), 2, submitted, launched, launched + 1.0, 1.0, 1.0),
        behind={"other": 2},
        runs=runs,
    )


def model(held: float, *stages: StageDone, ended: float = NOW - 1.0) -> Any:
    batch = SimpleNamespace(batch=7, held=held, started=NOW - 3.0, ended=ended)
    return SimpleNamespace(name="alerts", tenant="ads", history=[(batch, list(stages))])


def test_a_batch_is_held_then_waits_then_runs() -> None:
    waited = stage(NOW - 2.9, NOW - 2.5, "400:300:driver,400:500:driver")
    found = bars([model(0.5, waited)], NOW, 30.0, {"other": "pages"})
    assert [(b.phase, round(b.end - b.start, 3)) for b in found] == [
        ("held by the gate", 0.5),
        ("batch", 2.0),
        ("waiting for a slot", 0.4),
        ("running", 0.3),
        ("running", 0.5),
    ]
    assert found[2].behind == ("pages",)
    assert found[3].stage == "0 on driver"
    assert {b.batch for b in found} == {7}


def test_what_no_pixel_could_show_is_left_out() -> None:
    quick = stage(NOW - 2.9, NOW - 2.895, "5:4:driver,5:40:driver")
    assert [b.phase for b in bars([model(0.002, quick)], NOW, 30.0, {})] == ["batch", "running"]
    assert len(bars([model(0.002, quick)], NOW, 1.0, {})) == 5, "closer, they could"


def test_what_is_over_is_left_out() -> None:
    assert bars([model(0.5, ended=NOW - 31.0)], NOW, 30.0, {}) == ()
