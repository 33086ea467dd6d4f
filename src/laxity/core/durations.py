"""Durations as users write them: "800ms", "2h", seconds as a number, or a timedelta."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from laxity.core.errors import InvalidDurationError

Duration = str | int | float | timedelta

_SECONDS = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "minutes": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "days": 86400.0,
}
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-zµμ]+)\s*", re.IGNORECASE)
_MICRO = str.maketrans("µμ", "uu")  # the micro sign and the Greek letter look the same
_ACCEPTED = 'write "800ms", "1.5s", "30min", "2h", "1h 30min", a number of seconds or a timedelta'


def parse_duration(value: Duration, *, name: str = "duration") -> float:
    """Seconds as a float. Zero is a duration; anything negative or not finite is refused."""
    seconds = _to_seconds(value, name)
    if not math.isfinite(seconds) or seconds < 0:
        raise InvalidDurationError(f"{name} must be finite and not negative, got {value!r}")
    return seconds


def parse_target(value: Duration, *, name: str = "target") -> float:
    """A latency target: a duration above zero."""
    seconds = parse_duration(value, name=name)
    if seconds == 0:
        raise InvalidDurationError(f"{name} must be above zero, got {value!r}")
    return seconds


def _to_seconds(value: Duration, name: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool):
        raise InvalidDurationError(f"{name} cannot be {value!r}; {_ACCEPTED}")
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if not isinstance(value, str):
        raise InvalidDurationError(f"{name} cannot be a {type(value).__name__}; {_ACCEPTED}")
    text = value.strip()
    total, at = 0.0, 0
    while at < len(text):
        part = _PART.match(text, at)
        unit = part and part[2].lower().translate(_MICRO)
        if part is None or unit not in _SECONDS:
            raise InvalidDurationError(f"{name}: {value!r} is not a duration; {_ACCEPTED}")
        total += float(part[1]) * _SECONDS[unit]
        at = part.end()
    if at == 0:
        raise InvalidDurationError(f"{name} is empty; {_ACCEPTED}")
    return total


def format_duration(seconds: float) -> str:
    """The shortest reading that keeps three significant digits: 0.8 → "800ms", 5400 → "1.5h"."""
    if not math.isfinite(seconds):
        return "unbounded" if seconds > 0 else str(seconds)
    sign, size = ("-", -seconds) if seconds < 0 else ("", seconds)
    if size == 0:
        return "0s"
    for unit, scale in (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        # Two minutes and less read better in seconds, two hours and less in hours: so a unit is
        # used from one of itself on, but minutes only from two.
        # What three digits would round up to one of a unit is written in that unit.
        if size >= scale * (2 if unit == "min" else 0.9995):
            return f"{sign}{_three_digits(size / scale)}{unit}"
    return f"{sign}{_three_digits(size * 1e6)}us"


def _three_digits(number: float) -> str:
    return f"{number:.3g}" if number < 999.5 else f"{number:.0f}"
