"""A fleet in virtual time, at the scale of Neptune's evaluation (§5): a fluid model around the real
`laxity.fleet`, which forecasts, scores and decides as it would on Spark.

A node serves computations in proportion to what they ask for. Beyond its capacity it also loses
some of it to contention (`contention`), as in the paper's figure 1. Times are seconds.
"""

from __future__ import annotations

import math
import time
import tracemalloc
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from laxity.fleet import (
    Conditions,
    DecisionSettings,
    FleetPlanner,
    Footprint,
    ForecastSettings,
    HoltWinters,
    InterferenceScore,
    Migrate,
    MigrationRequest,
    NodeManager,
    NodeReport,
    Nominations,
    PredictionRing,
    ScoreSettings,
    threshold_for,
)
from laxity.fleet.forecasts import Smoothing, fit_with_statsmodels
from laxity.fleet.interference import scores_at_home
from laxity.fleet.rings import Array

NODES, DEPLOYED, HOT = 15, 2250, 5
CAPACITY = 80.0
"""Computations at their mean rate that a node can serve: the paper's 70 fit, with some room."""
CONTENTION = 0.55
"""Fitted to one number, the +83.9 % of table 2: 150 computations then get what 54 would."""
STEP, ROUND = 5.0, 10.0
SEASON = 24
CORES = 12


@dataclass(frozen=True, slots=True)
class Setup:
    migrate: bool = True
    variable: bool = False
    external: float = 0.0
    """Part of the capacity that other processes take on a third of the nodes."""
    even: bool = False
    amplifier: int = 3
    minutes: float = 70.0
    seed: int = 1


