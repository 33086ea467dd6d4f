"""Prediction rings: figure 3's example, and what must hold for any shape, time and load."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laxity.fleet.errors import InvalidRingError
from laxity.fleet.rings import DEFAULT_SHAPE, PredictionRing, RingShape

shapes = st.lists(st.integers(1, 8), min_size=1, max_size=4).flatmap(
    lambda sizes: st.lists(
        st.sampled_from([0.5, 1.0, 1.25, 2.0, 3.0]), min_size=len(sizes), max_size=len(sizes)
    ).map(lambda rs: RingShape(tuple(zip(sizes, sorted(rs), strict=True))))
)
times = st.floats(0, 1e6, allow_nan=False)
SMALL = RingShape(((3, 1.0), (2, 2.0)))


def levels(shape: RingShape, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0, 10, shape.size)


def test_figure_3_the_middle_ring_begins_where_the_inner_one_ends() -> None:
    shape = RingShape(((16, 1.25), (12, 1.75)))
    assert shape.offsets == (0.0, 20.0)
    assert shape.horizon == 41.0
    assert shape.distances[15] == 18.75
    assert shape.distances[16] == 20.0


def test_by_default_three_rings_look_three_minutes_ahead() -> None:
    assert DEFAULT_SHAPE.rings == ((30, 1.0), (30, 2.0), (30, 3.0))
    assert DEFAULT_SHAPE.horizon == 180.0
    assert DEFAULT_SHAPE.offsets == (0.0, 30.0, 90.0)


def test_time_moves_the_pointer_and_the_outer_ring_tells_what_comes_in() -> None:
    ring = PredictionRing([1, 2, 3, 40, 50], now=10.0, shape=SMALL)
    ring.advance(11.0)
    # 13–14 s was expected by the outer ring's first window; its own pointer has not moved.
    assert ring.values.tolist() == [2, 3, 40, 40, 50]
    ring.advance(12.0)
    assert ring.values.tolist() == [3, 40, 40, 50, 50]


def test_windows_that_have_not_passed_stay_in_place() -> None:
    ring = PredictionRing([1, 2, 3, 40, 50], now=10.0, shape=SMALL)
    ring.advance(10.9)
    assert ring.values.tolist() == [1, 2, 3, 40, 50]
    assert ring.updated_at == 10.9


@given(shapes, times, st.floats(0, 500), st.integers(0, 99))
def test_advancing_in_two_steps_or_beyond_keeps_known_windows(
    shape: RingShape, now: float, elapsed: float, seed: int
) -> None:
    values = levels(shape, seed)
    later = PredictionRing(values, now=now, shape=shape).at(now + elapsed)
    was, is_now = shape.pointers(now), shape.pointers(now + elapsed)
    for (first, last), before, after in zip(shape.bounds, was, is_now, strict=True):
        kept = max(last - first - (after - before), 0)
        assert later.values[first : first + kept].tolist() == values[last - kept : last].tolist()
    assert set(later.values) <= set(values)


@given(shapes, times, st.floats(0, 500), st.floats(0.1, 100))
def test_a_constant_load_stays_constant(
    shape: RingShape, now: float, elapsed: float, level: float
) -> None:
    ring = PredictionRing(np.full(shape.size, level), now=now, shape=shape).at(now + elapsed)
    assert (ring.values == level).all()


@given(shapes, times, times, times, st.integers(0, 99))
def test_sums_do_not_depend_on_order_and_subtraction_undoes_them(
    shape: RingShape, a: float, b: float, c: float, seed: int
) -> None:
    now = max(a, b, c)
    x, y, z = (
        PredictionRing(levels(shape, seed + k), now=t, shape=shape) for k, t in enumerate((a, b, c))
    )
    left, right = (x + y + z).at(now), (z + y + x).at(now)
    total = PredictionRing.total([y, z, x], now=now, shape=shape)
    # Adding aligns to the later of two; three clocks can only be compared at the latest.
    aligned = [ring.at(now) for ring in (x, y, z)]
    assert np.allclose((aligned[0] + aligned[1] + aligned[2]).values, total.values)
    assert left.updated_at == right.updated_at == now
    assert np.allclose((total - z).values, (aligned[0] + aligned[1]).values)


def test_subtraction_never_goes_below_nothing() -> None:
    small = PredictionRing(np.ones(90), now=0.0)
    large = PredictionRing(np.full(90, 2.0), now=1.0)
    assert (small - large).values.max() == 0.0


def test_a_forecast_is_averaged_over_each_window() -> None:
    forecast = np.arange(7.0)
    assert SMALL.averages(forecast, 1.0).tolist() == [0, 1, 2, 3.5, 5.5]
    assert SMALL.averages(np.array([[4.0]]), 1.0).tolist() == [[4.0] * 5]


@given(shapes, st.lists(st.floats(0, 100), min_size=1, max_size=40), st.sampled_from([0.5, 1, 2]))
def test_averages_keep_the_amount(shape: RingShape, rates: list[float], step: float) -> None:
    forecast = np.array(rates)
    amount = float(shape.averages(forecast, step) @ shape.resolutions)
    edges = np.minimum(np.arange(0, shape.horizon, step / 64), shape.horizon)
    picked = np.minimum((edges / step).astype(int), len(rates) - 1)
    assert amount == pytest.approx(float(forecast[picked].sum() * step / 64), rel=0.02, abs=3.0)


@given(shapes, times, st.integers(0, 99))
def test_a_ring_survives_the_wire(shape: RingShape, now: float, seed: int) -> None:
    ring = PredictionRing(levels(shape, seed), now=now, shape=shape)
    assert PredictionRing.from_wire(json.loads(json.dumps(ring.to_wire()))) == ring


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: RingShape(()), "at least one ring"),
        (lambda: RingShape(((0, 1.0),)), "1 or more windows"),
        (lambda: RingShape(((1, 2.0), (1, 1.0))), "outer rings are coarser"),
        (lambda: PredictionRing([1.0], now=0.0), "90 windows"),
        (lambda: PredictionRing([-1.0] * 90, now=0.0), "not negative"),
        (lambda: PredictionRing(now=float("nan")), "finite time"),
        (lambda: PredictionRing(now=5.0).advance(4.0), "only go forward"),
        (lambda: PredictionRing(now=0.0) + PredictionRing(now=0.0, shape=SMALL), "different"),
        (lambda: PredictionRing(now=0.0) * -1.0, "factor"),
        (lambda: PredictionRing.from_wire({"now": 0}), "no prediction ring"),
    ],
)
def test_what_makes_no_sense_is_refused(make, says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidRingError, match=says):
        make()
