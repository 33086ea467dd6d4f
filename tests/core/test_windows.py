from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laxity.core.errors import InvalidWindowError
from laxity.core.progress import ProgressLine
from laxity.core.rules import Base, Facts, PriorityRule
from laxity.core.windows import Window, transform

EPOCH = 1_790_000_000.0


def test_a_tumbling_window_of_ten_seconds_has_its_frontier_every_tenth_second() -> None:
    """§4.3: "every 10th second (1, 11, 21 …)": the paper's windows start at 1."""
    window = Window.tumbling(10, origin=1)
    assert [window.frontier(p) for p in (-5, 0.5, 1, 5, 10.9, 11, 20)] == [1, 1, 11, 11, 11, 21, 21]
    assert [Window.tumbling(10).frontier(p) for p in (0, 9.999, 10)] == [10, 10, 20]


def test_with_two_seconds_of_delay_frontier_time_is_3_13_23() -> None:
    """§4.3, step 2: events take 2 s to arrive, so the map adds them to 1, 11, 21."""
    window, delayed = Window.tumbling(10, origin=1), ProgressLine(0.0, 2.0, 1.0)
    assert [delayed(window.frontier(p)) for p in (0, 1, 11)] == [3, 13, 23]
    rule = PriorityRule(Base.FRONTIER, 0.0, window.slide, window.origin, window.delay, delayed)
    assert [rule.evaluate(Facts(0.0, p)) for p in (0, 1, 11)] == [3, 13, 23]


def test_a_watermark_delay_moves_the_frontier_but_not_the_window() -> None:
    """In append mode a result is due at window end + watermark delay."""
    window = Window.tumbling("10s", delay="2s")
    assert window.next_end(11.9) == 10.0
    assert window.frontier(11.9) == 12.0
    assert window.frontier(12.0) == 22.0


def test_a_sliding_window_triggers_every_slide() -> None:
    window = Window.sliding("1min", "10s")
    assert [window.frontier(p) for p in (0, 10, 59, 60)] == [10, 20, 60, 70]


def test_transform_extends_only_where_the_sender_is_faster() -> None:
    window = Window.tumbling(10)
    assert transform(3.0, 0.0, window) == 10.0
    assert transform(5.0, 5.0, window) == 10.0
    assert transform(20.0, 10.0, window) == 20.0, "each message completes a window"
    assert transform(60.0, 60.0, window) == 60.0
    assert transform(3.0, 0.0, None) == 3.0, "a regular operator triggers at once"


@pytest.mark.parametrize(
    ("size", "slide", "says"),
    [
        (10, 11, "slide must be above zero and at most the window size 10, got 11"),
        (10, 0, "slide must be above zero"),
        (10, -1, "got -1"),
        (0, 0, "window size must be above zero, got 0"),
        (float("inf"), 1, "window size must be above zero, got inf"),
        (float("nan"), 1, "got nan"),
        (10, float("nan"), "got nan"),
    ],
)
def test_bad_windows_are_refused_by_name(size: float, slide: float, says: str) -> None:
    with pytest.raises(InvalidWindowError, match=says):
        Window(size, slide)


@pytest.mark.parametrize(("origin", "delay"), [(float("nan"), 0.0), (0.0, -1.0)])
def test_bad_origins_and_delays_are_refused(origin: float, delay: float) -> None:
    with pytest.raises(InvalidWindowError, match="origin must be finite and delay not negative"):
        Window(10, 10, origin, delay)


slides = st.floats(0.01, 1e5)


@given(
    progress=st.floats(0, 4 * EPOCH),
    slide=slides,
    origin=st.floats(0, 1e5),
    delay=st.floats(0, 1e5),
)
def test_the_frontier_is_the_first_boundary_ahead(
    progress: float, slide: float, origin: float, delay: float
) -> None:
    window = Window(slide, slide, origin, delay)
    ahead = window.frontier(progress) - progress
    rounding = 1e-5  # of doubles at 4 · 10⁹, where a microsecond is the last but one digit
    assert -rounding <= ahead <= slide + rounding
    rule = PriorityRule(Base.FRONTIER, 0.0, slide, origin, delay)
    assert rule.frontier_progress(progress) == window.frontier(progress), "to the bit"
