"""Control on Spark's plans: keys are counted beside the data, and a hot key's load is spread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from laxity.spark.control.errors import BoundaryTimeoutError, UnfitOperationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from laxity.spark import Laxity

pytestmark = pytest.mark.spark

WaitFor = Callable[..., Any]


class Rows:
    def __init__(self) -> None:
        self.by_batch: dict[int, list[Any]] = {}

    def __call__(self, frame: Any, batch: int) -> None:
        self.by_batch[batch] = sorted(tuple(row) for row in frame.collect())


def skewed(n: int = 400) -> list[tuple[float, str, int]]:
    """70 % of the rows are of one key."""
    return [(100.0 + i, "hot" if i % 10 < 7 else f"k{i % 50}", i) for i in range(n)]


def test_keys_are_counted_beside_the_data(
    spark: SparkSession, lx: Laxity, feed: Any, wait_for: WaitFor
) -> None:
    out = Rows()
    counts = feed.read(spark, maxFilesPerTrigger=1).withWatermark("ts", "1 hour")
    counts = counts.groupBy("key").count()
    lx.start(counts.writeStream.outputMode("update").foreachBatch(out), name="seen", target="1h")
    control = lx.control("seen")
    feed.add(skewed())
    wait_for(lambda: 0 in out.by_batch, "a first batch")
    assert control.monitoring() is None
    with pytest.raises(UnfitOperationError, match="every is a whole number of batches"):
        control.monitor(every=-1)
    control.monitor(every=1)
    feed.add(skewed())
    found = wait_for(control.monitoring, "a batch that counts")
    assert found.rows == 400
    assert found.keys == 16
    assert (found.heaviest[0].key, found.heaviest[0].rows) == ("hot", 280)
    assert found.heaviest[0].share == pytest.approx(0.7)
    assert found.event_time["max"].startswith("1970-01-01T00:08:19")
    assert found.lag > 1e9
    assert {row[1] for row in out.by_batch[found.batch] if row[0] == "hot"} == {560}
    with pytest.raises(UnfitOperationError, match="combines the rows of a key before"):
        control.repair_skew()

    # By a column that is no key; and not at all.
    control.monitor(every=1, columns=["value"])
    feed.add(skewed())
    wait_for(lambda: control.monitoring().keys > 350, "values counted")
    control.monitor(every=0)
    last = control.monitoring().batch
    feed.add(skewed())
    wait_for(lambda: len(out.by_batch) > last + 1, "a batch that does not count")
    assert control.monitoring().batch == last
    assert [e.name for e in control.history()] == ["spark-monitor"] * 3


@pytest.mark.slow
def test_columns_nobody_has_are_not_counted(
    spark: SparkSession, lx: Laxity, feed: Any, wait_for: WaitFor
) -> None:
    out = Rows()
    rows = feed.read(spark, maxFilesPerTrigger=1)
    lx.start(rows.writeStream.foreachBatch(out), name="plain", target="1h")
    control = lx.control("plain")
    for _ in range(6):  # some are left when the next batch is to count
        feed.add(skewed())
    control.monitor(every=1, columns=["nothing"])
    with pytest.raises(UnfitOperationError, match="no column of the query's input is named"):
        control.find_heaviest()
    assert len(wait_for(lambda: len(out.by_batch) == 6 and out.by_batch, "all of them")[5]) == 400


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["inner", "left", "left_anti"])
def test_a_hot_key_is_spread_and_results_are_the_same(
    spark: SparkSession, lx: Laxity, feed: Any, wait_for: WaitFor, kind: str
) -> None:
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", -1)
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        names = [("hot", "a"), ("hot", "b"), *((f"k{i}", str(i)) for i in range(0, 50, 2))]
        table = spark.createDataFrame(names, "key STRING, name STRING")
        out = Rows()
        joined = feed.read(spark, maxFilesPerTrigger=1).join(table, "key", kind)
        lx.start(joined.writeStream.foreachBatch(out), name="join", target="1h")
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
        spark.conf.unset("spark.sql.adaptive.enabled")
    control = lx.control("join")

    def batch() -> list[Any]:
        before = len(out.by_batch)
        feed.add(skewed())
        wait_for(lambda: len(out.by_batch) > before, "a batch")
        return out.by_batch[before]

    plain = batch()
    assert control.join_state().shuffled
    for _ in range(5):  # some are left when the next batch is to count
        feed.add(skewed())
    entry = control.repair_skew("salt")
    assert entry.result["method"] == "salt"
    assert entry.result["keys"] == ["hot"]
    wait_for(lambda: len(out.by_batch) == 6, "all batches")
    assert batch() == plain
    assert "laxity_salt" in plan_of(control)
    assert control.undo().name == "spark-repair-skew"
    assert batch() == plain
    assert "laxity_salt" not in plan_of(control)
    # Nobody knows how large this table is, so by itself it would be salted again.
    assert control.repair_skew("broadcast").result["method"] == "broadcast"
    assert batch() == plain
    assert control.join_state().broadcast
    assert not control.join_state().shuffled
    with pytest.raises(UnfitOperationError, match="no method 'magic'"):
        control.repair_skew("magic")


def plan_of(control: Any) -> str:
    return str(control.execution.lastExecution().optimizedPlan().toString())


def test_what_cannot_be_repaired_says_why(
    spark: SparkSession, lx: Laxity, feed: Any, wait_for: WaitFor
) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    rows = feed.read(spark).withWatermark("ts", "1 hour")
    other = rows.select(F.col("key").alias("k2"), F.col("ts").alias("t2"))
    out = Rows()
    both = rows.join(other, F.expr("key = k2 AND ts = t2"))
    lx.start(both.writeStream.foreachBatch(out), name="streams", target="1h")
    feed.add(skewed(20))
    control = lx.control("streams")
    wait_for(lambda: control.stateful, "a first batch")
    with pytest.raises(UnfitOperationError, match="joins two streams: their rows wait in state"):
        control.repair_skew()


@pytest.mark.slow
def test_a_pace_is_tuned_in_phases(
    spark: SparkSession, lx: Laxity, feed: Any, wait_for: WaitFor
) -> None:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 1000).load()
    lx.start(rows.writeStream.format("noop"), name="tuned", target="20s")
    control = lx.control("tuned")
    wait_for(lambda: control.files.committed(), "a batch")
    with pytest.raises(BoundaryTimeoutError, match="did not finish 2 batches within 0 s"):
        control.tune("20s", rate=1000, start=4000, batches=2, timeout=0.0)
    control.undo()
    said: list[Any] = []
    tuned = control.tune("2s", rate=1000, start=500, batches=1, on_phase=said.append)
    assert tuned.phases == tuple(said)
    assert tuned.phases[-1].size == tuned.rows
    assert len(tuned.phases) >= 2
    assert "phase 1: 500 rows a batch" in str(tuned)
    assert control.history()[-1].name == "spark-tune"
    assert control.setting("pace") == tuned.pace


def test_executors_are_changed_on_a_cluster_only(lx: Laxity) -> None:
    with pytest.raises(UnfitOperationError, match=r"local\[2\] runs everything in the driver"):
        lx.set_executors(3)
