"""The search for a batch size, against costs that it does not know."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laxity.control.tuning import BatchSizeSearch


def measure(size: int, rate: float, fixed: float, per_row: float) -> tuple[float, bool]:
    """Latency of the first row of a batch, and whether batches end before the next is full."""
    fill, takes = size / rate, fixed + per_row * size
    return fill + takes, takes <= fill


def search(bound: float, start: int, rate: float, fixed: float, per_row: float) -> BatchSizeSearch:
    found = BatchSizeSearch(bound, start, largest=2**20)
    for _ in range(60):
        over = found.settled
        found.observe(*measure(found.size, rate, fixed, per_row))
        if over:
            return found
    raise AssertionError("it never settles")


def test_the_four_phases_of_figure_11() -> None:
    """40K is overloaded, 80K fits, 160K is too late, 80K it stays."""
    found = search(0.5, 40_000, rate=470_000, fixed=0.06, per_row=0.75e-6)
    assert [(p.size, p.verdict) for p in found.phases] == [
        (40_000, "cannot keep up"),
        (80_000, "fits"),
        (160_000, "too late"),
        (80_000, "settled"),
    ]
    assert found.fits


def test_too_late_from_the_beginning_is_halved() -> None:
    found = search(0.5, 400_000, rate=470_000, fixed=0.06, per_row=0.75e-6)
    assert [p.size for p in found.phases] == [400_000, 200_000, 100_000, 100_000]
    assert found.fits


def test_where_nothing_fits_it_says_so_and_keeps_up() -> None:
    found = search(0.1, 40_000, rate=470_000, fixed=0.06, per_row=0.75e-6)
    assert not found.fits
    assert found.phases[-1].kept_up
    assert found.phases[-1].verdict == "settled, and no longer fits"


@given(
    bound=st.floats(0.01, 100),
    start=st.integers(1, 2**19),
    rate=st.floats(1, 1e6),
    fixed=st.floats(0, 10),
    per_row=st.floats(0, 1e-3),
)
def test_it_settles_and_what_it_calls_fitting_fits(
    bound: float, start: int, rate: float, fixed: float, per_row: float
) -> None:
    found = search(bound, start, rate, fixed, per_row)
    latency, kept_up = measure(found.size, rate, fixed, per_row)
    if found.fits:
        assert kept_up
        assert latency <= bound
    tried_and_good = [p.size for p in found.phases if p.kept_up and p.latency <= bound]
    assert found.fits == bool(tried_and_good)
