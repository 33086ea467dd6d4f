from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laxity.core.frontier import LowWatermark
from laxity.core.jobs import TimeDomain
from laxity.core.progress import EventTimeMap, ProgressLine, progress_map

EPOCH = 1_790_000_000.0


def fitted(points: list[tuple[float, float]], **options: int) -> EventTimeMap:
    progress = EventTimeMap(**options)
    for p, t in points:
        progress.observe(p, t)
    return progress


def line_of(progress: EventTimeMap) -> ProgressLine:
    line = progress.line()
    assert line is not None
    return line


@pytest.mark.parametrize("domain", [TimeDomain.INGESTION, TimeDomain.PROCESSING])
def test_ingestion_and_processing_time_need_no_map(domain: TimeDomain) -> None:
    line = progress_map(domain).line()
    assert line is not None
    assert [line(p) for p in (0.0, 17.5, EPOCH)] == [0.0, 17.5, EPOCH]


def test_nothing_is_known_before_the_first_event() -> None:
    assert progress_map(TimeDomain.EVENT).line() is None


def test_a_delay_of_two_seconds() -> None:
    line = line_of(fitted([(float(p), p + 2.0) for p in range(10)]))
    assert [line(p) for p in (1, 11, 21)] == pytest.approx([3, 13, 23])


def test_one_point_or_a_standstill_is_taken_as_real_time() -> None:
    for points in ([(100.0, 103.0)], [(100.0, 103.0), (100.0, 104.0), (100.0, 105.0)]):
        line = line_of(fitted(points))
        assert line.slope == 1.0
        assert line(110.0) == 113.0


def test_a_burst_at_one_moment_is_taken_as_real_time() -> None:
    """A batch whose events are all seen at once says nothing about pace."""
    line = line_of(fitted([(float(p), 50.0) for p in range(10)]))
    assert line.slope == 1.0
    assert line(10.0) == 51.0, "from its newest event on"


def test_bursts_that_repeat_show_their_pace() -> None:
    """Ten events a second that are all seen when the second is over."""
    points = [(s + i / 10, s + 1.0) for s in range(6) for i in range(10)]
    line = line_of(fitted(points))
    assert line.slope == pytest.approx(1.0, abs=0.05)
    assert line(8.0) == pytest.approx(8.5, abs=0.2), "on average half a second after the event"


def test_a_fast_replay_has_a_small_slope() -> None:
    line = line_of(fitted([(60.0 * i, 1000.0 + i) for i in range(20)]))
    assert line.slope == pytest.approx(1 / 60)


def test_late_data_changes_nothing() -> None:
    on_time = [(float(p), p + 2.0) for p in range(20)]
    clean, noisy = fitted(on_time), fitted([])
    rng = random.Random(1)
    for p, t in on_time:
        noisy.observe(p, t)
        noisy.observe(p - 15 * rng.random(), t + 0.5)
    assert noisy.line() == clean.line()


def test_very_late_data_in_disorder_is_not_a_replay() -> None:
    progress = fitted([(float(p), p + 2.0) for p in range(100, 120)])
    before = progress.line()
    for p in (70.0, 20.0, 50.0, 10.0, 60.0, 30.0):
        progress.observe(p, 122.0)
    assert progress.line() == before


def test_one_timestamp_from_the_future_changes_nothing() -> None:
    progress = fitted([(float(p), p + 2.0) for p in range(20)])
    progress.observe(86_400.0, 22.0)
    for p in range(20, 40):
        progress.observe(float(p), p + 2.0)
    assert line_of(progress)(50.0) == pytest.approx(52.0)


