from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from laxity.host.errors import InvalidScheduleError
from laxity.host.normalise import (
    CPU_SHARES,
    CPU_WEIGHT,
    NICE,
    NICE_STEP,
    NICE_UNPRIVILEGED,
    Normaliser,
    Scale,
    discretise,
    exact_nice,
    log_min_max,
    min_max,
    proportional,
)

SCALES = [NICE, NICE_UNPRIVILEGED, CPU_SHARES, CPU_WEIGHT]
ANY = st.dictionaries(st.integers(), st.floats(-1e300, 1e300), min_size=1, max_size=30)
POSITIVE = st.dictionaries(st.integers(), st.floats(1e-9, 1e9), min_size=1, max_size=30)
CASES = [
    (method, scale)
    for method in (min_max, log_min_max, exact_nice, proportional)
    for scale in SCALES
    if (method is not exact_nice or scale in (NICE, NICE_UNPRIVILEGED))
    and (method is not proportional or scale in (CPU_SHARES, CPU_WEIGHT))
]


@pytest.mark.parametrize(("method", "scale"), CASES)
@given(priorities=ANY)
def test_range_is_kept_and_order_too(
    method: Normaliser[int], scale: Scale, priorities: dict[int, float]
) -> None:
    values = discretise(method(priorities, scale))
    low, high = sorted((scale.lax, scale.urgent))
    assert all(low <= value <= high for value in values.values())
    sign = 1 if scale.urgent > scale.lax else -1
    ranked = sorted(priorities, key=priorities.__getitem__)
    for lower, higher in itertools.pairwise(ranked):
        assert sign * values[lower] <= sign * values[higher]


@pytest.mark.parametrize("scale", SCALES)
@given(priorities=ANY)
def test_min_max_uses_the_whole_range(scale: Scale, priorities: dict[int, float]) -> None:
    low, high = min(priorities.values()), max(priorities.values())
    assume(high / 2 - low / 2 > 0)
    values = min_max(priorities, scale)
    assert min(values.values()) == pytest.approx(min(scale.lax, scale.urgent))
    assert max(values.values()) == pytest.approx(max(scale.lax, scale.urgent))


@given(st.lists(st.floats(0.0, 1e6), min_size=3, max_size=3, unique=True))
def test_min_max_keeps_the_ratio_of_differences(priorities: list[float]) -> None:
    low, mid, high = sorted(priorities)
    values = min_max({"low": low, "mid": mid, "high": high}, CPU_SHARES)
    part = (values["mid"] - values["low"]) / (values["high"] - values["low"])
    assert part == pytest.approx((mid - low) / (high - low), abs=1e-6)


@given(POSITIVE)
def test_log_min_max_puts_equal_ratios_at_equal_distances(priorities: dict[int, float]) -> None:
    base = min(priorities.values())
    values = log_min_max({"a": base, "b": base * 10, "c": base * 100}, CPU_WEIGHT)
    assert values["b"] - values["a"] == pytest.approx(values["c"] - values["b"])


@given(POSITIVE)
def test_exact_nice_gives_cpu_time_in_the_ratio_of_priorities(priorities: dict[int, float]) -> None:
    top = max(priorities.values())
    assume(top > min(priorities.values()))
    assume(math.log(top / min(priorities.values())) / math.log(NICE_STEP) < 39)
    values = exact_nice(priorities)
    urgent = min(values.values())
    assert urgent == -20
    for key, value in values.items():
        assert NICE_STEP ** (value - urgent) == pytest.approx(top / priorities[key])


def test_exact_nice_as_in_the_paper() -> None:
    # F(x) = n_max + (log p_max − log x) / log 1.25
    values = exact_nice({"a": 4.0, "b": 1.0})
    assert values["a"] == -20
    assert values["b"] == pytest.approx(-20 + math.log(4) / math.log(1.25))
    assert discretise(values) == {"a": -20, "b": -14}


def test_exact_nice_falls_back_to_min_max_where_the_ratio_is_too_wide() -> None:
    values = exact_nice({"a": 1e9, "b": math.sqrt(1e9), "c": 1.0})
    assert values == pytest.approx({"a": -20, "b": -0.5, "c": 19})


@given(POSITIVE)
def test_proportional_keeps_ratios_where_the_scale_is_wide_enough(
    priorities: dict[int, float],
) -> None:
    low, high = min(priorities.values()), max(priorities.values())
    assume(high / low < CPU_SHARES.urgent / CPU_SHARES.lax)
    values = proportional(priorities, CPU_SHARES)
    for key, value in values.items():
        assert value / max(values.values()) == pytest.approx(priorities[key] / high)


@pytest.mark.parametrize(("method", "scale"), CASES)
def test_equal_priorities_mean_no_preference(method: Normaliser[str], scale: Scale) -> None:
    values = method({"a": 3.0, "b": 3.0}, scale)
    assert values["a"] == values["b"]
    assert values["a"] == pytest.approx(scale.neutral)


@pytest.mark.parametrize(("method", "scale"), CASES)
def test_nothing_in_nothing_out(method: Normaliser[str], scale: Scale) -> None:
    assert method({}, scale) == {}


@pytest.mark.parametrize(("method", "scale"), CASES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_priority_that_is_no_number_is_refused(
    method: Normaliser[str], scale: Scale, bad: float
) -> None:
    with pytest.raises(InvalidScheduleError, match="'a' must be finite"):
        method({"a": bad, "b": 1.0}, scale)


def test_a_scale_without_its_neutral_value_is_refused() -> None:
    with pytest.raises(InvalidScheduleError, match="neutral"):
        Scale(lax=19, urgent=1, neutral=0)
