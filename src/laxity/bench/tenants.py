"""The tenants of Cameo §6 as real Spark queries, and the truth about their latency.

Group 1 is latency-sensitive: sparse input, windows of 1 s, 0.8 s to answer. Group 2 is bulk:
heavy rows at a high rate, windows of 10 s, two hours to answer.

Spark's `rate` source counts seconds from its own creation and hands out the rows of one when it is
over. So the arrival of the event that completes a window is known exactly, and latency needs no
estimate: with the source created at c, a row stamped t arrives at c + ⌊t − c⌋ + 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 2


@dataclass(frozen=True, slots=True)
class Tenant:
    name: str
    rows_per_second: int
    window: float
    target: float
    heavy: bool

    @property
    def sensitive(self) -> bool:
        return self.target < 60


def latency_sensitive(number: int, rows_per_second: int = 1000) -> Tenant:
    return Tenant(f"alerts-{number}", rows_per_second, 1.0, 0.8, heavy=False)


def bulk(number: int, rows_per_second: int) -> Tenant:
    return Tenant(f"bulk-{number}", rows_per_second, 10.0, 7200.0, heavy=True)


def dataframe(spark: SparkSession, tenant: Tenant) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812  # as everyone who writes PySpark does

    rows = (
        spark.readStream.format("rate")
        .option("rowsPerSecond", tenant.rows_per_second)
        .option("numPartitions", PARTITIONS)
        .load()
    )
    window = F.window("timestamp", f"{tenant.window:g} seconds")
    if not tenant.heavy:
        counted = rows.withWatermark("timestamp", "0 seconds").groupBy(window)
        return counted.agg(F.count("*").alias("events"))
    digest = F.col("value").cast("string")
    for _ in range(3):  # real work for every row
        digest = F.sha2(digest, 256)
    hashed = rows.withColumn("bucket", F.substring(digest, 1, 1))
    grouped = hashed.withWatermark("timestamp", "0 seconds").groupBy(window, "bucket")
    return grouped.agg(F.count("*").alias("events"))


@dataclass(frozen=True, slots=True)
class Emission:
    """A window that left, and when the event arrived that completed it."""

    tenant: str
    window_end: float
    arrival: float
    emitted: float

    @property
    def latency(self) -> float:
        return self.emitted - self.arrival


@dataclass(frozen=True, slots=True)
class Observation:
    """What a query did, from Spark's own progress reports."""

    emissions: list[Emission]
    taken: list[tuple[float, int]]
    """(when a batch ended, its rows)"""
    phase: float | None
    """The fraction of a second at which its source delivers."""

    def arrival(self, window_end: float) -> float:
        phase = self.phase or 0.0
        return math.floor(window_end - phase) + phase + 1.0


def observe(tenant: Tenant, progress: Iterable[Mapping[str, Any]]) -> Observation:
    """A window leaves in the batch whose watermark has passed its end."""
    reports = list(progress)
    starts = [r["eventTime"]["min"] for r in reports if "min" in r["eventTime"]]
    seen = Observation([], [], _epoch(starts[0]) % 1.0 if starts else None)
    before = 0.0
    for report in reports:
        ended = _epoch(report["timestamp"]) + report["durationMs"]["triggerExecution"] / 1000.0
        seen.taken.append((ended, report["numInputRows"]))
        stamp = report["eventTime"].get("watermark")
        watermark = _epoch(stamp) if stamp else 0.0
        if before > 0:  # Spark says 1970 while there is none
            end = (before // tenant.window + 1) * tenant.window
            while end <= watermark:
                seen.emissions.append(Emission(tenant.name, end, seen.arrival(end), ended))
                end += tenant.window
        before = max(before, watermark)
    return seen


def _epoch(stamp: str) -> float:
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
