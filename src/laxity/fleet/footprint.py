"""From arrivals to resource use, and the state of a host (§4.1.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from laxity.fleet.errors import InvalidFleetSettingsError
from laxity.fleet.rings import Array, PredictionRing, RingShape


def _not_negative(**values: float) -> None:
    for name, value in values.items():
        if not math.isfinite(value) or value < 0:
            raise InvalidFleetSettingsError(f"{name} is finite and not negative, not {value!r}")


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one message of a computation takes.

    `processing_time` stands for CPU (seconds of a core a message), `message_size` for bandwidth.
    Both only need a unit that all computations of a fleet share; a size of 1 where nobody measures
    it leaves the CPU to decide.
    """

    processing_time: float
    message_size: float = 1.0

    def __post_init__(self) -> None:
        _not_negative(processing_time=self.processing_time, message_size=self.message_size)

    @property
    def multiplier(self) -> float:
        return self.processing_time * self.message_size

    def project(self, arrivals: PredictionRing) -> PredictionRing:
        """Resource use, from a ring of messages a second."""
        return arrivals * self.multiplier


@dataclass(frozen=True, slots=True)
class Conditions:
    """How a host is right now.

    `load_average` is that of the last minute, `own_load` the part of it the node itself causes.
    `bandwidth_use` is a fraction of what the host has, `own_bandwidth` the node's part of that
    fraction. An idle host is the default.
    """

    load_average: float = 0.0
    cores: int = 1
    own_load: float | None = None
    bandwidth_use: float = 0.0
    own_bandwidth: float | None = None

    def __post_init__(self) -> None:
        if self.cores < 1:
            raise InvalidFleetSettingsError(f"a host has 1 core or more, not {self.cores}")
        _not_negative(load_average=self.load_average, bandwidth_use=self.bandwidth_use)
        _not_negative(own_load=self.own_load or 0.0, own_bandwidth=self.own_bandwidth or 0.0)

    @property
    def external_cpu(self) -> float:
        """1 − the fraction of the load average caused by the node."""
        return _external(self.own_load, self.load_average)

    @property
    def external_bandwidth(self) -> float:
        """1 − the fraction of the bandwidth used by the node."""
        return _external(self.own_bandwidth, self.bandwidth_use)

    def factor(self, bandwidth_limit: float) -> float:
        """What the node's expected use is multiplied with.

        The paper multiplies with load average a core, bandwidth in excess of the limit, and the
        external shares of CPU and bandwidth. Taken as they stand, a host with no excess or no
        external load would make the product 0, as if nobody ran there; so each counts from 1 up.
        """
        return (
            (1.0 + self.load_average / self.cores)
            * (1.0 + max(self.bandwidth_use - bandwidth_limit, 0.0))
            * (1.0 + self.external_cpu)
            * (1.0 + self.external_bandwidth)
        )


def _external(own: float | None, whole: float) -> float:
    if own is None or whole <= 0:
        return 0.0
    return 1.0 - min(own / whole, 1.0)


def factors_of_windows(factor: float, shape: RingShape) -> Array:
    """The factor of a host for each window: what was measured now says nothing of later, so only
    the innermost ring is multiplied."""
    factors = np.ones(shape.size)
    factors[shape.innermost] = factor
    return factors


def normalise(
    ring: PredictionRing, conditions: Conditions, bandwidth_limit: float
) -> PredictionRing:
    """A ring as it weighs on this host."""
    factors = factors_of_windows(conditions.factor(bandwidth_limit), ring.shape)
    return PredictionRing(ring.values * factors, now=ring.updated_at, shape=ring.shape)
