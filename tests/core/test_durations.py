from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laxity.core.durations import format_duration, parse_duration, parse_target
from laxity.core.errors import InvalidDurationError, LaxityError


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("800ms", 0.8),
        ("250 us", 0.00025),
        ("250µs", 0.00025),  # the micro sign
        ("250μs", 0.00025),  # the Greek letter
        ("1.5s", 1.5),
        (".5s", 0.5),
        ("90 Seconds", 90.0),
        ("30min", 1800.0),
        ("2m", 120.0),
        ("2h", 7200.0),
        ("1h 30min", 5400.0),
        ("1h30m", 5400.0),
        ("  3 days ", 259200.0),
        (5, 5.0),
        (0.25, 0.25),
        (0, 0.0),
        (timedelta(minutes=2), 120.0),
    ],
)
def test_durations_as_people_write_them(written: Any, seconds: float) -> None:
    assert parse_duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "written", ["8 parsecs", "", "  ", "fast", "5", "-5s", "1h later", "s", "1,5s"]
)
def test_what_is_no_duration_is_named_with_what_is_accepted(written: str) -> None:
    with pytest.raises(InvalidDurationError, match='"800ms"') as caught:
        parse_duration(written, name="target")
    assert "target" in str(caught.value)
    assert written.strip() in str(caught.value)


@pytest.mark.parametrize("value", [-1, -0.001, math.inf, math.nan, timedelta(seconds=-1), 10**400])
def test_negative_and_endless_durations_are_refused(value: Any) -> None:
    with pytest.raises(InvalidDurationError, match="must be finite and not negative"):
        parse_duration(value)


@pytest.mark.parametrize("value", [True, None, [1]])
def test_other_types_are_refused(value: Any) -> None:
    with pytest.raises(InvalidDurationError, match="cannot be"):
        parse_duration(value)


def test_a_target_is_above_zero() -> None:
    assert parse_target("800ms") == 0.8
    with pytest.raises(InvalidDurationError, match="target must be above zero, got '0s'"):
        parse_target("0s")
    with pytest.raises(LaxityError, match="-3"):
        parse_target(-3)


@pytest.mark.parametrize(
    ("seconds", "reads"),
    [
        (0.8, "800ms"),
        (0.000012, "12us"),
        (1.0, "1s"),
        (90.0, "90s"),
        (1800.0, "30min"),
        (5400.0, "1.5h"),
        (172800.0, "2d"),
        (0.0, "0s"),
        (-2.0, "-2s"),
        (math.inf, "unbounded"),
    ],
)
def test_durations_read_well(seconds: float, reads: str) -> None:
    assert format_duration(seconds) == reads


@given(st.floats(1e-6, 1e7))
def test_what_is_written_can_be_read_again(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=0.006)
