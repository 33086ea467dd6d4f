"""Holt-Winters against statsmodels' own, the cold start, and re-fitting."""

from __future__ import annotations

import numpy as np
import pytest

from laxity.fleet.errors import InvalidForecastError, UnknownComputationError
from laxity.fleet.forecasts import (
    ArrivalRates,
    Forecaster,
    ForecastSettings,
    HoltWinters,
    Smoothing,
    fit_with_statsmodels,
    initial_state,
)

SEASON = 24


def waves(steps: int, *, level: float = 100.0, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    t = np.arange(steps)
    return level + 0.4 * level * np.sin(2 * np.pi * t / SEASON) + rng.normal(0, 2, steps)


def fed(rates: np.ndarray, **settings: float) -> HoltWinters:
    forecaster: Forecaster = HoltWinters(ForecastSettings(season=SEASON, **settings))
    forecaster.add("a")
    for rate in rates:
        forecaster.observe([rate])
    assert isinstance(forecaster, HoltWinters)
    return forecaster


def test_until_two_seasons_are_seen_it_is_a_moving_average() -> None:
    rates = waves(2 * SEASON - 1)
    forecaster = fed(rates, average=5)
    assert not forecaster.seasonal("a")
    assert forecaster.forecast(3)[0] == pytest.approx([rates[-5:].mean()] * 3)
    forecaster.observe([100.0])
    assert forecaster.seasonal("a")


def test_it_goes_on_as_statsmodels_would() -> None:
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    rates = waves(100)
    forecaster = fed(rates)
    start = rates[: 2 * SEASON]
    found = fit_with_statsmodels(start, SEASON)
    level, trend, seasonal = initial_state(start, SEASON)
    theirs = ExponentialSmoothing(
        rates,
        trend="add",
        damped_trend=True,
        seasonal="add",
        seasonal_periods=SEASON,
        initialization_method="known",
        initial_level=level,
        initial_trend=trend,
        initial_seasonal=seasonal,
    ).fit(
        smoothing_level=found.level,
        smoothing_trend=found.trend,
        smoothing_seasonal=found.season,
        damping_trend=found.damping,
        optimized=False,
    )
    assert forecaster.forecast(40)[0] == pytest.approx(theirs.forecast(40))


def test_it_foresees_a_recurring_pattern() -> None:
    rates = waves(6 * SEASON)
    forecaster = fed(rates[: 5 * SEASON])
    error = np.abs(forecaster.forecast(SEASON)[0] - rates[5 * SEASON :]).mean()
    flat = np.abs(rates[5 * SEASON :] - 100.0).mean()
    assert error < flat / 5


def test_it_is_fitted_again_when_the_error_stays() -> None:
    forecaster = fed(waves(4 * SEASON), patience=5, tolerance=0.2)
    assert forecaster.fits == 1
    for rate in waves(4 * SEASON, level=900.0, seed=2):
        forecaster.observe([rate])
    assert forecaster.fits > 1
    ahead = forecaster.forecast(SEASON)[0]
    assert ahead.mean() == pytest.approx(900.0, rel=0.2)  # the tolerance: closer asks for no fit


def test_a_single_surprise_is_no_reason_to_fit_again() -> None:
    forecaster = fed(waves(4 * SEASON), patience=5)
    forecaster.observe([1000.0])
    for rate in waves(4, seed=3):
        forecaster.observe([rate])
    assert forecaster.fits == 1


def test_fits_are_spread_over_steps() -> None:
    forecaster = HoltWinters(
        ForecastSettings(season=4, fits_a_step=2), fit=lambda *_: Smoothing(0.5, 0.1, 0.1, 0.98)
    )
    for n in range(5):
        forecaster.add(f"q{n}", [1.0] * 8)
    counts = []
    for _ in range(4):
        forecaster.observe([1.0] * 5)
        counts.append(forecaster.fits)
    assert counts == [2, 4, 5, 5]


def test_history_moves_with_a_series() -> None:
    rates = waves(3 * SEASON)
    here = fed(rates)
    there = HoltWinters(ForecastSettings(season=SEASON))
    there.add("other")
    there.observe([5.0])
    there.add("a", here.history("a"))
    following = waves(3 * SEASON + 1)[-1]
    there.observe([5.0, following])
    assert there.seasonal("a")
    assert not there.seasonal("other")
    fresh = fed(np.append(rates, following))
    assert there.forecast(SEASON)[1] == pytest.approx(fresh.forecast(SEASON)[0], rel=0.15)


def test_series_come_and_go() -> None:
    forecaster = HoltWinters(ForecastSettings(season=4, average=2))
    for name in "abc":
        forecaster.add(name)
    forecaster.observe([1.0, 2.0, 3.0])
    forecaster.remove("b")
    assert list(forecaster.names) == ["a", "c"]
    assert forecaster.forecast(1)[:, 0].tolist() == [1.0, 3.0]
    with pytest.raises(UnknownComputationError, match="'b'"):
        forecaster.remove("b")


def test_forecasts_are_never_negative() -> None:
    rates = np.maximum(waves(3 * SEASON, level=20.0) - np.linspace(0, 30, 3 * SEASON), 0.0)
    assert fed(rates).forecast(200).min() >= 0.0


def test_arrivals_are_smoothed() -> None:
    rates = ArrivalRates(window=2, step=0.5)
    assert [rates.add(n) for n in (1, 3, 5)] == [2.0, 4.0, 8.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ForecastSettings(season=1),
        lambda: ForecastSettings(tolerance=0.0),
        lambda: fed(np.array([np.nan])),
        lambda: fed(np.array([-1.0])),
        lambda: fed(waves(3)).observe([1.0, 2.0]),
        lambda: fed(waves(3)).forecast(0),
        lambda: fed(waves(3)).add("a"),
        lambda: initial_state(waves(10), SEASON),
        lambda: ArrivalRates(window=0),
    ],
)
def test_what_makes_no_sense_is_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidForecastError):
        make()
