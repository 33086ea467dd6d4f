"""Every query of the benchmarks, by name."""

from __future__ import annotations

from laxity.bench.workloads import groups, ipq, nexmark_queries, ysb
from laxity.bench.workloads.query import BenchQuery

QUERIES: dict[str, BenchQuery] = {
    **groups.QUERIES,
    **ipq.QUERIES,
    **ysb.QUERIES,
    **nexmark_queries.QUERIES,
}
