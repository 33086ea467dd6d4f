"""Prediction rings (§4.1.1): what is expected of a computation, or of a node, from now on.

A ring is a circle of windows; each further ring begins where the one inside ends, with coarser
windows. A window holds a *level* (messages a second, and after projection resource use), not an
amount: a load then has the same value in a fine and in a coarse window, which is what lets the
score weigh the distant less (§4.1.3, property 1).

Window j of a ring with resolution r and offset o covers [j·r + o, (j+1)·r + o) of absolute time
and is kept at place j mod size. So time moves the pointer and nothing else; only windows that have
passed are written anew. And rings of different machines lie on the same grid: brought to the same
`now`, they can be added window by window.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from laxity.fleet.errors import InvalidRingError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RingShape:
    """(windows, seconds a window) of each ring, from the innermost outwards.

    Flat arrays (`values`, `distances`, …) have one place a window: ring by ring, and inside a ring
    in the order of time from the current window on.
    """

    rings: tuple[tuple[int, float], ...] = ((30, 1.0), (30, 2.0), (30, 3.0))

    def __post_init__(self) -> None:
        if not self.rings:
            raise InvalidRingError("a prediction ring needs at least one ring")
        previous = 0.0
        for windows, resolution in self.rings:
            if windows < 1 or not math.isfinite(resolution) or resolution <= 0:
                raise InvalidRingError(
                    f"a ring has 1 or more windows of more than 0 s, not {windows} of {resolution}"
                )
            if resolution < previous:
                raise InvalidRingError(
                    f"outer rings are coarser: {resolution} s cannot follow {previous} s"
                )
            previous = resolution

    @cached_property
    def size(self) -> int:
        """Windows of all rings."""
        return sum(windows for windows, _ in self.rings)

    @cached_property
    def horizon(self) -> float:
        """Seconds ahead that all rings together cover (the paper's totalDist)."""
        return math.fsum(windows * resolution for windows, resolution in self.rings)

    @cached_property
    def offsets(self) -> tuple[float, ...]:
        """Where each ring begins: the capacity of the rings inside it."""
        found, offset = [], 0.0
        for windows, resolution in self.rings:
            found.append(offset)
            offset += windows * resolution
        return tuple(found)

    @cached_property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """[first, last) place of each ring in flat arrays."""
        found, first = [], 0
        for windows, _ in self.rings:
            found.append((first, first + windows))
            first += windows
        return tuple(found)

    @cached_property
    def innermost(self) -> slice:
        return slice(0, self.rings[0][0])

    @cached_property
    def resolutions(self) -> Array:
        """Seconds of each window."""
        return np.repeat([r for _, r in self.rings], [n for n, _ in self.rings])

    @cached_property
    def distances(self) -> Array:
        """Seconds from now to the beginning of each window (the paper's dist)."""
        return np.concatenate(
            [o + r * np.arange(n) for (n, r), o in zip(self.rings, self.offsets, strict=True)]
        )

    def pointers(self, now: float) -> tuple[int, ...]:
        """The current window of each ring."""
        return tuple(math.floor(now / resolution) for _, resolution in self.rings)

    def averages(self, forecast: Array, step: float) -> Array:
        """Levels for each window from a forecast in steps of `step` seconds from now on; several
        forecasts at once as rows. The last step stands for all that follows."""
        steps = forecast.shape[-1]
        if steps < 1 or step <= 0:
            raise InvalidRingError("a forecast needs at least one step of more than 0 s")
        # The integral of a step function is linear between steps: windows are differences of it.
        edges = np.append(self.distances, self.horizon) / step
        whole = np.minimum(edges.astype(np.int64), steps)
        sums = np.zeros((*forecast.shape[:-1], steps + 1))
        np.cumsum(forecast, axis=-1, out=sums[..., 1:])
        last = np.minimum(whole, steps - 1)
        integral = sums[..., whole] + forecast[..., last] * (edges - whole)
        levels: Array = np.diff(integral, axis=-1) * (step / self.resolutions)
        return levels


DEFAULT_SHAPE = RingShape()
"""30 windows each of 1, 2 and 3 s: the next three minutes (§4.1.1)."""


class PredictionRing:
    """Levels expected in each window, as of `updated_at`."""

    __slots__ = ("_places", "_pointers", "_store", "shape", "updated_at")

    def __init__(
        self,
        values: ArrayLike | None = None,
        *,
        now: float,
        shape: RingShape = DEFAULT_SHAPE,
    ) -> None:
        self.shape = shape
        self._store: Array = np.zeros(shape.size)
        self._place(now)
        if values is not None:
            self.fill(values)

    def _place(self, now: float) -> None:
        if not math.isfinite(now):
            raise InvalidRingError(f"a ring needs a finite time, not {now!r}")
        self.updated_at = now
        self._pointers = self.shape.pointers(now)
        # Where in the store the windows lie, in the order of time.
        self._places = np.concatenate(
            [
                first + (pointer + np.arange(last - first)) % (last - first)
                for (first, last), pointer in zip(self.shape.bounds, self._pointers, strict=True)
            ]
        )

    @property
    def values(self) -> Array:
        """Levels in the order of time, ring by ring (a copy)."""
        ordered: Array = self._store[self._places]
        return ordered

    def fill(self, values: ArrayLike) -> None:
        """New predictions for every window."""
        given = np.asarray(values, dtype=np.float64)
        if given.shape != (self.shape.size,):
            raise InvalidRingError(
                f"this ring has {self.shape.size} windows, values have shape {given.shape}"
            )
        if not np.isfinite(given).all() or (given < 0).any():
            raise InvalidRingError("expected levels are finite and not negative")
        self._store[self._places] = given

    def advance(self, now: float) -> None:
        """Move the pointers to `now`. Windows that have passed become the far end of their ring:
        they take what the rings further out expected for that time, and beyond the horizon what
        the last window expected."""
        if now < self.updated_at:
            raise InvalidRingError(f"rings only go forward: {now} is before {self.updated_at}")
        pointers = self.shape.pointers(now)
        if pointers == self._pointers:
            self.updated_at = now
            return
        old, was = self.values, self._pointers
        fresh = [self._advanced(ring, pointer, old, was) for ring, pointer in enumerate(pointers)]
        self._place(now)
        self._store[self._places] = np.concatenate(fresh)

    def _advanced(self, ring: int, pointer: int, old: Array, was: tuple[int, ...]) -> Array:
        shape = self.shape
        first, last = shape.bounds[ring]
        windows, resolution = shape.rings[ring]
        passed = min(pointer - was[ring], windows)
        middle = (pointer + np.arange(windows - passed, windows) + 0.5) * resolution
        middle += shape.offsets[ring]
        found = np.full(passed, old[-1])
        unknown = np.ones(passed, dtype=np.bool_)
        for outer in range(ring + 1, len(shape.rings)):
            begin, end = shape.bounds[outer]
            index = np.floor((middle - shape.offsets[outer]) / shape.rings[outer][1])
            index = index.astype(np.int64) - was[outer]
            # Grids of two rings need not meet: what falls between belongs to the nearer window.
            hit = unknown & (index < end - begin)
            found[hit] = old[begin + np.maximum(index[hit], 0)]
            unknown &= ~hit
        return np.concatenate([old[first + passed : last], found])

    def at(self, now: float) -> PredictionRing:
        """A copy, brought to `now`."""
        copy = self._like(self._store)
        copy.advance(now)
        return copy

    def _like(self, store: Array) -> PredictionRing:
        copy = object.__new__(PredictionRing)
        copy.shape, copy.updated_at = self.shape, self.updated_at
        copy._pointers, copy._places = self._pointers, self._places
        copy._store = store.copy()
        return copy

    def _aligned(self, other: PredictionRing) -> tuple[PredictionRing, PredictionRing]:
        if other.shape != self.shape:
            raise InvalidRingError(
                f"rings of different shapes cannot meet: {self.shape.rings}, {other.shape.rings}"
            )
        now = max(self.updated_at, other.updated_at)
        return self.at(now), other.at(now)

    def __add__(self, other: PredictionRing) -> PredictionRing:
        mine, theirs = self._aligned(other)
        mine._store += theirs._store
        return mine

    def __sub__(self, other: PredictionRing) -> PredictionRing:
        """Never below nothing: what was summed a moment ago may have been predicted anew since."""
        mine, theirs = self._aligned(other)
        np.maximum(mine._store - theirs._store, 0.0, out=mine._store)
        return mine

    def __mul__(self, factor: float) -> PredictionRing:
        if not math.isfinite(factor) or factor < 0:
            raise InvalidRingError(f"a factor is finite and not negative, not {factor!r}")
        copy = self._like(self._store)
        copy._store *= factor
        return copy

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PredictionRing):
            return NotImplemented
        return (
            self.shape == other.shape
            and self.updated_at == other.updated_at
            and bool(np.array_equal(self._store, other._store))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PredictionRing(now={self.updated_at}, mean={self._store.mean():.4g})"

    @classmethod
    def total(
        cls, rings: Iterable[PredictionRing], *, now: float, shape: RingShape = DEFAULT_SHAPE
    ) -> PredictionRing:
        """The compound footprint: the sum of any number of rings, brought to `now`."""
        result = cls(now=now, shape=shape)
        for ring in rings:
            if ring.shape != shape:
                raise InvalidRingError(f"ring of shape {ring.shape.rings}, not {shape.rings}")
            result._store += ring.at(now)._store
        return result

    def to_wire(self) -> dict[str, Any]:
        """Plain data, for a report between processes."""
        return {
            "now": self.updated_at,
            "rings": [list(ring) for ring in self.shape.rings],
            "values": self.values.tolist(),
        }

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> PredictionRing:
        try:
            rings: Sequence[Sequence[float]] = data["rings"]
            shape = RingShape(tuple((int(n), float(r)) for n, r in rings))
            return cls(data["values"], now=float(data["now"]), shape=shape)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidRingError(f"this is no prediction ring: {error}") from error
