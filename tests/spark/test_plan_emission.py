"""Is what the plan reader says true? Spark is fed to a millisecond before, and then to, the event
time at which the reader says results leave."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf

from laxity.core.windows import next_boundary
from laxity.spark.plan import read_semantics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

START = 1_800_000_000.0  # on the grid of every window here
Shape = Callable[["Stream", "Stream"], "DataFrame"]


class Stream:
    """A stream of events whose times the test sets."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        folder.mkdir()
        self._folder, self._files = folder, 0
        reader = spark.readStream.schema("id long, at long")
        self._frame = reader.json(str(folder)).withColumn("ts", sf.timestamp_millis("at"))

    def frame(self, delay: str, time: str = "ts") -> DataFrame:
        return self._frame.withColumnRenamed("ts", time).drop("at").withWatermark(time, delay)

    def put(self, seconds: float, id_: int) -> None:
        self._files += 1
        hidden = self._folder / f".{self._files}.json"
        hidden.write_text(json.dumps({"id": id_, "at": round(seconds * 1000)}))
        hidden.rename(self._folder / f"{self._files}.json")


def tumbling(one: Stream, _: Stream) -> DataFrame:
    return one.frame("10 seconds").groupBy(sf.window("ts", "1 minute")).count()


def off_grid(one: Stream, _: Stream) -> DataFrame:
    window = sf.window("ts", "10 minutes", "3 minutes", "1 minute")
    return one.frame("1500 milliseconds").groupBy(window).count()


def chained(one: Stream, _: Stream) -> DataFrame:
    minutes = one.frame("10 seconds").groupBy(sf.window("ts", "1 minute")).count()
    return minutes.groupBy(sf.window(sf.window_time("window"), "5 minutes")).agg(sf.sum("count"))


def slow_first(one: Stream, _: Stream) -> DataFrame:
    slow = one.frame("10 seconds").groupBy(sf.window("ts", "5 minutes")).count()
    return slow.groupBy(sf.window("window", "1 minute")).count()


def union(one: Stream, two: Stream) -> DataFrame:
    both = one.frame("10 seconds").union(two.frame("30 seconds"))
    return both.groupBy(sf.window("ts", "1 minute")).count()


def join_then_window(one: Stream, two: Stream) -> DataFrame:
    right = two.frame("20 seconds", "b").withColumnRenamed("id", "other")
    near = sf.expr("id = other AND b >= a AND b <= a + INTERVAL 2 MINUTES")
    joined = one.frame("10 seconds", "a").join(right, near)
    return joined.groupBy(sf.window("a", "1 minute")).count()


def windows_then_join(one: Stream, two: Stream) -> DataFrame:
    left = one.frame("10 seconds").groupBy(sf.window("ts", "1 minute")).count()
    right = two.frame("20 seconds").groupBy(sf.window("ts", "1 minute")).agg(sf.max("id"))
    return left.join(right, "window")


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Iterator[tuple[Stream, Stream]]:
    yield Stream(spark, tmp_path / "one"), Stream(spark, tmp_path / "two")
    for query in spark.streams.active:
        query.stop()


@pytest.mark.parametrize(
    "shape",
    [tumbling, off_grid, chained, slow_first, union, join_then_window, windows_then_join],
    ids=lambda shape: shape.__name__,
)
def test_results_leave_when_the_plan_says(
    spark: SparkSession, streams: tuple[Stream, Stream], shape: Shape
) -> None:
    name = f"out_{shape.__name__}"
    query = shape(*streams).writeStream.format("memory").queryName(name).start()
    window = read_semantics(query._jsq.streamingQuery()).window
    assert window is not None

    def results_after(seconds: float, id_: int) -> list[Any]:
        for stream in streams:
            stream.put(seconds, id_)
        query.processAllAvailable()
        return spark.table(name).collect()

    first = START + 5
    frontier = next_boundary(first, window.slide, window.origin) + window.delay
    assert results_after(first, 1) == []
    assert results_after(frontier - 0.001, 2) == []
    assert results_after(frontier, 3) != []
