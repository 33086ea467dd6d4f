"""Many queries at a time: all make progress, and status tells when it is too much."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from laxity.spark import Laxity

pytestmark = pytest.mark.spark

WaitFor = Callable[..., Any]
Attach = Callable[..., "Laxity"]


def test_lax_queries_finish_beside_urgent_ones(
    spark: SparkSession, attach: Attach, feed_at: Callable[[Path], Any], tmp_path: Path
) -> None:
    lx = attach(max_hold="5s")
    rate = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    for number in range(2):
        lx.start(rate.writeStream.format("noop"), name=f"urgent{number}", target="1s")
    lax = []
    for number, target in enumerate(("20s", "10min", None)):
        feed = feed_at(tmp_path / str(number))
        for second in range(8):
            feed.add([(float(second), "abc"[second % 3], second)])
        frame = feed.read(spark, maxFilesPerTrigger=1).groupBy("key").count()
        writer = frame.writeStream.format("memory").outputMode("complete")
        lax.append(lx.start(writer, name=f"lax{number}", target=target))
    for query in lax:
        query.processAllAvailable()
        rows = spark.table(query.name).collect()
        assert {row["key"]: row["count"] for row in rows} == {"a": 3, "b": 3, "c": 2}
    status = lx.status()
    assert {q.name: q.state for q in status.queries if q.state == "failed"} == {}
    assert status["urgent0"].batches > 0
    assert status.notices == ()


def test_overload_is_told_and_shared(spark: SparkSession, lx: Laxity, wait_for: WaitFor) -> None:
    """Each batch needs both slots for half a second; four queries want one every 300 ms."""
    from pyspark.sql import functions as sf

    def half_a_second(value: int) -> int:
        time.sleep(0.5)
        return value

    rest = sf.udf(half_a_second, "long")
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2)
    frame = source.option("numPartitions", 2).load().select(rest("value"))
    names = [f"want{number}" for number in range(4)]
    for name in names:
        lx.start(frame.writeStream.format("noop"), name=name, target="300ms")
    wait_for(lambda: min(q.latency.count for q in lx.status().queries) >= 5, "results of everybody")
    status = lx.status()
    assert status.overloaded
    assert status.overload > 1.0
    assert f"{status.overload:.1f} × its target" in str(status)
    assert all(status[name].overloaded for name in names)
    # Equal targets: nobody is served at the cost of another.
    done = [status[name].batches for name in names]
    assert max(done) <= 2 * min(done) + 2


def test_fifty_queries_start_run_and_stop(
    spark: SparkSession, lx: Laxity, wait_for: WaitFor
) -> None:
    rate = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    queries = []
    for number in range(50):
        writer = rate.writeStream.format("noop").trigger(processingTime="3 seconds")
        target = ("2s", "1min", None)[number % 3]
        queries.append(lx.start(writer, name=f"q{number}", target=target))
    assert len(lx.status().queries) == 50
    wait_for(lambda: all(q.batches for q in lx.status().queries), "a batch of every query", 150)
    for query in queries:
        query.stop()
        assert query.exception() is None
    wait_for(lambda: not lx.status().queries, "all to leave")
    status = lx.status()
    assert [n for n in status.notices if "not met its target" not in n] == []
    assert status.sorts > 50
    streams = lx._bridge._static("Reflect", "get", lx._bridge._hub, "streams")
    assert streams.size() == 0