@dataclass(slots=True)
class FleetRun:
    """One entry a step; migrations are times; thresholds are (time, ΔI threshold, variance)."""

    times: list[float] = field(default_factory=list)
    throughput: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    deviation: list[float] = field(default_factory=list)
    use: list[Array] = field(default_factory=list)
    migrations: list[float] = field(default_factory=list)
    thresholds: list[tuple[float, float, float]] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    forecast: list[tuple[float, float, float]] = field(default_factory=list)
    """(time, expected, seen) of one computation's rate."""

    def settled(self, values: list[float]) -> float:
        """The mean of the last fifth."""
        return float(np.mean(values[-max(len(values) // 5, 1) :]))


class _OneFit:
    """All computations follow the same kind of load: parameters are fitted once and shared."""

    def __init__(self) -> None:
        self._found: Smoothing | None = None

    def __call__(self, observations: Array, season: int) -> Smoothing:
        if self._found is None:
            self._found = fit_with_statsmodels(observations, season)
        return self._found


class Fleet:
    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._rng = np.random.default_rng(setup.seed)
        each = DEPLOYED // NODES
        place = np.repeat(np.arange(NODES), each)
        slot = np.tile(np.arange(each), NODES)
        # A fifth everywhere, and from the beginning of the run all of them on five nodes.
        uneven = (slot < each // 5) | (place < HOT)
        active = slot < 70 if setup.even or setup.external else uneven
        self.place = place[active]
        self.count = int(active.sum())
        self.phase = self._rng.uniform(0, SEASON * STEP, self.count)
        self.capacity = np.full(NODES, CAPACITY)
        self.outside = np.zeros(NODES)
        if setup.external:
            self.outside[:HOT] = setup.external
        self._score = InterferenceScore(ScoreSettings(setup.amplifier))
        # The threshold is the same number for every amplifier, as in the paper (§5.3).
        threshold = threshold_for(InterferenceScore(), load=0.9, share=1 / CAPACITY)
        self._decisions = DecisionSettings(threshold, consecutive=2, cooling_down=ROUND)
        self._planner = FleetPlanner(self._score, self._decisions)
        self._nominations = [Nominations(self._decisions) for _ in range(NODES)]
        self._forecaster = HoltWinters(
            ForecastSettings(season=SEASON, average=6, fits_a_step=200), fit=_OneFit()
        )
        for n in range(self.count):
            self._forecaster.add(f"c{n}")
        self.result = FleetRun()

    def rates(self, now: float) -> Array:
        """Messages in units of a computation's mean rate."""
        noise = self._rng.normal(1.0, 0.03, self.count)
        if not self.setup.variable:
            return np.maximum(noise, 0.0)
        # Load profiles share their period and drift in phase, so the whole fleet swells too.
        wave = 1 + 0.35 * np.sin(2 * np.pi * now / (SEASON * STEP) + 0.02 * self.phase)
        return np.maximum(wave * noise, 0.0)

    def run(self) -> FleetRun:
        for index in range(int(self.setup.minutes * 60 / STEP)):
            now = index * STEP
            rates = self.rates(now)
            if index:
                expected = float(self._forecaster.forecast(1)[0, 0])
                self.result.forecast.append((now, expected, float(rates[0])))
            served = self._serve(rates, now)
            # A node sees what arrives; a saturated one pushes back and sees less.
            self._forecaster.observe(rates)
            if self.setup.migrate and now > 0 and now % ROUND == 0:
                self._round(now, served)
        return self.result

    def _serve(self, rates: Array, now: float) -> Array:
        asked = np.bincount(self.place, weights=rates, minlength=NODES)
        room = self.capacity * (1 - self.outside)
        over = np.maximum(asked / room - 1, 0.0)
        served = np.minimum(asked, room) / (1 + CONTENTION * over)
        use = np.minimum(served / self.capacity + self.outside, 1.0)
        # Waiting grows as 1/(1 − use) and is bounded by the buffers of a node that pushes back.
        busy = np.minimum(asked / room, 0.98)
        delay = (1.0 / (1.0 - busy))[self.place]
        delay *= self._rng.lognormal(0.0, 0.3, self.count)
        result = self.result
        result.times.append(now)
        result.throughput.append(float(served.sum()))
        result.p99.append(float(np.percentile(delay, 99)))
        result.deviation.append(float(delay.std()))
        result.use.append(use)
        result.counts.append(len(result.migrations))
        load: Array = np.minimum(asked / self.capacity, 4.0)
        return load

    def _round(self, now: float, asked: Array) -> None:
        shape = self._score.shape
        levels = shape.averages(self._forecaster.forecast(math.ceil(180 / STEP)), STEP) / CAPACITY
        requests: list[MigrationRequest] = []
        for node in range(NODES):
            rows = np.flatnonzero(self.place == node)
            mine = levels[rows]
            own, other = float(min(asked[node], 1.0)), float(self.outside[node])
            use = min(own + other, 1.0)
            conditions = Conditions(
                (own + other) * CORES, CORES, own_load=own * CORES,
                bandwidth_use=use, own_bandwidth=own * use / max(own + other, 1e-9),
            )  # fmt: skip
            ring = PredictionRing(mine.sum(axis=0), now=now)
            self._planner.report(NodeReport(str(node), ring, conditions))
            scores = scores_at_home(self._score, mine, conditions)
            named = {f"c{row}": float(s) for row, s in zip(rows, scores, strict=True)}
            chosen = self._nominations[node].evaluate(named, now)
            if chosen is not None:
                own_ring = PredictionRing(levels[int(chosen[1:])], now=now)
                requests.append(MigrationRequest(chosen, str(node), own_ring, named[chosen]))
        for answer in self._planner.plan(requests, now):
            source = self._nominations[int(answer.source)]
            if isinstance(answer, Migrate):
                self.place[int(answer.computation[1:])] = int(answer.target)
                source.took_part(now)
                source.forget(answer.computation)
                self._nominations[int(answer.target)].took_part(now)
                self.result.migrations.append(now)
            elif answer.counts:
                source.rejected(answer.computation, now)
            if answer.threshold:
                self.result.thresholds.append((now, answer.threshold, answer.variance))


def run_fleet(*fields: Any) -> FleetRun:
    """By plain fields of `Setup`: points travel between processes."""
    return Fleet(Setup(*fields)).run()


def node_cost(computations: int, *, steps: int, seed: int = 1) -> tuple[float, float]:
    """What a node's part of this costs: share of a core with a step and a round every second, and
    KiB a computation. Its fits of forecasts are apart: they are rare."""
    rng = np.random.default_rng(seed)
    score = InterferenceScore()
    settings = DecisionSettings(threshold_for(score, load=0.9, share=1 / CAPACITY))
    tracemalloc.start()
    forecaster = HoltWinters(ForecastSettings(fits_a_step=computations), fit=_OneFit())
    node = NodeManager("node", score, settings, forecaster=forecaster)
    names = [f"c{n}" for n in range(computations)]
    for name in names:
        node.add(name, Footprint(1.0 / CAPACITY))
    spent = []
    for step in range(2 * forecaster.settings.season + steps):
        arrived = dict(zip(names, rng.normal(1.0, 0.03, computations).tolist(), strict=True))
        if step == 2 * forecaster.settings.season:
            kilobytes = tracemalloc.get_traced_memory()[0] / 1024 / computations
            tracemalloc.stop()  # it would count in the time
        began = time.process_time()
        node.observe(arrived)
        node.round(Conditions(CORES / 2, CORES, own_load=CORES / 2), float(step))
        spent.append(time.process_time() - began)
    return float(np.median(spent[-steps:])), kilobytes
