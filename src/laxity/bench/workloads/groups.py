"""The queries of groups 1 and 2 of Cameo §6: counts, and aggregations of heavy rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laxity.bench.workloads.query import BenchQuery, draw, seconds, watermarked

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def _counted(rows: DataFrame, length: float, *keys: str) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    window = F.window("timestamp", seconds(length))
    return watermarked(rows).groupBy(window, *keys).agg(F.count("*").alias("events"))


def _digest() -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    digest = F.col("value").cast("string")
    for _ in range(3):  # real work for every row
        digest = F.sha2(digest, 256)
    return F.substring(digest, 1, 1)


def counts(rows: DataFrame) -> DataFrame:
    """How many events a second: the lightest aggregation there is."""
    return _counted(rows, 1.0)


def digests(rows: DataFrame) -> DataFrame:
    """Three chained SHA-256 a row, counted by the first digit, in windows of 10 s."""
    return _counted(rows.withColumn("bucket", _digest()), 10.0, "bucket")


def heavy_counts(rows: DataFrame) -> DataFrame:
    """As heavy a row as bulk's, in windows of 1 s."""
    return _counted(rows.withColumn("bucket", _digest()), 1.0, "bucket")


def running_counts(rows: DataFrame) -> DataFrame:
    """How many events each of a hundred keys has had so far: state, and a result in every batch."""
    from pyspark.sql import functions as F  # noqa: N812

    return rows.groupBy(draw(1, 100).alias("key")).agg(F.count("*").alias("events"))


QUERIES = {
    "counts": BenchQuery(counts, 1.0),
    "digests": BenchQuery(digests, 10.0),
    "heavy-counts": BenchQuery(heavy_counts, 1.0),
    "running-counts": BenchQuery(running_counts, mode="update"),
}
