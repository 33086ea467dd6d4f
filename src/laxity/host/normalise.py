"""Priorities, which are any real numbers, into the numbers an operating system takes (§5.3).

Every function keeps the order of its input and stays inside the scale. What else it keeps:
`min_max` differences, `log_min_max` ratios as differences, `exact_nice` and `proportional` the
ratios of CPU time themselves, as far as the scale is wide enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from laxity.host.errors import InvalidScheduleError

K = TypeVar("K", bound=Hashable)

NICE_STEP = 1.25
"""CPU time of two busy threads whose nice values differ by one."""


class Spacing(StrEnum):
    """How a policy's priorities are meant: by difference or by ratio."""

    LINEAR = "linear"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class Scale:
    """The operating system's range: `lax` for the lowest priority, `urgent` for the highest,
    `neutral` where all are equal. `lax` may be above `urgent`, as it is for nice."""

    lax: float
    urgent: float
    neutral: float

    def __post_init__(self) -> None:
        low, high = sorted((self.lax, self.urgent))
        if not low <= self.neutral <= high:
            raise InvalidScheduleError(
                f"neutral value {self.neutral} must lie between {low} and {high}"
            )


NICE = Scale(lax=19, urgent=-20, neutral=0)
NICE_UNPRIVILEGED = Scale(lax=19, urgent=0, neutral=0)
CPU_SHARES = Scale(lax=2, urgent=262_144, neutral=1024)
CPU_WEIGHT = Scale(lax=1, urgent=10_000, neutral=100)

Normaliser = Callable[[Mapping[K, float], Scale], dict[K, float]]


def min_max(priorities: Mapping[K, float], scale: Scale) -> dict[K, float]:
    """The lowest priority to `lax`, the highest to `urgent`, the others in between by distance."""
    _check(priorities)
    if not priorities:
        return {}
    low, high = min(priorities.values()), max(priorities.values())
    if low == high:
        return dict.fromkeys(priorities, scale.neutral)
    bottom, top = sorted((scale.lax, scale.urgent))

    def place(priority: float) -> float:
        # Halves, so that a span wider than the largest float does not overflow.
        part = (priority / 2 - low / 2) / (high / 2 - low / 2)
        return min(top, max(bottom, scale.lax + part * (scale.urgent - scale.lax)))

    return {key: place(priority) for key, priority in priorities.items()}


def log_min_max(priorities: Mapping[K, float], scale: Scale) -> dict[K, float]:
    """Min-max on the logarithms. What is not above zero has none: it is placed with the smallest
    priority that is."""
    _check(priorities)
    return min_max(_logarithms(priorities), scale)


def exact_nice(priorities: Mapping[K, float], scale: Scale = NICE) -> dict[K, float]:
    """Nice values under which CPU time is in the ratio of the priorities:
    F(x) = n_max + (log p_max − log x) / log 1.25; min-max on the logarithms where the ratios are
    too wide for the scale. Where all are equal nobody is preferred, to the rest of the machine
    neither."""
    _check(priorities)
    if not priorities:
        return {}
    logarithms = _logarithms(priorities)
    top = max(logarithms.values())
    if min(logarithms.values()) == top:
        return dict.fromkeys(priorities, scale.neutral)
    steps = {key: (top - value) / math.log(NICE_STEP) for key, value in logarithms.items()}
    if max(steps.values()) > abs(scale.lax - scale.urgent):
        return min_max(logarithms, scale)
    return {key: scale.urgent + step for key, step in steps.items()}


def proportional(priorities: Mapping[K, float], scale: Scale) -> dict[K, float]:
    """Weights in the ratio of the priorities, their geometric middle at `neutral` as far as the
    ends of the scale allow; cut at `lax` where the ratios are too wide for it."""
    _check(priorities)
    if not priorities:
        return {}
    logarithms = _logarithms(priorities)
    low, high = min(logarithms.values()), max(logarithms.values())
    shift = math.log(scale.neutral) - (low + high) / 2
    shift = max(shift, math.log(scale.lax) - low)
    shift = min(shift, math.log(scale.urgent) - high)  # the urgent keep their ratios
    return {
        key: min(scale.urgent, max(scale.lax, math.exp(value + shift)))
        for key, value in logarithms.items()
    }


def discretise(values: Mapping[K, float]) -> dict[K, int]:
    """To integers, half away from the even: order is kept, since rounding is monotone."""
    return {key: math.floor(value + 0.5) for key, value in values.items()}


def _logarithms(priorities: Mapping[K, float]) -> dict[K, float]:
    positive = [priority for priority in priorities.values() if priority > 0]
    floor = math.log(min(positive)) if positive else 0.0
    return {
        key: math.log(priority) if priority > 0 else floor for key, priority in priorities.items()
    }


def _check(priorities: Mapping[K, float]) -> None:
    for key, priority in priorities.items():
        if not math.isfinite(priority):
            raise InvalidScheduleError(f"the priority of {key!r} must be finite, got {priority!r}")
