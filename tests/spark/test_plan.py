"""Semantics read from the plans of real queries."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf
from pyspark.sql.streaming import DataStreamWriter

from laxity.core.windows import Window
from laxity.semantics import Semantics, WindowColumn
from laxity.spark import plan as plan_module
from laxity.spark.plan import NotAStreamError, read_semantics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.spark

Read = Callable[..., Semantics]


@pytest.fixture
def started(spark: SparkSession) -> Iterator[list[StreamingQuery]]:
    queries: list[StreamingQuery] = []
    yield queries
    for query in queries:
        query.stop()


@pytest.fixture
def read(started: list[StreamingQuery]) -> Read:
    """Starts a query on a frame and reads it. The slow trigger keeps it to one empty batch."""

    def read(
        frame: DataFrame, mode: str = "append", sink: str = "noop", **trigger: Any
    ) -> Semantics:
        writer = frame.writeStream.format(sink).outputMode(mode)
        query = writer.trigger(**(trigger or {"processingTime": "1 hour"})).start()
        started.append(query)
        return read_semantics(query._jsq.streamingQuery())

    return read


def events(spark: SparkSession, delay: str | None = "10 seconds", name: str = "ts") -> DataFrame:
    frame = spark.readStream.format("rate").load().withColumnRenamed("timestamp", name)
    return frame if delay is None else frame.withWatermark(name, delay)


def live(query: StreamingQuery, seconds: float = 60) -> Any:
    """The execution once it has made its sources."""
    execution = query._jsq.streamingQuery()
    until = time.monotonic() + seconds
    while not execution.uniqueSources().size():
        assert time.monotonic() < until, query.exception()
        time.sleep(0.02)
    return execution


class TestWindows:
    def test_tumbling(self, spark: SparkSession, read: Read) -> None:
        found = read(events(spark).groupBy(sf.window("ts", "1 minute"), "value").count())
        assert found.window == Window(60, 60, 0, 10)
        assert found.windows == (WindowColumn("window", 60, 60, 0),)
        assert found.watermark_delays == (("ts", 10.0),)
        assert found.event_time
        assert found.stateful == ("aggregation",)
        assert "W + 10s" in " ".join(found.notes)

    def test_sliding(self, spark: SparkSession, read: Read) -> None:
        found = read(events(spark).groupBy(sf.window("ts", "10 minutes", "5 minutes")).count())
        assert found.window == Window(600, 300, 0, 10)

    def test_a_start_offset_moves_the_ends(self, spark: SparkSession, read: Read) -> None:
        window = sf.window("ts", "1 hour", "1 hour", "15 minutes")
        found = read(events(spark).groupBy(window).count())
        assert found.window == Window(3600, 3600, 900, 10)

    def test_ends_off_the_grid_of_starts(self, spark: SparkSession, read: Read) -> None:
        window = sf.window("ts", "10 minutes", "3 minutes", "1 minute")
        found = read(events(spark).groupBy(window).count())
        assert found.windows == (WindowColumn("window", 600, 180, 60),)
        # Starts at 1, 4, 7 … minutes: ends at 11, 14, 17 …
        assert found.window is not None
        assert found.window.next_end(11 * 60 - 1) == 11 * 60

    def test_renamed_before_and_after_grouping(self, spark: SparkSession, read: Read) -> None:
        early = events(spark).withColumn("w", sf.window("ts", "30 seconds"))
        early = early.select(sf.col("w").alias("again"), "value").groupBy("again").count()
        assert read(early).window == Window(30, 30, 0, 10)
        late = events(spark).groupBy(sf.window("ts", "30 seconds").alias("w")).count()
        assert read(late.select("w.end", "count")).window == Window(30, 30, 0, 10)

    def test_arithmetic_in_the_time_column_is_not_the_windows(
        self, spark: SparkSession, read: Read
    ) -> None:
        frame = spark.readStream.format("rate").load()
        odd = sf.timestamp_seconds(sf.col("value") % 77 + 5).alias("ts")
        frame = frame.select(odd).withWatermark("ts", "1 second")
        assert read(frame.groupBy(sf.window("ts", "20 seconds")).count()).window == Window(
            20, 20, 0, 1
        )

    def test_many_overlaps(self, spark: SparkSession, read: Read) -> None:
        found = read(events(spark).groupBy(sf.window("ts", "20 minutes", "10 seconds")).count())
        assert found.window == Window(1200, 10, 0, 10)

    @pytest.mark.parametrize(
        ("delay", "seconds"),
        [
            ("0 seconds", 0.0),
            ("1500 milliseconds", 1.5),
            ("2 minutes", 120.0),
            ("1 hour 30 minutes", 5400.0),
            ("1 day", 86400.0),
            ("1 month", 31 * 86400.0),
        ],
    )
    def test_watermark_units(
        self, spark: SparkSession, read: Read, delay: str, seconds: float
    ) -> None:
        found = read(events(spark, delay).groupBy(sf.window("ts", "1 minute")).count())
        assert found.watermark_delays == (("ts", seconds),)
        assert found.window is not None
        assert found.window.delay == seconds

    def test_sql_with_a_common_table_expression(self, spark: SparkSession, read: Read) -> None:
        events(spark).createOrReplaceTempView("events")
        found = read(
            spark.sql(
                "WITH recent AS (SELECT ts, value FROM events WHERE value % 2 = 0) "
                "SELECT window, count(*) AS n FROM recent GROUP BY window(ts, '1 minute')"
            )
        )
        assert found.window == Window(60, 60, 0, 10)
        assert found.watermark_delays == (("ts", 10.0),)

    def test_columns_that_get_new_ids_on_the_way(self, spark: SparkSession, read: Read) -> None:
        early = events(spark).select(sf.window("ts", "1 minute").alias("w"), "value")
        assert read(early.union(early).groupBy("w").count()).window == Window(60, 60, 0, 10)
        events(spark).createOrReplaceTempView("events")
        found = read(
            spark.sql(
                "WITH w AS (SELECT window(ts, '1 minute') AS minute, value FROM events) "
                "SELECT a.minute, count(*) AS n FROM w AS a GROUP BY a.minute"
            )
        )
        assert found.window == Window(60, 60, 0, 10)


class TestEveryBatchEmits:
    @pytest.mark.parametrize("mode", ["update", "complete"])
    def test_modes_that_do_not_wait(self, spark: SparkSession, read: Read, mode: str) -> None:
        found = read(events(spark).groupBy(sf.window("ts", "1 minute")).count(), mode)
        assert found.output_mode == mode
        assert found.window is None
        assert found.windows == (WindowColumn("window", 60, 60),)
        assert found.event_time

    def test_no_state_at_all(self, spark: SparkSession, read: Read) -> None:
        found = read(events(spark, None).where("value > 1"))
        assert found.window is None
        assert not found.event_time
        assert found.stateful == ()
        assert found.notes == ("Nothing waits for event time: every batch emits.",)

    def test_no_watermark(self, spark: SparkSession, read: Read) -> None:
        found = read(events(spark, None).groupBy(sf.window("ts", "1 minute")).count(), "update")
        assert found.window is None
        assert not found.event_time

    def test_grouped_by_event_time_itself(self, spark: SparkSession, read: Read) -> None:
        found = read(events(spark).groupBy("ts").count())
        assert found.window is None
        assert "no time window" in found.notes[0]

    def test_dedup(self, spark: SparkSession, read: Read) -> None:
        assert read(events(spark).dropDuplicates(["value", "ts"])).stateful == ("dedup",)
        found = read(events(spark).dropDuplicatesWithinWatermark(["value"]))
        assert (found.window, found.stateful) == (None, ("dedup",))

    def test_session_window(self, spark: SparkSession, read: Read) -> None:
        found = read(events(spark).groupBy(sf.session_window("ts", "1 minute")).count())
        assert found.window is None
        assert found.stateful == ("session_window",)
        assert "session window" in found.notes[0]

    def test_a_pandas_function_with_state(self, spark: SparkSession, read: Read) -> None:
        def count(key: Any, frames: Any, state: Any) -> Any:
            yield from frames

        frame = (
            events(spark)
            .groupBy("value")
            .applyInPandasWithState(count, "value long", "n long", "append", "NoTimeout")
        )
        found = read(frame)
        assert found.window is None
        assert found.stateful == ("applyInPandasWithState",)


class TestSeveralOperators:
    def test_chained_windows_leave_at_the_pace_of_the_slowest(
        self, spark: SparkSession, read: Read
    ) -> None:
        minutes = events(spark).groupBy(sf.window("ts", "1 minute"), "value").count()
        hours = minutes.groupBy(sf.window(sf.window_time("window"), "1 hour")).agg(sf.sum("count"))
        found = read(hours)
        assert found.window == Window(3600, 3600, 0, 10)
        assert [w.size for w in found.windows] == [60, 3600]
        assert found.stateful == ("aggregation", "aggregation")
        # A window straight over a window, and a pace set by the first.
        assert read(minutes.groupBy(sf.window("window", "5 minutes")).count()).window == Window(
            300, 300, 0, 10
        )
        slow = events(spark).groupBy(sf.window("ts", "5 minutes"), "value").count()
        found = read(slow.groupBy(sf.window("window", "5 minutes", "1 minute")).count())
        assert found.window == Window(300, 300, 0, 10)

    def test_filters_joins_with_static_data_and_functions_after_a_window(
        self, spark: SparkSession, read: Read
    ) -> None:
        @sf.udf("string")
        def shout(value: int) -> str:
            return f"{value}!"

        def same(frames: Any) -> Any:
            yield from frames

        static = spark.range(10).withColumnRenamed("id", "value")
        frame = events(spark).withColumn("loud", shout("value")).where("loud != ''")
        frame = frame.groupBy(sf.window("ts", "1 minute"), "value").count().join(static, "value")
        frame = frame.select("value", shout("count").alias("c")).mapInPandas(
            same, "value long, c string"
        )
        found = read(frame.where("c != ''"))
        assert found.window == Window(60, 60, 0, 10)
        assert found.stateful == ("aggregation",)

    def test_dedup_before_and_after_a_window(self, spark: SparkSession, read: Read) -> None:
        once = events(spark).dropDuplicates(["value", "ts"])
        found = read(once.groupBy(sf.window("ts", "1 minute"), "value").count())
        assert found.window == Window(60, 60, 0, 10)
        assert found.stateful == ("dedup", "aggregation")

    def test_joined_streams_emit_at_once(self, spark: SparkSession, read: Read) -> None:
        left, right = (
            events(spark, "10 seconds", "a").alias("l"),
            events(spark, "20 seconds", "b").alias("r"),
        )
        matched = sf.expr("l.value = r.value AND b >= a AND b <= a + INTERVAL 5 MINUTES")
        found = read(left.join(right, matched))
        assert found.window is None
        assert found.stateful == ("join",)
        assert found.watermark_delays == (("a", 10.0), ("b", 20.0))
        outer = read(left.join(right, matched, "left_outer"))
        assert outer.window is None
        assert any(note.startswith("Left outer join") for note in outer.notes)

    def test_a_join_sets_back_the_window_after_it(self, spark: SparkSession, read: Read) -> None:
        left = events(spark, "10 seconds", "a").alias("l")
        right = events(spark, "20 seconds", "b").select(sf.col("value").alias("v"), "b")
        by_key = left.join(right.withColumnRenamed("v", "value"), "value")
        assert read(by_key.groupBy(sf.window("a", "1 minute")).count()).window == Window(
            60, 60, 0, 20
        )
        condition = sf.expr("value = v AND b >= a AND b <= a + INTERVAL 5 MINUTES")
        bounded = left.join(right, condition).groupBy(sf.window("a", "1 minute")).count()
        found = read(bounded)
        assert found.stateful == ("join", "aggregation")
        assert found.window is not None
        # The slower watermark, the join's five minutes, and the millisecond Spark keeps for <=.
        assert found.window.delay == pytest.approx(20 + 300, abs=0.01)

    def test_two_windowed_sides_of_a_join(self, spark: SparkSession, read: Read) -> None:
        left = events(spark, "10 seconds", "a").groupBy(sf.window("a", "1 minute")).count()
        right = events(spark, "20 seconds", "b").groupBy(sf.window("b", "1 minute")).count()
        found = read(left.join(right.withColumnRenamed("count", "n"), "window"))
        assert found.window == Window(60, 60, 0, 20)
        assert found.stateful == ("aggregation", "aggregation", "join")

    def test_a_union_of_two_paces(self, spark: SparkSession, read: Read) -> None:
        minute = events(spark).groupBy(sf.window("ts", "1 minute")).count().select("count")
        hour = events(spark).groupBy(sf.window("ts", "1 hour")).count().select("count")
        found = read(minute.union(hour))
        assert found.window is None
        assert "different paces" in " ".join(found.notes)
        assert read(minute.union(minute)).window == Window(60, 60, 0, 10)

    def test_a_window_over_a_union(self, spark: SparkSession, read: Read) -> None:
        both = events(spark, "10 seconds").union(events(spark, "30 seconds"))
        grouped = both.groupBy(sf.window("ts", "1 minute")).count()
        assert read(grouped).window == Window(60, 60, 0, 30)
        policy = "spark.sql.streaming.multipleWatermarkPolicy"
        spark.conf.set(policy, "max")
        try:
            assert read(grouped).window == Window(60, 60, 0, 10)
        finally:
            spark.conf.unset(policy)


class TestSurroundings:
    @pytest.mark.parametrize(
        ("trigger", "text"),
        [
            ({"processingTime": "0 seconds"}, "processing-time 0"),
            ({"processingTime": "10 seconds"}, "processing-time 10s"),
            ({"availableNow": True}, "available-now"),
            ({"once": True}, "once"),  # continuous: see test_left_alone.py
        ],
    )
    def test_triggers(
        self, spark: SparkSession, read: Read, trigger: dict[str, Any], text: str
    ) -> None:
        found = read(events(spark, None).select("value"), **trigger)
        assert found.trigger == text
        assert found.paced_by_laxity is text.startswith("processing-time")

    def test_real_time_mode(self, spark: SparkSession, read: Read) -> None:
        if "realTime" not in inspect.signature(DataStreamWriter.trigger).parameters:
            pytest.skip("this Spark has no real-time mode")
        # The rate source cannot do it and Spark ends the query for that, after what is read here.
        frame = events(spark, None).select("value")
        found = read(frame, "update", "console", realTime="5 seconds")
        assert found.trigger == "real-time"
        assert not found.paced_by_laxity

    def test_file_source(
        self, spark: SparkSession, tmp_path: Path, started: list[StreamingQuery]
    ) -> None:
        reader = spark.readStream.schema("value long").option("maxFilesPerTrigger", 3)
        query = reader.json(str(tmp_path)).writeStream.format("noop").start()
        started.append(query)
        # Before the source exists and after: the same.
        for execution in (query._jsq.streamingQuery(), live(query)):
            (source,) = read_semantics(execution).sources
            assert (source.limit_by, source.limit) == ("files", 3)
            assert "FileS" in source.description

    def test_limits_of_other_sources(
        self, spark: SparkSession, tmp_path: Path, started: list[StreamingQuery]
    ) -> None:
        files = spark.readStream.schema("value string")
        cases = {
            "files": files.text(str(tmp_path)),
            "bytes": files.option("maxBytesPerTrigger", "9999").text(str(tmp_path)),
            None: spark.readStream.format("rate").load().select("value"),
        }
        for unit, frame in cases.items():
            query = frame.writeStream.format("noop").start()
            started.append(query)
            for execution in (query._jsq.streamingQuery(), live(query)):
                (source,) = read_semantics(execution).sources
                assert source.limit_by == unit
                assert source.limit == (9999 if unit == "bytes" else None)
                assert "@" not in source.description

    def test_for_each_batch(self, spark: SparkSession, started: list[StreamingQuery]) -> None:
        frame = events(spark).groupBy(sf.window("ts", "1 minute")).count()
        query = frame.writeStream.foreachBatch(lambda batch, batch_id: None).start()
        started.append(query)
        found = read_semantics(query._jsq.streamingQuery())
        assert found.sink == "ForeachBatchSink"
        assert found.window == Window(60, 60, 0, 10)

    def test_what_a_person_reads(self, spark: SparkSession, read: Read) -> None:
        text = read(events(spark).groupBy(sf.window("ts", "1 minute")).count()).describe()
        assert "results leave  every 60s of event time, 10s after a window of 60s ends" in text
        assert "ts − 10s" in text
        assert "Rate" in text or "rate" in text


class TestFailingOpen:
    def test_an_unreadable_plan_is_regular(
        self, spark: SparkSession, read: Read, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(plan: Any) -> Any:
            raise RuntimeError("no such node\nat …")

        monkeypatch.setattr(plan_module, "read_tree", fail)
        monkeypatch.setattr(plan_module, "read_sources", fail)
        found = read(events(spark).select("value"))
        assert found.window is None
        assert found.sources == ()
        assert "no such node" in found.notes[0]

    def test_a_wrong_argument_is_named(
        self, spark: SparkSession, started: list[StreamingQuery]
    ) -> None:
        query = events(spark).writeStream.format("noop").start()
        started.append(query)
        for wrong in (query, query._jsq, "alerts", None):
            with pytest.raises(NotAStreamError, match=r"query\._jsq\.streamingQuery\(\)"):
                read_semantics(wrong)
