"""Forecasts of arrival rates (§4.1.2), for all computations of a node at once.

Holt-Winters (additive season, damped additive trend). statsmodels finds the smoothing parameters;
carrying level, trend and season forward from one observation to the next is three lines, done here
for all series in one array operation, so that an agent can afford it every second. Until two
seasons are seen, a moving average stands in. If the error stays high, the parameters are fitted
anew on the latest two seasons alone.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from laxity.fleet.errors import (
    InvalidForecastError,
    MissingForecastLibraryError,
    UnknownComputationError,
)
from laxity.fleet.rings import Array


class Forecaster(Protocol):
    """Forecasts of many series on one clock. Any other model is put in by this interface."""

    @property
    def names(self) -> Sequence[str]:
        """The series, in the order of rows."""

    def add(self, name: str, history: Sequence[float] = ()) -> None:
        """A series from now on; `history` are its latest observations, if anyone has them."""

    def remove(self, name: str) -> None: ...

    def history(self, name: str) -> list[float]:
        """The latest observations, oldest first: they move with the computation."""

    def observe(self, rates: ArrayLike) -> None:
        """One step: a rate for each series."""

    def forecast(self, steps: int) -> Array:
        """Rates for the next `steps` steps, a row a series; never negative."""


@dataclass(frozen=True, slots=True)
class Smoothing:
    """The parameters of Holt-Winters: of level, trend and season, and how the trend dies away."""

    level: float
    trend: float
    season: float
    damping: float


Fit = Callable[[Array, int], Smoothing]
"""(observations, steps a season) → parameters."""


def fit_with_statsmodels(observations: Array, season: int) -> Smoothing:
    """Least squares of the one-step errors."""
    try:
        from statsmodels.tools.sm_exceptions import ConvergenceWarning
        from statsmodels.tsa.holtwinters import ExponentialSmoothing
    except ImportError as error:
        raise MissingForecastLibraryError(
            "Holt-Winters needs statsmodels; install it with: pip install 'laxity[fleet]'"
        ) from error
    level, trend, seasonal = initial_state(observations, season)
    with warnings.catch_warnings():
        # A search that stopped early has still found parameters; errors will ask for better ones.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        result = ExponentialSmoothing(
            observations,
            trend="add",
            damped_trend=True,
            seasonal="add",
            seasonal_periods=season,
            initialization_method="known",
            initial_level=level,
            initial_trend=trend,
            initial_seasonal=seasonal,
        ).fit()
    found = result.params
    return Smoothing(
        float(found["smoothing_level"]),
        float(found["smoothing_trend"]),
        float(found["smoothing_seasonal"]),
        float(found["damping_trend"]),
    )


def initial_state(observations: Array, season: int) -> tuple[float, float, Array]:
    """Level, trend a step and season, from the first two seasons."""
    if observations.size < 2 * season:
        raise InvalidForecastError(
            f"a season of {season} steps needs {2 * season} observations, not {observations.size}"
        )
    first, second = observations[:season], observations[season : 2 * season]
    trend = float(second.mean() - first.mean()) / season
    middle = (season - 1) / 2
    line = float(first.mean()) + trend * (np.arange(season) - middle)
    seasonal: Array = ((first - line) + (second - line - trend * season)) / 2
    return float(line[0]) - trend, trend, seasonal


@dataclass(frozen=True, slots=True)
class ForecastSettings:
    """`season` is in steps. `tolerance` is an error of the one-step forecast, as a fraction of the
    usual rate: `patience` steps above it in a row ask for a new fit. `fits_a_step` bounds what a
    step may cost when many series ask at once; the others wait with what they have."""

    season: int = 60
    average: int = 10
    tolerance: float = 0.25
    patience: int = 10
    fits_a_step: int = 1

    def __post_init__(self) -> None:
        if self.season < 2:
            raise InvalidForecastError(f"a season has 2 steps or more, not {self.season}")
        if self.average < 1 or self.patience < 1 or self.fits_a_step < 1 or self.tolerance <= 0:
            raise InvalidForecastError(
                "average, patience and fits_a_step are 1 or more, tolerance is above 0"
            )


class HoltWinters:
    """The default `Forecaster`."""

    def __init__(
        self, settings: ForecastSettings | None = None, fit: Fit = fit_with_statsmodels
    ) -> None:
        self.settings = settings or ForecastSettings()
        self._fit = fit
        self._names: list[str] = []
        self._rows: dict[str, int] = {}
        self._kept = max(3 * self.settings.season, self.settings.average)
        self._step = 0
        self._waiting: deque[str] = deque()
        self.fits = 0
        # One row a series.
        self._past = np.zeros((0, self._kept))
        self._season = np.zeros((0, self.settings.season))
        self._seen = np.zeros(0, dtype=np.int64)
        self._late = np.zeros(0, dtype=np.int64)
        """Steps in a row with too large an error."""
        self._fitted = np.zeros(0, dtype=np.bool_)
        self._level, self._trend, self._usual = (np.zeros(0) for _ in range(3))
        self._alpha, self._beta, self._gamma, self._phi = (np.zeros(0) for _ in range(4))

    _COLUMNS = (
        "_past", "_season", "_seen", "_late", "_fitted", "_level", "_trend", "_usual",
        "_alpha", "_beta", "_gamma", "_phi",
    )  # fmt: skip

    @property
    def names(self) -> Sequence[str]:
        return self._names

    def seasonal(self, name: str) -> bool:
        """Whether Holt-Winters has taken over from the moving average."""
        return bool(self._fitted[self._row(name)])

    def add(self, name: str, history: Sequence[float] = ()) -> None:
        if name in self._rows:
            raise InvalidForecastError(f"there is a series {name!r} already")
        row = self._rows[name] = len(self._names)
        self._names.append(name)
        for column in self._COLUMNS:
            held = getattr(self, column)
            setattr(
                self, column, np.concatenate([held, np.zeros((1, *held.shape[1:]), held.dtype)])
            )
        recent = _checked(history, None)[-self._kept :]
        if recent.size:
            self._past[row, (self._step - recent.size + np.arange(recent.size)) % self._kept] = (
                recent
            )
            self._seen[row] = recent.size
            self._usual[row] = recent.mean()
            self._ask([row])

    def remove(self, name: str) -> None:
        row = self._row(name)
        for column in self._COLUMNS:
            setattr(self, column, np.delete(getattr(self, column), row, axis=0))
        self._names.remove(name)
        self._rows = {name: row for row, name in enumerate(self._names)}
        if name in self._waiting:
            self._waiting.remove(name)

    def history(self, name: str) -> list[float]:
        return [float(rate) for rate in self._recent(self._row(name), self._kept)]

    def _row(self, name: str) -> int:
        try:
            return self._rows[name]
        except KeyError:
            raise UnknownComputationError(f"no series {name!r} is forecast") from None

    def _recent(self, row: int, most: int) -> Array:
        count = min(int(self._seen[row]), most, self._kept)
        recent: Array = self._past[row, (self._step - count + np.arange(count)) % self._kept]
        return recent

    def observe(self, rates: ArrayLike) -> None:
        rate = _checked(rates, len(self._names))
        column = self._step % self.settings.season
        expected = self._level + self._phi * self._trend + self._season[:, column]
        self._usual += (rate - self._usual) / np.minimum(self._seen + 1, self.settings.season)
        wrong = np.abs(expected - rate) > self.settings.tolerance * self._usual
        self._late = np.where(self._fitted & wrong, self._late + 1, 0)
        self._carry(rate, column)
        self._past[:, self._step % self._kept] = rate
        self._step += 1
        self._seen += 1
        asking = ~self._fitted & (self._seen >= 2 * self.settings.season)
        self._ask(np.flatnonzero(asking | (self._late >= self.settings.patience)).tolist())
        for _ in range(min(self.settings.fits_a_step, len(self._waiting))):
            self._fit_row(self._rows[self._waiting.popleft()])

    def _carry(self, rate: Array, column: int) -> None:
        """One step of the recursion, for the series that have a model."""
        on = self._fitted
        before = self._level + self._phi * self._trend
        seasonal = self._season[:, column]
        level = self._alpha * (rate - seasonal) + (1 - self._alpha) * before
        trend = self._beta * (level - self._level) + (1 - self._beta) * self._phi * self._trend
        season = self._gamma * (rate - before) + (1 - self._gamma) * seasonal
        self._level = np.where(on, level, self._level)
        self._trend = np.where(on, trend, self._trend)
        self._season[:, column] = np.where(on, season, seasonal)

    def _ask(self, rows: Sequence[int]) -> None:
        needed = 2 * self.settings.season
        for row in rows:
            name = self._names[row]
            if self._seen[row] >= needed and name not in self._waiting:
                self._waiting.append(name)

    def _fit_row(self, row: int) -> None:
        """Fit, and start anew from the beginning of what was fitted."""
        season = self.settings.season
        again = bool(self._fitted[row])
        recent = self._recent(row, 2 * season if again else self._kept)
        found = self._fit(recent, season)
        self.fits += 1
        level, trend, seasonal = initial_state(recent, season)
        for rate, place in zip(recent.tolist(), _cycle(season, recent.size), strict=True):
            before = level + found.damping * trend
            old = float(seasonal[place])
            seasonal[place] = found.season * (rate - before) + (1 - found.season) * old
            new = found.level * (rate - old) + (1 - found.level) * before
            trend = found.trend * (new - level) + (1 - found.trend) * found.damping * trend
            level = new
        self._level[row], self._trend[row] = level, trend
        begin = self._step - recent.size
        self._season[row, (begin + np.arange(season)) % season] = seasonal
        self._alpha[row], self._beta[row] = found.level, found.trend
        self._gamma[row], self._phi[row] = found.season, found.damping
        self._fitted[row], self._late[row] = True, 0

    def forecast(self, steps: int) -> Array:
        if steps < 1:
            raise InvalidForecastError(f"a forecast has 1 step or more, not {steps}")
        ahead = np.arange(1, steps + 1)
        damped = np.cumsum(self._phi[:, None] ** ahead, axis=1)
        places = (self._step + ahead - 1) % self.settings.season
        model = self._level[:, None] + damped * self._trend[:, None] + self._season[:, places]
        rates = np.where(self._fitted[:, None], model, self._averages()[:, None])
        return np.maximum(rates, 0.0)

    def _averages(self) -> Array:
        width = min(self.settings.average, self._kept)
        recent = self._past[:, (self._step - width + np.arange(width)) % self._kept]
        counted = np.arange(width) >= width - np.minimum(self._seen, width)[:, None]
        sums: Array = (recent * counted).sum(axis=1)
        averages: Array = sums / np.maximum(counted.sum(axis=1), 1)
        return averages


def _cycle(season: int, length: int) -> list[int]:
    return [n % season for n in range(length)]


def _checked(rates: ArrayLike, length: int | None) -> Array:
    values = np.asarray(rates, dtype=np.float64)
    if values.ndim != 1 or (length is not None and values.size != length):
        raise InvalidForecastError(f"expected {length} rates, got an array of {values.shape}")
    if not np.isfinite(values).all() or (values < 0).any():
        raise InvalidForecastError("rates are finite and not negative")
    return values


class ArrivalRates:
    """Counts of messages turned into smoothed rates, one a step (a mean over a sliding window)."""

    def __init__(self, window: int = 5, step: float = 1.0) -> None:
        if window < 1 or step <= 0:
            raise InvalidForecastError("a sliding window has 1 step or more, of more than 0 s")
        self.step = step
        self._window: deque[float] = deque(maxlen=window)

    def add(self, count: float) -> float:
        """The messages of one more step → the rate, smoothed."""
        self._window.append(count)
        return sum(self._window) / (len(self._window) * self.step)
