"""A batch's cost told apart into a fixed part and a part a row."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laxity.core.cost_line import CostLine
from laxity.core.errors import LaxityError


def test_finds_the_line_that_costs_lie_on() -> None:
    line = CostLine()
    for rows in (100, 1000, 250, 4000):
        line.update(rows, 0.06 + rows * 2e-5)
    assert line.fixed == pytest.approx(0.06)
    assert line.per_row == pytest.approx(2e-5)
    assert line(2000) == pytest.approx(0.1)


def test_sizes_that_are_all_alike_promise_nothing_from_smaller_batches() -> None:
    line = CostLine()
    for _ in range(20):
        line.update(1000, 0.1)
    assert (line.fixed, line.per_row) == (pytest.approx(0.1), 0.0)


def test_forgets_what_is_long_ago() -> None:
    line = CostLine(fade=0.8)
    for rows in (10, 1000) * 10:
        line.update(rows, 1.0 + rows * 1e-3)
    for rows in (10, 1000) * 60:
        line.update(rows, 0.1 + rows * 1e-4)
    assert line.fixed == pytest.approx(0.1, rel=0.01)


def test_refuses_a_cost_that_is_none() -> None:
    with pytest.raises(LaxityError):
        CostLine().update(10, math.nan)


@given(st.lists(st.tuples(st.integers(0, 10**7), st.floats(0, 1e4)), min_size=1, max_size=50))
def test_neither_part_is_ever_negative(seen: list[tuple[int, float]]) -> None:
    line = CostLine()
    for rows, cost in seen:
        line.update(rows, cost)
    assert line.fixed >= -1e-9
    assert line.per_row >= 0.0
    assert line.count == len(seen)
