"""The contest's source: rows by a schedule, on stock Spark, with nothing installed.

`java/Ticks.java` lives in the driver only; executors see Spark's own classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laxity.bench.compiled import findable
from laxity.bench.workloads.arrivals import Schedule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CLASS = "laxity.bench.Ticks"


def read_ticks(
    spark: SparkSession,
    schedule: Schedule,
    origin: float,
    *,
    partitions: int,
    most_rows: int | None = None,
) -> DataFrame:
    """A stream of (timestamp, value): value counts rows, timestamp is event time.

    `origin` is when the schedule begins, in whole seconds since 1970. `most_rows` is the user's
    own limit a batch, as Kafka's maxOffsetsPerTrigger is.
    """
    reader = (
        spark.readStream.format(_CLASS)
        .option("schedule", schedule.text())
        .option("tickMillis", round(schedule.tick * 1000))
        .option("originMillis", round(origin * 1000))
        .option("partitions", partitions)
    )
    if most_rows is not None:
        reader = reader.option("maxRowsPerTrigger", most_rows)
    with findable(spark):
        return reader.load()
