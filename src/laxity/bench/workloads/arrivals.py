"""When rows arrive: schedules in ticks, the same for every mode of a contest.

A schedule says how many rows each tick brings. The rows of a tick arrive together at its end and
carry event times inside it, so the arrival of whatever completes a window is known exactly.
"""

from __future__ import annotations

import csv
import itertools
import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from laxity.core.errors import LaxityError

TICK = 0.01
"""Seconds. Far below every latency that is measured with it."""


class InvalidArrivalsError(LaxityError, ValueError):
    """A description of arrivals that cannot be read."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """`runs` are (ticks, rows a tick), in order."""

    runs: tuple[tuple[int, int], ...]
    tick: float = TICK

    @classmethod
    def of_rates(cls, rates: Iterable[float], *, each: float = 1.0, tick: float = TICK) -> Schedule:
        """Rows a second, each holding for `each` seconds. Whole rows a tick: what is lost to
        rounding is carried to the next one."""
        ticks, owed = max(1, round(each / tick)), 0.0
        rows = []
        for rate in rates:
            wanted = max(0.0, rate) * tick + owed
            rows.append(round(wanted))
            owed = wanted - rows[-1]
        runs = ((ticks * len(list(same)), n) for n, same in itertools.groupby(rows))
        return cls(tuple(runs), tick)

    @property
    def seconds(self) -> float:
        return sum(ticks for ticks, _ in self.runs) * self.tick

    @property
    def rows(self) -> int:
        return sum(ticks * rows for ticks, rows in self.runs)

    def text(self) -> str:
        """As Ticks.java reads it."""
        return ",".join(f"{ticks}*{rows}" for ticks, rows in self.runs)

    def rows_between(self, start: float, end: float) -> int:
        """Rows that arrive in a span of the schedule."""
        return self._rows_before(end) - self._rows_before(start)

    def _rows_before(self, seconds: float) -> int:
        left, total = max(0, math.floor(seconds / self.tick + 1e-6)), 0
        for ticks, rows in self.runs:
            total += min(left, ticks) * rows
            left -= min(left, ticks)
        return total

    def completions(
        self, window: float, origin: float, delay: float = 0.0
    ) -> Iterator[tuple[float, float]]:
        """(end of a window, arrival of the first event at or after end + delay), both since 1970,
        for a schedule that starts at `origin`. Windows are aligned to 1970, as Spark's are."""
        due = math.floor((origin + 1e-9) / window) * window + window
        at = origin
        for ticks, rows in self.runs:
            if rows:
                # Spark's reader rounds event times to milliseconds.
                newest = round((rows - 1) / rows * self.tick * 1000) / 1000
                while True:
                    wanted = (due + delay - at - newest - 1e-6) / self.tick
                    number = max(0, math.ceil(wanted))
                    if number >= ticks:
                        break
                    yield due, at + (number + 1) * self.tick
                    due += window
            at += ticks * self.tick


def constant(rate: float, seconds: float) -> Schedule:
    return Schedule.of_rates([rate], each=seconds)


def pareto(
    rate: float, seconds: float, *, seed: int, shape: float = 1.5, cap: float = 20.0
) -> Schedule:
    """Bursts: every second has a rate of its own, Pareto-distributed around the mean, as in
    Cameo §6.2. `cap` bounds a second at that many times the mean."""
    chance = random.Random(seed)
    mean = shape / (shape - 1)
    draws = (min(cap, chance.paretovariate(shape) / mean) for _ in range(math.ceil(seconds)))
    return Schedule.of_rates(rate * draw for draw in draws)


def square(rate: float, seconds: float, *, period: float = 20.0, high: float = 3.0) -> Schedule:
    """Half of each period at `high` times the other half; the mean is `rate`."""
    low = 2 * rate / (1 + high)
    half = period / 2
    return Schedule.of_rates(
        low * (high if int(at / half) % 2 else 1.0) for at in range(math.ceil(seconds))
    )


def skewed(rates: float, sources: int, *, ratio: float = 200.0) -> list[float]:
    """Rates of `sources` sources that add up to `rates`, geometric from the least to the most,
    which has `ratio` times the least."""
    if sources == 1:
        return [rates]
    weights = [ratio ** (i / (sources - 1)) for i in range(sources)]
    return [rates * w / sum(weights) for w in weights]


def trace(path: Path) -> Schedule:
    """From a CSV file with the columns `seconds` and `rows_per_second`, each rate holding until
    the next line's second; the last one for as long as the one before it."""
    try:
        with path.open(newline="") as file:
            lines = list(csv.DictReader(file))
        points = [(float(x["seconds"]), float(x["rows_per_second"])) for x in lines]
    except OSError as error:
        raise InvalidArrivalsError(f"cannot read the trace {path}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArrivalsError(
            f"{path} is not a trace: it needs the columns seconds and rows_per_second with a "
            f"number in each line ({error})"
        ) from error
    if len(points) < 2 or any(b[0] <= a[0] for a, b in itertools.pairwise(points)):
        raise InvalidArrivalsError(f"{path} needs two lines or more, in rising order of seconds")
    spans = [b[0] - a[0] for a, b in itertools.pairwise(points)]
    spans.append(spans[-1])
    runs = [
        Schedule.of_rates([rate], each=span).runs[0]
        for (_, rate), span in zip(points, spans, strict=True)
    ]
    return Schedule(tuple(runs))