@pytest.mark.parametrize(
    ("jump_p", "jump_t"),
    [(0.0, 500.0), (500.0, 0.0), (-500.0, 0.0)],
    ids=["a pause", "a leap ahead", "a replay"],
)
def test_after_a_jump_the_old_line_is_forgotten(jump_p: float, jump_t: float) -> None:
    progress = fitted([(p + 1000.0, p + 1002.0) for p in range(64)])
    for p in range(64, 68):
        progress.observe(p + 1000.0 + jump_p, p + 1002.0 + jump_t)
    line = line_of(progress)
    assert line(1100.0 + jump_p) == pytest.approx(1102.0 + jump_t, abs=0.01)


def test_history_is_bounded() -> None:
    """A stream that slows down: after `history` points only the new pace is left."""
    progress = fitted([(float(p), float(p)) for p in range(32)], history=16)
    for i in range(1, 20):
        progress.observe(31.0 + i, 31.0 + 1.2 * i)
    assert line_of(progress).slope == pytest.approx(1.2)


def test_precision_at_seconds_since_1970_after_a_long_run() -> None:
    progress = EventTimeMap()
    for i in range(20_000):
        progress.observe(EPOCH + 0.01 * i, EPOCH + 0.01 * i + 0.35)
    line = line_of(progress)
    assert line(EPOCH + 300.0) == pytest.approx(EPOCH + 300.35, abs=1e-3)
    assert progress.error() < 1e-4


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_progress_that_is_no_number_is_left_out(value: float) -> None:
    progress = fitted([(1.0, 2.0)])
    before = progress.line()
    progress.observe(value, 3.0)
    progress.observe(3.0, value)
    assert progress.line() == before


def test_a_history_needs_two_points() -> None:
    with pytest.raises(ValueError, match="at least 2 points, got 1"):
        EventTimeMap(1)


@given(
    start=st.sampled_from([0.0, EPOCH]),
    slope=st.floats(0.01, 20.0),
    delay=st.floats(0.0, 1e4),
    steps=st.lists(st.floats(0.05, 5.0), min_size=2, max_size=150),
    ahead=st.floats(0.0, 60.0),
)
def test_the_map_inverts_what_generated_it(
    start: float, slope: float, delay: float, steps: list[float], ahead: float
) -> None:
    p = start
    points = []
    for step in steps:
        p += step
        points.append((p, start + delay + slope * (p - start)))
    line = line_of(fitted(points))
    expected = start + delay + slope * (p + ahead - start)
    history = points[-64:]
    reach = 1.0 + (ahead + p - history[0][0]) / (history[-1][0] - history[0][0])
    assert line(p + ahead) == pytest.approx(expected, rel=1e-12, abs=1e-4 * reach)


@given(slope=st.floats(0.2, 5.0), noise=st.floats(0.0, 0.2), seed=st.integers(0, 1000))
def test_noise_is_averaged_out(slope: float, noise: float, seed: int) -> None:
    rng = random.Random(seed)
    points = [(float(p), slope * p + rng.uniform(-noise, noise)) for p in range(64)]
    line = line_of(fitted(points))
    assert line(70.0) == pytest.approx(slope * 70.0, abs=noise + 1e-6)


def test_the_low_watermark_is_that_of_the_slowest_source() -> None:
    low = LowWatermark(["a", "b"])
    assert not low.advance("a", 5.0)
    assert low.progress == -math.inf
    assert low.advance("b", 3.0)
    assert low.progress == 3.0
    assert not low.advance("b", 2.0), "late data moves nothing"
    assert low.advance("b", 9.0)
    assert (low.progress, low.of("b")) == (5.0, 9.0)


def test_a_low_watermark_needs_a_source() -> None:
    with pytest.raises(ValueError, match="at least one source"):
        LowWatermark([])


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-10, 10)), max_size=60))
def test_the_low_watermark_is_a_minimum(reports: list[tuple[int, float]]) -> None:
    low, reached = LowWatermark(range(4)), dict.fromkeys(range(4), -math.inf)
    for source, progress in reports:
        before = min(reached.values())
        reached[source] = max(reached[source], progress)
        assert low.advance(source, progress) == (min(reached.values()) > before)
        assert low.progress == min(reached.values())
