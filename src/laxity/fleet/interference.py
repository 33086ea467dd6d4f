"""The interference score (§4.1.3, figure 5): how much a computation adds to the strain of a node.

    ru    ← .5·rw[p−1] + rw[p] + .5·rw[p+1]
    rs    ← ruⁿ / (cpuFrac·bwFrac)ⁿ / ringRes
    cu    ← ru + .5·cw[p−1] + cw[p] + .5·cw[p+1]
    cs    ← cuⁿ / (cpuFrac·bwFrac)ⁿ / ringRes
    score ← score + (cs − rs)·(1 − dist/totalDist)

rw is the node *without* the computation, cw the computation; both as they weigh on that host
(`footprint.normalise`). What the figure leaves open are p−1 and p+1 at the ends of a ring. Here
they are the neighbours in time: across rings, the next ring's first window; before now, the current
window once more; after the horizon, nothing. Going round the circle instead would set the current
window beside the most distant one, and a collision now would score less than one in a second,
against property 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from laxity.fleet.errors import InvalidFleetSettingsError, InvalidRingError
from laxity.fleet.footprint import Conditions, factors_of_windows
from laxity.fleet.rings import DEFAULT_SHAPE, Array, PredictionRing, RingShape


@dataclass(frozen=True, slots=True)
class ScoreSettings:
    """The paper's choices (§5.3): a third of the cores and 30 % of the bandwidth stay free for
    bursts, and an amplifier of 3."""

    amplifier: int = 3
    cpu_fraction: float = 0.666
    bandwidth_fraction: float = 0.70

    def __post_init__(self) -> None:
        if int(self.amplifier) != self.amplifier or self.amplifier < 2:
            raise InvalidFleetSettingsError(
                f"the amplifier is an integer above 1, not {self.amplifier!r}"
            )
        for name in ("cpu_fraction", "bandwidth_fraction"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise InvalidFleetSettingsError(f"{name} is above 0 and at most 1, not {value!r}")


class InterferenceScore:
    """Figure 5 for one shape of rings: of one computation or, as rows of arrays, of many."""

    def __init__(
        self, settings: ScoreSettings | None = None, shape: RingShape = DEFAULT_SHAPE
    ) -> None:
        self.settings = settings or ScoreSettings()
        self.shape = shape
        limit = self.settings.cpu_fraction * self.settings.bandwidth_fraction
        self.weights: Array = (
            (1.0 - shape.distances / shape.horizon)
            / shape.resolutions
            / limit**self.settings.amplifier
        )

    def __call__(
        self,
        node: PredictionRing,
        computation: PredictionRing,
        conditions: Conditions | None = None,
    ) -> float:
        """The score of `computation` on a node whose ring, without it, is `node`."""
        if not node.shape == computation.shape == self.shape:
            raise InvalidRingError("ring, computation and score need the same shape")
        now = max(node.updated_at, computation.updated_at)
        factors = self.factors(conditions or Conditions())
        return float(
            self.of_values(node.at(now).values * factors, computation.at(now).values * factors)
        )

    def at_home(
        self,
        node: PredictionRing,
        computation: PredictionRing,
        conditions: Conditions | None = None,
    ) -> float:
        """The score where the computation runs now: `node` is the ring of all that runs there."""
        return self(node - computation, computation, conditions)

    def factors(self, conditions: Conditions) -> Array:
        """What a host multiplies the windows of every ring with."""
        factor = conditions.factor(self.settings.bandwidth_fraction)
        return factors_of_windows(factor, self.shape)

    def of_values(self, node: Array, computation: Array) -> Array:
        """Scores of levels that are already as they weigh on the host; the last axis are windows,
        the others broadcast."""
        usage = neighbourhood(node)
        return self.of_neighbourhoods(usage, neighbourhood(computation))

    def of_neighbourhoods(self, usage: Array, added: Array) -> Array:
        with_it = usage + added
        difference = _power(with_it, self.settings.amplifier)
        difference -= _power(usage, self.settings.amplifier)
        scores: Array = difference @ self.weights
        return scores


def neighbourhood(values: Array) -> Array:
    """.5·w[p−1] + w[p] + .5·w[p+1] for every window; the last axis are windows."""
    usage = values.copy()
    usage[..., 1:] += 0.5 * values[..., :-1]
    usage[..., 0] += 0.5 * values[..., 0]
    usage[..., :-1] += 0.5 * values[..., 1:]
    return usage


def _power(base: Array, exponent: int) -> Array:
    """Small integer powers; np.power is several times slower."""
    result = base * base
    for _ in range(exponent - 2):
        result *= base
    return result


def scores_at_home(
    score: InterferenceScore, computations: Array, conditions: Conditions | None = None
) -> Array:
    """The scores of all computations of one node at once: a row each, in the order of time."""
    factors = score.factors(conditions or Conditions())
    weighed = neighbourhood(computations * factors)
    others = np.maximum(weighed.sum(axis=0) - weighed, 0.0)
    return score.of_neighbourhoods(others, weighed)
