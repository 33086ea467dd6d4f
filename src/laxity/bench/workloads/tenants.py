"""The tenants of a contest as real Spark queries, and the truth about their latency.

Group 1 of Cameo §6 is latency-sensitive: sparse input, windows of 1 s, 0.8 s to answer. Group 2 is
bulk: heavy rows at a high rate, windows of 10 s, two hours to answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from laxity.bench.workloads.arrivals import Schedule, constant
from laxity.bench.workloads.catalogue import QUERIES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_ROWS = 2_000_000
"""A source's limit a batch: as in production, generous but not endless."""


@dataclass(frozen=True, slots=True)
class Tenant:
    name: str
    query: str
    """Which of `laxity.bench.workloads.catalogue`."""
    target: float
    schedule: Schedule
    sensitive: bool
    most_rows: int = MOST_ROWS
    """What its source is limited to a batch."""

    @property
    def windowed(self) -> bool:
        return QUERIES[self.query].window is not None

    def due(self, origin: float) -> Iterator[tuple[float, float]]:
        """(watermark at which a window is final, arrival of the event that brings it) of each."""
        query = QUERIES[self.query]
        if query.window is None:
            return iter(())
        found = self.schedule.completions(query.window, origin, query.delay)
        return ((end + query.delay, arrival) for end, arrival in found)

    def arriving(self, schedule: Schedule) -> Tenant:
        return replace(self, schedule=schedule)

    def dataframe(self, rows: DataFrame) -> DataFrame:
        return QUERIES[self.query].build(rows)

    @property
    def output_mode(self) -> str:
        return QUERIES[self.query].mode


def alert(
    number: int,
    seconds: float,
    *,
    rows: float = 1000,
    query: str = "counts",
    target: float = 0.8,
) -> Tenant:
    """Latency-sensitive."""
    return Tenant(f"alerts-{number}", query, target, constant(rows, seconds), sensitive=True)


BULK_QUERY = "digests"


def bulk(number: int, seconds: float, *, rows: float) -> Tenant:
    """Has two hours."""
    return Tenant(f"bulk-{number}", BULK_QUERY, 7200.0, constant(rows, seconds), sensitive=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """A result that left, and when the last event arrived that it needed."""

    arrival: float
    emitted: float

    @property
    def latency(self) -> float:
        return self.emitted - self.arrival


def due_in(
    tenant: Tenant, seen: Iterable[Answer], origin: float, began: float, until: float
) -> Iterator[tuple[str, float, float]]:
    """(tenant, seconds into the period, latency) of every answer that was due in it. One that has
    not left by its end is as late as that at least: without it, a query that produces nothing
    would have no latency to be blamed for. Bulk is due an answer 10 s late, for this purpose."""
    found = [(a.arrival, min(a.emitted, until)) for a in seen]
    last = found[-1][0] if found else 0.0
    due = (arrival for _, arrival in tenant.due(origin))
    still = itertools.takewhile(lambda arrival: arrival < until, due)
    found += [(arrival, until) for arrival in still if last < arrival]
    grace = tenant.target if tenant.sensitive else 10.0
    for arrival, emitted in found:
        if began <= arrival < until - grace:
            yield tenant.name, arrival - began, emitted - arrival


@dataclass(frozen=True, slots=True)
class Batch:
    ended: float
    seconds: float
    rows: int


@dataclass(frozen=True, slots=True)
class Observation:
    """What a query did, from Spark's own progress reports."""

    answers: list[Answer]
    """In order of arrival."""
    batches: list[Batch]


def observe(tenant: Tenant, origin: float, progress: Iterable[Mapping[str, Any]]) -> Observation:
    reports = list(progress)
    batches = [
        Batch(ended_at(report), _took(report), int(report["numInputRows"]))
        for report in reports
        if "addBatch" in report["durationMs"]  # an idle query reports now and then, too
    ]
    find = _windows if tenant.windowed else _batches
    return Observation(find(tenant, origin, reports), batches)


def _windows(tenant: Tenant, origin: float, reports: list[Mapping[str, Any]]) -> list[Answer]:
    """A window leaves in the first batch whose watermark has passed it, or, where operators are
    chained, in the first of those that writes anything."""
    chained = QUERIES[tenant.query].chained
    able = (r for r in reports if not chained or r["sink"].get("numOutputRows") != 0)
    marks = ((_epoch(r["eventTime"].get("watermark")), ended_at(r)) for r in able)
    answers: list[Answer] = []
    watermark, ended = next(marks, (0.0, 0.0))
    for final, arrival in tenant.due(origin):
        while watermark < final:
            following = next(marks, None)
            if following is None:
                return answers
            watermark, ended = following
        answers.append(Answer(arrival, ended))
    return answers


def _batches(tenant: Tenant, origin: float, reports: list[Mapping[str, Any]]) -> list[Answer]:
    """Every row of a regular query is a result; a batch is judged by its first."""
    tick = tenant.schedule.tick
    return [
        Answer(origin + (int(r["sources"][0]["startOffset"] or 0) + 1) * tick, ended_at(r))
        for r in reports
        if r["numInputRows"]
    ]


def ended_at(report: Mapping[str, Any]) -> float:
    return _epoch(report["timestamp"]) + _took(report)


def _took(report: Mapping[str, Any]) -> float:
    return float(report["durationMs"]["triggerExecution"]) / 1000.0


def _epoch(stamp: str | None) -> float:
    return 0.0 if stamp is None else datetime.fromisoformat(stamp).timestamp()
