"""Arrivals of the contests: known in advance, alike in every mode."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laxity.bench.workloads.arrivals import (
    InvalidArrivalsError,
    Schedule,
    constant,
    pareto,
    skewed,
    square,
    trace,
)

ORIGIN = 1_700_000_000.0


def test_a_constant_rate_brings_that_many_rows() -> None:
    schedule = constant(1000, 30)
    assert schedule.rows == 30_000
    assert schedule.seconds == pytest.approx(30)
    assert schedule.rows_between(10, 20) == 10_000


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=40))
def test_rounding_to_whole_rows_loses_less_than_a_row_a_tick(rates: list[float]) -> None:
    schedule = Schedule.of_rates(rates, each=0.01)
    assert schedule.rows == pytest.approx(sum(rates) * 0.01, abs=1)
    assert schedule.rows_between(0, schedule.seconds) == schedule.rows


def test_a_window_is_complete_with_the_first_event_after_its_end() -> None:
    windows = list(constant(1000, 5).completions(1.0, ORIGIN))
    # The tick that begins with the window's end holds the first such event, and arrives whole.
    assert windows[0] == (ORIGIN + 1, pytest.approx(ORIGIN + 1.01))
    assert [end - ORIGIN for end, _ in windows] == [1, 2, 3, 4]


def test_a_window_waits_for_the_next_event_however_long_the_gap() -> None:
    silence = Schedule(((100, 10), (250, 0), (100, 10)))
    ends = dict(silence.completions(1.0, ORIGIN))
    assert ends[ORIGIN + 1] == ends[ORIGIN + 3] == pytest.approx(ORIGIN + 3.51)


def test_bursts_are_the_same_for_the_same_seed_and_heavy_tailed() -> None:
    bursts = pareto(1000, 600, seed=3)
    assert bursts == pareto(1000, 600, seed=3)
    assert bursts != pareto(1000, 600, seed=4)
    seconds = sorted(bursts.rows_between(s, s + 1) for s in range(600))
    assert seconds[-1] > 5 * seconds[300]


def test_a_square_wave_keeps_the_mean() -> None:
    wave = square(1000, 200)
    assert wave.rows == pytest.approx(200_000, rel=0.01)
    assert wave.rows_between(10, 20) == pytest.approx(3 * wave.rows_between(0, 10), rel=0.1)


def test_skew_is_two_hundredfold_and_adds_up() -> None:
    rates = skewed(64_000, 64)
    assert sum(rates) == pytest.approx(64_000)
    assert rates[-1] / rates[0] == pytest.approx(200)


def test_a_trace_holds_each_rate_until_the_next_line(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("seconds,rows_per_second\n0,100\n2,1000\n3,0\n")
    schedule = trace(file)
    assert schedule.seconds == pytest.approx(4)
    assert [schedule.rows_between(s, s + 1) for s in range(4)] == [100, 100, 1000, 0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "cannot read"),
        ("time,rows\n0,1\n", "columns seconds and rows_per_second"),
        ("seconds,rows_per_second\n0,many\n", "a number"),
        ("seconds,rows_per_second\n0,1\n", "two lines"),
        ("seconds,rows_per_second\n5,1\n2,1\n", "rising order"),
    ],
)
def test_a_bad_trace_says_what_is_wrong(tmp_path: Path, text: str | None, reason: str) -> None:
    file = tmp_path / "trace.csv"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InvalidArrivalsError, match=reason):
        trace(file)
