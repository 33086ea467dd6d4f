"""Tokens of a source: a rate, spread evenly over each interval (Cameo §5.4)."""

from __future__ import annotations

import math
from typing import NamedTuple

from laxity.core.errors import LaxityError
from laxity.core.rules import MINIMUM_PRIORITY


class InvalidTokenRateError(LaxityError, ValueError):
    """A token rate or interval that is not above zero."""


class Token(NamedTuple):
    """`tag` is the moment within the interval this token stands for (PRI_global), `interval`
    the number of the interval (PRI_local)."""

    tag: float
    interval: float


NO_TOKEN = Token(MINIMUM_PRIORITY, MINIMUM_PRIORITY)


class TokenBucket:
    """Grants `rate` tokens a second in intervals of `interval` seconds.

    Token k of an interval is tagged start + k / rate. Tokens that were not drawn expire with
    their interval: a source that was silent may not flood later. Fractions carry over, so that
    a rate of 0.4 a second grants two tokens every five seconds.
    """

    def __init__(self, rate: float, interval: float = 1.0) -> None:
        for name, value in (("rate", rate), ("interval", interval)):
            if not (math.isfinite(value) and value > 0):
                raise InvalidTokenRateError(f"token {name} must be above zero, got {value!r}")
        self.rate = rate
        self.interval = interval
        self._current = -math.inf
        self._granted = 0
        self._drawn = 0

    def draw(self, now: float) -> Token:
        number = math.floor(now / self.interval)
        if number != self._current:
            per_interval = self.rate * self.interval
            self._current = number
            self._granted = math.floor((number + 1) * per_interval) - math.floor(
                number * per_interval
            )
            self._drawn = 0
        if self._drawn >= self._granted:
            return NO_TOKEN
        tag = (number + self._drawn / self._granted) * self.interval
        self._drawn += 1
        return Token(tag, float(number))
