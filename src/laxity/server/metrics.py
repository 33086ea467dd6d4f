"""`/metrics`: names, units and labels by Prometheus' conventions.

Base units, `_total` on counters, a histogram for latency (quantiles of several drivers cannot be
added up, buckets can), one label set a query: its name and tenant.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest

from laxity import __version__
from laxity.server.views import Overview, QueryView

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

STATES = (
    *("running", "held", "paused", "idle", "starting"),
    *("stopped", "failed", "restarting", "left alone"),
)
_LABELS = ["query", "tenant"]


def exposition(overview: Overview) -> bytes:
    """The page for one overview."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Fixed(overview))
    return generate_latest(registry)


class _Fixed:
    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        yield from _application(self._overview)
        yield from _tenants(self._overview)
        yield from _queries(self._overview)


def _application(o: Overview) -> Iterable[Metric]:
    info = InfoMetricFamily("laxity_build", "Version and policy of this Laxity.")
    info.add_metric([], {"version": __version__, "policy": o.policy, "application": o.application})
    yield info
    yield _gauge("laxity_cores", "Cores of all executors.", o.cores)
    yield _gauge("laxity_reserved_slots", "Extra slots for urgent work.", o.reserved)
    yield _gauge(
        "laxity_overload_ratio",
        "p95 of the worst query that misses, as a multiple of its target; 0 while none does.",
        o.overload or 0.0,
    )
    yield _gauge("laxity_loop_up", "Is the deciding loop alive?", float(o.loop_alive))
    cpu = CounterMetricFamily("laxity_loop_cpu_seconds", "CPU time that deciding has taken.")
    cpu.add_metric([], o.loop_cpu)
    yield cpu


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _tenants(o: Overview) -> Iterable[Metric]:
    tasks = GaugeMetricFamily(
        "laxity_tenant_tasks", "Tasks of a tenant, by state.", labels=["tenant", "state"]
    )
    slots = GaugeMetricFamily(
        "laxity_tenant_cap_slots", "Most tasks of a tenant at a time.", labels=["tenant"]
    )
    share = GaugeMetricFamily(
        "laxity_tenant_cap_ratio", "Most of all cores a tenant may use.", labels=["tenant"]
    )
    for tenant in o.tenants:
        tasks.add_metric([tenant.name, "running"], tenant.running_tasks)
        tasks.add_metric([tenant.name, "waiting"], tenant.waiting_tasks)
        if tenant.cap_slots is not None:
            slots.add_metric([tenant.name], tenant.cap_slots)
        if tenant.cap_share is not None:
            share.add_metric([tenant.name], tenant.cap_share)
    return tasks, slots, share


def _queries(o: Overview) -> Iterable[Metric]:
    queries = o.queries

    def gauge(name: str, text: str, values: Iterable[tuple[QueryView, float | None]]) -> Metric:
        family = GaugeMetricFamily(name, text, labels=_LABELS)
        for query, value in values:
            if value is not None:
                family.add_metric([query.name, query.tenant], value)
        return family

    def counter(name: str, text: str, values: Iterable[tuple[QueryView, float]]) -> Metric:
        family = CounterMetricFamily(name, text, labels=_LABELS)
        for query, value in values:
            family.add_metric([query.name, query.tenant], value)
        return family

    yield gauge(
        "laxity_query_target_seconds",
        "The latency target; absent for best effort.",
        ((q, q.target) for q in queries),
    )
    yield gauge(
        "laxity_query_laxity_seconds",
        "How long the next batch could still wait.",
        ((q, q.laxity) for q in queries),
    )
    yield gauge(
        "laxity_query_batch_seconds",
        "Running mean of what a batch takes when it need not wait.",
        ((q, q.batch_seconds) for q in queries),
    )
    yield gauge(
        "laxity_query_batch_limit",
        "Rows or files a batch is limited to; 0 is no limit.",
        ((q, q.limit) for q in queries),
    )
    yield gauge(
        "laxity_query_overloaded",
        "Does it miss its target in more than a tenth of its results?",
        ((q, float(q.overloaded)) for q in queries),
    )
    yield counter(
        "laxity_query_results",
        "Results (windows, or batches of a regular query) that left.",
        ((q, q.totals.results) for q in queries),
    )
    yield counter(
        "laxity_query_missed_results",
        "Results that left after their target.",
        ((q, q.totals.results - q.totals.met) for q in queries),
    )
    yield counter("laxity_query_rows", "Rows read.", ((q, q.totals.rows) for q in queries))
    yield counter(
        "laxity_query_batches", "Micro-batches done.", ((q, q.totals.batches) for q in queries)
    )
    yield counter(
        "laxity_query_restarts",
        "Times it was started again after a failure.",
        ((q, q.totals.restarts) for q in queries),
    )
    yield _latency(o)
    yield _phases(o)
    yield _states(o)
    yield _tasks(o)


def _latency(o: Overview) -> Metric:
    family = HistogramMetricFamily(
        "laxity_query_latency_seconds",
        "Emission minus the arrival of the last event that a result needed.",
        labels=_LABELS,
    )
    for query in o.queries:
        counts = query.totals.latency_counts
        if len(counts) != len(o.buckets) + 1:
            continue
        running, buckets = 0, []
        for bound, count in zip((*map(_bound, o.buckets), "+Inf"), counts, strict=True):
            running += count
            buckets.append((bound, running))
        family.add_metric([query.name, query.tenant], buckets, query.totals.latency_sum)
    return family


def _bound(value: float) -> str:
    return repr(float(value))


def _phases(o: Overview) -> Metric:
    family = CounterMetricFamily(
        "laxity_query_phase_seconds",
        "Seconds of the latency of results, by where they were spent.",
        labels=[*_LABELS, "phase"],
    )
    for query in o.queries:
        for phase, seconds in query.totals.phases.items():
            family.add_metric([query.name, query.tenant, phase], seconds)
    return family


def _states(o: Overview) -> Metric:
    family = GaugeMetricFamily(
        "laxity_query_state", "1 for the state a query is in.", labels=[*_LABELS, "state"]
    )
    for query in o.queries:
        now = "left alone" if query.state.startswith("left alone") else query.state
        for state in STATES:
            family.add_metric([query.name, query.tenant, state], float(state == now))
    return family


def _tasks(o: Overview) -> Metric:
    family = GaugeMetricFamily(
        "laxity_query_tasks", "Tasks of a query, by state.", labels=[*_LABELS, "state"]
    )
    for query in o.queries:
        family.add_metric([query.name, query.tenant, "running"], query.running_tasks)
        family.add_metric([query.name, query.tenant, "waiting"], query.waiting_tasks)
    return family
