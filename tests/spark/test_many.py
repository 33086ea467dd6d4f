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


def test_lax_queries_meet_their_targets_beside_urgent_ones(
    spark: SparkSession, attach: Attach, feed_at: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Two urgent queries want a slot again as soon as they had one, for as long as they run."""
    lx = attach(max_hold="5s")
    for number in range(2):
        writer = _resting(spark, 0.1, tasks=1).writeStream.format("noop")
        lx.start(writer, name=f"urgent{number}", target="1s")
    lax = []
    for number, target in enumerate(("1min", "10min", None)):
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
    assert status["lax0"].latency.met == status["lax1"].latency.met == 1.0
    assert status["urgent0"].batches > 0
    assert status.notices == ()


def _resting(spark: SparkSession, seconds: float, *, tasks: int) -> Any:
    """A stream that always has more, each task of which takes so long."""
    from pyspark.sql import functions as sf

    def rest(value: int) -> int:
        time.sleep(seconds)
        return value

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", tasks)
    frame = source.option("numPartitions", tasks).load()
    return frame.select(sf.udf(rest, "long")("value"))


def test_overload_is_told_and_shared(
    spark: SparkSession, attach: Attach, wait_for: WaitFor
) -> None:
    """Every batch needs both slots; those who have less time get them more often, those with the
    same target alike, and nobody is left out."""
    tight, lax = ("tight0", "tight1"), ("lax0", "lax1")
    lx = attach(reserve=0)
    for target, names in (("100ms", tight), ("1s", lax)):
        for name in names:
            writer = _resting(spark, 0.3, tasks=2).writeStream.format("noop")
            lx.start(writer, name=name, target=target)
    wait_for(lambda: min(q.latency.count for q in lx.status().queries) >= 6, "results of everybody")
    status = lx.status()
    assert status.overloaded
    assert status.overload is not None
    assert status.overload > 1.0
    assert f"{status.overload:.1f} × its target" in str(status)
    assert all(status[name].overloaded for name in (*tight, *lax))
    done = {q.name: q.batches for q in status.queries}
    for pair in (tight, lax):
        most, least = (choose(done[name] for name in pair) for choose in (max, min))
        assert most <= 2 * least
    assert min(done[name] for name in tight) > max(done[name] for name in lax)


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
