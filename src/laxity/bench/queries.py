"""The queries of the contests, by name: functions from a stream of (timestamp, value) to a result.

Every field a query needs is derived from `value`, a row's number, by hashing: the same rows in
every run and in every mode, and no generator to pay for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True)
class BenchQuery:
    build: Callable[[DataFrame], DataFrame]
    window: float | None
    """Seconds between two results of a windowed query; None where every row is one."""


def _windowed(rows: DataFrame, seconds: float, *keys: str, slide: float | None = None) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812  # as everyone who writes PySpark does

    length = f"{seconds:g} seconds"
    window = F.window("timestamp", length, f"{slide:g} seconds" if slide else length)
    counts = [F.count("*").alias("events")]
    return rows.withWatermark("timestamp", "0 seconds").groupBy(window, *keys).agg(*counts)


def counts(rows: DataFrame) -> DataFrame:
    """How many events a second: the lightest aggregation there is."""
    return _windowed(rows, 1.0)


def _digest() -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    digest = F.col("value").cast("string")
    for _ in range(3):  # real work for every row
        digest = F.sha2(digest, 256)
    return F.substring(digest, 1, 1)


def digests(rows: DataFrame) -> DataFrame:
    """Three chained SHA-256 a row, counted by the first digit, in windows of 10 s."""
    return _windowed(rows.withColumn("bucket", _digest()), 10.0, "bucket")


def heavy_counts(rows: DataFrame) -> DataFrame:
    """As heavy a row as bulk's, in windows of 1 s."""
    return _windowed(rows.withColumn("bucket", _digest()), 1.0, "bucket")


QUERIES: dict[str, BenchQuery] = {
    "counts": BenchQuery(counts, 1.0),
    "digests": BenchQuery(digests, 10.0),
    "heavy-counts": BenchQuery(heavy_counts, 1.0),
}
