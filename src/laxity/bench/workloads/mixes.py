"""Who shares the cluster in a contest, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from laxity.bench.workloads import ipq, nexmark_queries
from laxity.bench.workloads.arrivals import Schedule, constant, pareto, skewed, square, trace
from laxity.bench.workloads.tenants import Tenant, alert, bulk
from laxity.core.errors import LaxityError

PATTERNS = ("constant", "pareto", "square", "skew")


class UnknownMixError(LaxityError, KeyError):
    """A mix nobody has defined."""

    __str__ = Exception.__str__


@dataclass(frozen=True, slots=True)
class Mix:
    """So many latency-sensitive queries beside so many bulk ones."""

    name: str
    alerts: int
    bulk: int
    bulk_rows: float
    """Heavy rows a second of each bulk query."""
    alert_rows: float = 1000
    alert_queries: tuple[str, ...] = ("counts",)
    """Taken in turn."""
    target: float = 0.8
    arrivals: str = "constant"
    """How bulk arrives: one of PATTERNS, or the path of a trace."""

    @property
    def title(self) -> str:
        sensitive = (
            f"{self.alerts} latency-sensitive ({', '.join(self.alert_queries)}) at "
            f"{self.alert_rows:,.0f} rows/s, target {self.target:g} s"
        )
        if not self.bulk:
            return f"{sensitive}, no bulk"
        lax = f"{self.bulk} bulk at {self.bulk_rows:,.0f} rows/s, arrivals: {self.arrivals}"
        return f"{sensitive} + {lax}"

    def alone(self) -> Mix:
        """One of each kind of the latency-sensitive, and nothing else."""
        kinds = len(self.alert_queries)
        return replace(self, name=f"{self.name}, alone", alerts=kinds, bulk=0)

    def tenants(self, seconds: float) -> tuple[Tenant, ...]:
        """The same rows at the same moments, whoever asks."""
        sensitive = (
            alert(
                n,
                seconds,
                rows=self.alert_rows,
                query=self.alert_queries[n % len(self.alert_queries)],
                target=self.target,
            )
            for n in range(self.alerts)
        )
        lax = (
            bulk(n, seconds, rows=self.bulk_rows).arriving(self._schedule(n, seconds))
            for n in range(self.bulk)
        )
        return (*sensitive, *lax)

    def _schedule(self, number: int, seconds: float) -> Schedule:
        patterns: dict[str, Callable[[], Schedule]] = {
            "constant": lambda: constant(self.bulk_rows, seconds),
            "pareto": lambda: pareto(self.bulk_rows, seconds, seed=number),
            "square": lambda: square(self.bulk_rows, seconds),
            "skew": lambda: constant(
                skewed(self.bulk_rows * self.bulk, self.bulk)[number], seconds
            ),
        }
        found = patterns.get(self.arrivals)
        return found() if found is not None else trace(Path(self.arrivals))


MIXES = {
    mix.name: mix
    for mix in (
        Mix("standard", 2, 3, 100_000),
        Mix("overload", 4, 6, 80_000),
        Mix("bursts", 2, 3, 80_000, arrivals="pareto"),
        Mix("waves", 2, 3, 80_000, arrivals="square"),
        Mix("skew", 2, 6, 50_000, arrivals="skew"),
        Mix("heavy", 4, 12, 150_000, alert_rows=120_000, alert_queries=("heavy-counts",)),
        Mix("ipq", 4, 3, 80_000, alert_queries=tuple(ipq.QUERIES)),
        Mix("ysb", 4, 3, 80_000, alert_rows=5000, alert_queries=("ysb",)),
        Mix("nexmark", 10, 2, 80_000, alert_queries=tuple(nexmark_queries.QUERIES), target=2.0),
        Mix("alone", 1, 0, 80_000),
    )
}


def find_mix(name: str) -> Mix:
    if name not in MIXES:
        raise UnknownMixError(f"no mix is named {name!r}; there are {', '.join(MIXES)}")
    return MIXES[name]
