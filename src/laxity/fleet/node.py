"""The three periodic tasks of a node manager (§4.2): update the rings of its computations, sum them
for the orchestrator, score each computation and ask for one to be moved.

`observe` once a step with the messages of that step; `round` whenever a report is due.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from laxity.fleet.decisions import (
    DecisionSettings,
    MigrationRequest,
    NodeReport,
    Nominations,
    ScaleOut,
)
from laxity.fleet.errors import UnknownComputationError
from laxity.fleet.footprint import Conditions, Footprint
from laxity.fleet.forecasts import ArrivalRates, Forecaster, HoltWinters
from laxity.fleet.interference import InterferenceScore, scores_at_home
from laxity.fleet.rings import PredictionRing


@dataclass(frozen=True, slots=True)
class Handover:
    """What a node knows of a computation, for the node it moves to: without it, forecasts there
    would begin from nothing."""

    computation: str
    footprint: Footprint
    history: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Round:
    report: NodeReport
    scores: Mapping[str, float]
    request: MigrationRequest | None = None


class NodeManager:
    def __init__(
        self,
        node: str,
        score: InterferenceScore,
        decisions: DecisionSettings,
        *,
        forecaster: Forecaster | None = None,
        step: float = 1.0,
        smoothing: int = 5,
    ) -> None:
        self.node = node
        self._score = score
        self._nominations = Nominations(decisions)
        self._forecaster = forecaster or HoltWinters()
        self._step, self._smoothing = step, smoothing
        self._rates: dict[str, ArrivalRates] = {}
        self._footprints: dict[str, Footprint] = {}
        self._steps_ahead = math.ceil(score.shape.horizon / step)

    @property
    def computations(self) -> tuple[str, ...]:
        return tuple(self._forecaster.names)

    def add(self, computation: str, footprint: Footprint, history: Sequence[float] = ()) -> None:
        self._forecaster.add(computation, history)
        self._rates[computation] = ArrivalRates(self._smoothing, self._step)
        self._footprints[computation] = footprint

    def accept(self, handover: Handover) -> None:
        self.add(handover.computation, handover.footprint, handover.history)

    def hand_over(self, computation: str) -> Handover:
        """Forget a computation; what is known of it goes with it."""
        footprint = self._footprint(computation)
        history = self._forecaster.history(computation)
        self._forecaster.remove(computation)
        del self._rates[computation], self._footprints[computation]
        self._nominations.forget(computation)
        return Handover(computation, footprint, history)

    def measured(self, computation: str, footprint: Footprint) -> None:
        """What a message takes has changed."""
        self._footprint(computation)
        self._footprints[computation] = footprint

    def _footprint(self, computation: str) -> Footprint:
        try:
            return self._footprints[computation]
        except KeyError:
            raise UnknownComputationError(
                f"{self.node} does not run {computation!r}; it runs: "
                f"{', '.join(self._footprints) or 'nothing'}"
            ) from None

    def observe(self, messages: Mapping[str, float]) -> None:
        """The messages that came in one step; a computation not named got none."""
        names = self._forecaster.names
        self._forecaster.observe([self._rates[n].add(messages.get(n, 0.0)) for n in names])

    def round(self, conditions: Conditions, now: float) -> Round:
        shape = self._score.shape
        names = list(self._forecaster.names)
        forecast = self._forecaster.forecast(self._steps_ahead)
        multipliers = np.array([self._footprints[n].multiplier for n in names])
        levels = shape.averages(forecast, self._step) * multipliers[:, None]
        report = NodeReport(
            self.node, PredictionRing(levels.sum(axis=0), now=now, shape=shape), conditions
        )
        found = scores_at_home(self._score, levels, conditions)
        scores = dict(zip(names, found.tolist(), strict=True))
        chosen = self._nominations.evaluate(scores, now)
        if chosen is None:
            return Round(report, scores)
        ring = PredictionRing(levels[names.index(chosen)], now=now, shape=shape)
        return Round(report, scores, MigrationRequest(chosen, self.node, ring, scores[chosen]))

    def rejected(self, computation: str, now: float) -> ScaleOut | None:
        return self._nominations.rejected(computation, now)

    def took_part(self, now: float) -> None:
        self._nominations.took_part(now)
