"""Triggers with a promise of their own: Laxity leaves them alone, says so, and they run as ever."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from laxity.spark import Laxity

pytestmark = pytest.mark.spark

WaitFor = Callable[..., Any]


@pytest.mark.parametrize(
    ("trigger", "kind"), [({"availableNow": True}, "available-now"), ({"once": True}, "once")]
)
def test_runs_that_end_by_themselves(
    spark: SparkSession,
    lx: Laxity,
    feed: Any,
    wait_for: WaitFor,
    trigger: dict[str, Any],
    kind: str,
) -> None:
    def slowly(_frame: Any, _batch: int) -> None:
        time.sleep(2)  # long enough to be seen

    feed.add([(0.0, "a", 1)])
    writer = feed.read(spark).writeStream.foreachBatch(slowly).trigger(**trigger)
    query = lx.start(writer, name="alone", target="1s")
    wait_for(lambda: lx.model("alone").unmanaged, "it to be seen")
    assert lx.status()["alone"].state == f"left alone: {kind}"
    assert query.awaitTermination(60)
    wait_for(lambda: lx.model("alone").state == "stopped")


def test_a_continuous_query_flows_on(
    spark: SparkSession, lx: Laxity, feed: Any, wait_for: WaitFor
) -> None:
    rate = spark.readStream.format("rate").option("rowsPerSecond", 50).option("numPartitions", 1)
    writer = rate.load().writeStream.format("memory").trigger(continuous="1 second")
    query = lx.start(writer, name="flowing", target="1h")
    wait_for(lambda: spark.table("flowing").count(), "its first rows")
    assert lx.status()["flowing"].state == "left alone: continuous"
    assert "trigger        continuous" in query.plan()
    with _beside_an_urgent_query(spark, lx, feed):
        _goes_on(query, lambda: int(spark.table("flowing").count()), wait_for)
    lx.detach()
    _goes_on(query, lambda: int(spark.table("flowing").count()), wait_for)


def test_a_real_time_query_answers_within_its_tasks(
    spark: SparkSession, lx: Laxity, feed: Any, tmp_path: Path, wait_for: WaitFor
) -> None:
    """Its tasks hold a slot for as long as a batch lasts and answer while they do, whatever else
    runs, and though its target would put it behind everybody."""
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    if "realTime" not in inspect.signature(DataStreamWriter.trigger).parameters:
        pytest.skip("this Spark has no real-time mode")
    source = _real_time_source(spark)
    frame = DataFrame(source.toDF(), spark).selectExpr("upper(value) AS word")
    shortest = "spark.sql.streaming.realTimeMode.minBatchDuration"
    spark.conf.set(shortest, "1000")
    answers = tmp_path / "answers"
    answers.touch()

    def note(row: Any) -> None:
        with answers.open("a") as file:
            file.write(f"{row.word}\n")

    try:
        writer = frame.writeStream.foreach(note).outputMode("update")
        query = lx.start(writer.trigger(realTime="1 second"), name="live", target="2h")
    finally:
        spark.conf.unset(shortest)

    def say(word: str) -> None:
        source.addData(spark._jvm.PythonUtils.toSeq([word]))  # type: ignore[union-attr]
        wait_for(lambda: word.upper() in answers.read_text().split(), word)

    say("first")
    assert lx.status()["live"].state == "left alone: real-time"
    with _beside_an_urgent_query(spark, lx, feed):
        say("second")
    lx.detach()
    say("third")
    assert query.isActive
    query.stop()
    assert query.exception() is None


def _real_time_source(spark: SparkSession) -> Any:
    """The one source besides Kafka that can do it: Spark's own, in memory, of strings."""
    jvm: Any = spark._jvm
    package = jvm.org.apache.spark.sql.execution.streaming.sources
    clock = jvm.org.apache.spark.util.SystemClock()
    strings = jvm.org.apache.spark.sql.Encoders.STRING()
    return package.LowLatencyMemoryStream(0, spark._jsparkSession, 1, clock, strings)


@contextmanager
def _beside_an_urgent_query(spark: SparkSession, lx: Laxity, feed: Any) -> Iterator[None]:
    writer = feed.read(spark).writeStream.format("memory")
    urgent = lx.start(writer, name="urgent", target="500ms")
    feed.add([(0.0, "a", 1)])
    urgent.processAllAvailable()
    assert spark.table("urgent").count() == 1
    yield
    urgent.stop()
    assert lx.status().notices == ()


def _goes_on(query: Any, measure: Callable[[], int], wait_for: WaitFor) -> None:
    before = measure()
    wait_for(lambda: measure() > before, "more of it")
    assert query.isActive
