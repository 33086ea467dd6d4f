"""The score against figure 5 written out, and its two properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laxity.fleet.errors import InvalidFleetSettingsError
from laxity.fleet.footprint import Conditions, Footprint, normalise
from laxity.fleet.interference import InterferenceScore, ScoreSettings, scores_at_home
from laxity.fleet.rings import DEFAULT_SHAPE, PredictionRing, RingShape

seeds = st.integers(0, 999)
amplifiers = st.integers(2, 6)
SCORE = InterferenceScore()


def figure_5(rw: list[float], cw: list[float], shape: RingShape, settings: ScoreSettings) -> float:
    """The pseudocode, line by line."""
    n, fractions = settings.amplifier, settings.cpu_fraction * settings.bandwidth_fraction

    def neighbours(w: list[float], p: int) -> float:
        before = w[p - 1] if p else w[0]
        after = w[p + 1] if p + 1 < len(w) else 0.0
        return 0.5 * before + w[p] + 0.5 * after

    score, p = 0.0, 0
    total = shape.horizon
    for (windows, resolution), offset in zip(shape.rings, shape.offsets, strict=True):
        dist = offset
        for _ in range(windows):
            ru = neighbours(rw, p)
            rs = ru**n / fractions**n / resolution
            cu = ru + neighbours(cw, p)
            cs = cu**n / fractions**n / resolution
            score += (cs - rs) * (1 - dist / total)
            dist += resolution
            p += 1
    return score


@given(seeds, amplifiers)
def test_it_is_figure_5(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    for shape in (DEFAULT_SHAPE, RingShape(((4, 1.25), (3, 1.75))), RingShape(((1, 1.0),))):
        settings = ScoreSettings(n)
        rw, cw = rng.uniform(0, 2, shape.size), rng.uniform(0, 2, shape.size)
        ours = InterferenceScore(settings, shape)(
            PredictionRing(rw, now=0.0, shape=shape), PredictionRing(cw, now=0.0, shape=shape)
        )
        assert ours == pytest.approx(figure_5(rw.tolist(), cw.tolist(), shape, settings))


def test_the_papers_parameters_are_the_default() -> None:
    assert ScoreSettings() == ScoreSettings(3, 0.666, 0.70)


@given(st.floats(0.01, 10), st.floats(0, 10), amplifiers)
def test_property_1_the_sooner_the_more(level: float, load: float, n: int) -> None:
    """The same collision scores less in every later window, also across rings."""
    score = InterferenceScore(ScoreSettings(n))
    spikes = np.eye(DEFAULT_SHAPE.size) * level
    found = score.of_values(np.full(DEFAULT_SHAPE.size, load), spikes)
    assert (np.diff(found) < 0).all()


@given(seeds, st.integers(0, 89), amplifiers)
def test_property_2_the_fuller_the_more(seed: int, window: int, n: int) -> None:
    """A computation adds more where more is going on, and ever more so."""
    rng = np.random.default_rng(seed)
    score = InterferenceScore(ScoreSettings(n))
    own = rng.uniform(0.1, 1, 90)
    loads = np.zeros((4, 90))
    loads[:, window] = [0.0, 1.0, 2.0, 3.0]
    found = score.of_values(loads, own)
    steps = np.diff(found)
    assert (steps > 0).all()
    assert (np.diff(steps) >= -1e-9 * steps[1:]).all()


@given(amplifiers)
def test_property_2_three_that_meet_are_worse_than_two_that_meet_twice(n: int) -> None:
    score = InterferenceScore(ScoreSettings(n))
    own = np.zeros(90)
    own[[10, 20]] = 1.0
    apart, together = np.zeros(90), np.zeros(90)
    apart[[10, 20]] = 1.0
    together[10] = 2.0
    assert score.of_values(together, own) > score.of_values(apart, own)


@given(seeds)
def test_the_score_is_asymmetric(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, many = rng.uniform(0.1, 1, 90), rng.uniform(2, 9, 90)
    assert SCORE.of_values(many, one) != pytest.approx(SCORE.of_values(one, many))


@given(seeds, st.floats(0.1, 8))
def test_scores_of_a_whole_node_are_those_one_by_one(seed: int, load: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.uniform(0, 1, (7, 90))
    rings = [PredictionRing(row, now=3.0) for row in rows]
    node = PredictionRing.total(rings, now=3.0)
    conditions = Conditions(load, 4, own_load=load / 2, bandwidth_use=0.9, own_bandwidth=0.5)
    one_by_one = [SCORE.at_home(node, ring, conditions) for ring in rings]
    assert scores_at_home(SCORE, rows, conditions) == pytest.approx(one_by_one)


def test_rings_are_aligned_before_they_are_scored() -> None:
    rng = np.random.default_rng(1)
    node, own = (PredictionRing(rng.uniform(0, 1, 90), now=t) for t in (0.0, 7.0))
    assert SCORE(node, own) == SCORE(node.at(7.0), own)


def test_arrivals_become_resource_use() -> None:
    arrivals = PredictionRing(np.full(90, 100.0), now=0.0)
    assert Footprint(0.002, 50.0).project(arrivals).values[0] == pytest.approx(10.0)


def test_only_the_innermost_ring_is_normalised() -> None:
    ring = PredictionRing(np.ones(90), now=0.0)
    busy = Conditions(load_average=8.0, cores=8, own_load=2.0, bandwidth_use=0.8, own_bandwidth=0.6)
    found = normalise(ring, busy, 0.70).values
    assert found[:30] == pytest.approx([2.0 * 1.1 * 1.75 * 1.25] * 30)
    assert (found[30:] == 1.0).all()


def test_an_idle_host_leaves_a_ring_as_it_is() -> None:
    assert Conditions().factor(0.7) == 1.0
    assert Conditions(own_load=0.0).external_cpu == 0.0


@given(st.floats(0.1, 64), st.floats(0, 1), st.floats(0, 1))
def test_more_of_others_weighs_more(load: float, less: float, more: float) -> None:
    low, high = sorted((less, more))
    quiet = Conditions(load, 8, own_load=load * (1 - low))
    loud = Conditions(load, 8, own_load=load * (1 - high))
    assert quiet.factor(0.7) <= loud.factor(0.7)
    own = PredictionRing(np.ones(90), now=0.0)
    empty = PredictionRing(now=0.0)
    assert SCORE(empty, own, quiet) <= SCORE(empty, own, loud)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ScoreSettings(amplifier=1),
        lambda: ScoreSettings(cpu_fraction=0.0),
        lambda: ScoreSettings(bandwidth_fraction=1.5),
        lambda: Footprint(-1.0),
        lambda: Conditions(load_average=float("inf")),
        lambda: Conditions(cores=0),
    ],
)
def test_settings_out_of_range_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidFleetSettingsError):
        make()
