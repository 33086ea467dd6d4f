"""The contest's source: rows by a schedule, on stock Spark, with nothing installed.

`java/Ticks.java` is compiled in the driver by the compiler that Spark ships; executors see Spark's
own classes only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any

from laxity.bench.arrivals import Schedule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CLASS = "laxity.bench.Ticks"
_loaders: list[tuple[Any, Any]] = []
"""(gateway, class loader) of each JVM it was compiled in."""


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
    with _findable(spark):
        return reader.load()


@contextmanager
def _findable(spark: SparkSession) -> Iterator[None]:
    """Spark looks for a source's class in the class loader of the thread that asks for it."""
    jvm = spark._jvm
    assert jvm is not None
    thread = jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    thread.setContextClassLoader(_loader(spark, before))
    try:
        yield
    finally:
        thread.setContextClassLoader(before)


def _loader(spark: SparkSession, parent: Any) -> Any:
    gateway = spark._sc._gateway
    for known, loader in _loaders:
        if known is gateway:
            return loader
    jvm: Any = spark._jvm
    source = resources.files("laxity.bench").joinpath("java", "Ticks.java").read_bytes()
    sources = jvm.java.util.HashMap()
    sources.put("laxity/bench/Ticks.java", bytearray(source))
    finder = jvm.org.codehaus.commons.compiler.util.resource.MapResourceFinder(sources)
    loader = jvm.org.codehaus.janino.JavaSourceClassLoader(parent, finder, "UTF-8")
    loader.setTargetVersion(8)
    _loaders.append((gateway, loader))
    return loader
