"""The search for how many queries a driver holds, without one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laxity.bench.density import _search
from laxity.bench.goals import density_goals, judge
from laxity.bench.modes import FAIR_TUNED, FIFO, LAXITY


@given(limit=st.integers(0, 200), most=st.integers(1, 150))
def test_the_search_finds_the_limit_to_within_an_eighth(limit: int, most: int) -> None:
    held = _search(most, lambda count: count <= limit)
    reachable = min(limit, most)
    assert held <= reachable
    assert reachable - held <= max(0, held // 8)


@given(limit=st.integers(1, 100), unlucky=st.integers(1, 100))
def test_one_bad_phase_does_not_end_the_search(limit: int, unlucky: int) -> None:
    tried: list[int] = []

    def holds(count: int) -> bool:
        tried.append(count)
        first = tried.count(count) == 1
        return count <= limit and not (count == unlucky and first)

    assert _search(100, holds) == _search(100, lambda count: count <= limit)


def test_density_is_compared_with_the_best_that_stock_spark_can_do() -> None:
    found = (FIFO, 6), (FAIR_TUNED, 8), (LAXITY, 20)
    results = {f"{mode.title}, no bulk": [held] for mode, held in found}
    (verdict,) = judge(density_goals(["no bulk"]), results)
    assert verdict.measured == "2.50 ×"
    assert not verdict.reached
