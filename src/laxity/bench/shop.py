"""A pipeline file under real load for `laxity run`: the dashboard is pictured and measured on it.

Two alerts that must answer within a second, sales figures that have five, and three bulk
aggregations of 100,000 heavy rows a second each: with two cores, all that Spark can carry.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import laxity
from laxity.bench.workloads.arrivals import constant
from laxity.bench.workloads.catalogue import QUERIES
from laxity.bench.workloads.tenants import MOST_ROWS
from laxity.bench.workloads.ticks import read_ticks

SENSITIVE = ("fraud", "outages")
_DAY = 86_400.0


@cache
def _origin() -> float:
    """Rows come from the first query's start on, so that there is no backlog of Spark's start."""
    return float(int(time.time()) + 1)


def _query(
    name: str, shape: str, rows: float, *, tenant: str, target: str | None
) -> Callable[[Any], Any]:
    @laxity.query(name=name, target=target, tenant=tenant)
    def build(spark: Any) -> Any:
        stream = read_ticks(
            spark, constant(rows, _DAY), _origin(), partitions=2, most_rows=MOST_ROWS
        )
        return QUERIES[shape].build(stream).writeStream.format("noop")

    return build


fraud = _query("fraud", "counts", 1_000, tenant="payments", target="800ms")
outages = _query("outages", "counts", 1_000, tenant="operations", target="800ms")
sales = _query("sales", "heavy-counts", 10_000, tenant="shop", target="5s")
pages = _query("pages", "digests", 100_000, tenant="reports", target="10min")
sessions = _query("sessions", "digests", 100_000, tenant="reports", target="2h")
archive = _query("archive", "digests", 100_000, tenant="reports", target=None)
