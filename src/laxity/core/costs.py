"""What a message costs at an operator, and what lies on the critical path after it.

The paper profiles C_o and C_path (§4.2.1, §5.3). Here a profile is a running mean with its
spread; `path_costs` is the recursive maximum that the replies of Algorithm 1 add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from laxity.core.errors import InvalidCostError
from laxity.core.jobs import Job

Perturbation = Callable[[float], float]


def check_cost(cost: float) -> float:
    if not (math.isfinite(cost) and cost >= 0):
        raise InvalidCostError(f"a cost is finite seconds and not negative, got {cost!r}")
    return cost


class CostProfile:
    """Exponentially weighted mean and standard deviation of an operator's measured costs.

    The first measurements count fully (a plain mean), later ones with weight `alpha`, so that a
    profile is right after one message and follows drift afterwards.
    """

    __slots__ = ("_mean", "_variance", "alpha", "count")

    def __init__(self, initial: float = 0.0, *, alpha: float = 0.2) -> None:
        if not 0 < alpha <= 1:
            raise ValueError(f"alpha must be above 0 and at most 1, got {alpha!r}")
        self._mean = check_cost(initial)
        self._variance = 0.0
        self.alpha = alpha
        self.count = 0

    def update(self, cost: float) -> None:
        check_cost(cost)
        self.count += 1
        weight = max(self.alpha, 1.0 / self.count)
        delta = cost - self._mean
        self._mean += weight * delta
        self._variance = (1.0 - weight) * (self._variance + weight * delta * delta)

    @property
    def mean(self) -> float:
        return self._mean

    @property
    def spread(self) -> float:
        return math.sqrt(self._variance)


def path_costs(job: Job, costs: Mapping[str, float]) -> dict[str, float]:
    """C_path of every stage: the dearest way from behind it to any output of the job."""
    path: dict[str, float] = {}
    for stage in reversed(job.topological_order):
        path[stage] = max(
            (costs.get(down, 0.0) + path[down] for down in job.downstream[stage]), default=0.0
        )
    return path
