"""The driver of test_kafka.py: Spark with Kafka's connector under Laxity, in a process of its own
that a test can kill. Prints what it saw as one line of JSON.

    kafka_driver.py SCENARIO BROKER FOLDER JAR,JAR,…
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import laxity

OWN_LIMIT = 20_000
"""What the user of the bulk query allows a batch at most."""
TARGET = "1500ms"


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 120.0) -> Any:
    until = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise TimeoutError(f"not within {seconds} s: {what}")
        time.sleep(0.05)


class Kafka:
    def __init__(self, spark: SparkSession, broker: str, folder: Path) -> None:
        self.spark, self._broker, self._folder = spark, broker, folder

    def read(self, topic: str, **options: Any) -> DataFrame:
        reader = self.spark.readStream.format("kafka").option("subscribe", topic)
        reader = reader.option("kafka.bootstrap.servers", self._broker)
        return reader.option("startingOffsets", "earliest").options(**options).load()

    def writer(self, frame: DataFrame, topic: str, name: str) -> Any:
        writer = frame.writeStream.format("kafka").option("topic", topic)
        writer = writer.option("kafka.bootstrap.servers", self._broker)
        return writer.option("checkpointLocation", str(self.checkpoint(name)))

    def checkpoint(self, name: str) -> Path:
        return self._folder / "checkpoints" / name


def hashed(frame: DataFrame) -> DataFrame:
    """Work for a CPU: three hashes a row, one on the other."""
    word = sf.col("value")
    for _ in range(3):
        word = sf.sha2(word, 256)
    return frame.select(word.alias("value"))


def arrivals(frame: DataFrame) -> DataFrame:
    """When the broker had each row, and its batch, whose own is `current_timestamp`."""
    times = (sf.col("timestamp"), sf.current_timestamp())
    return frame.select(
        sf.concat_ws(" ", *(time.cast("double").cast("string") for time in times)).alias("value")
    )


def under_load(kafka: Kafka, folder: Path) -> dict[str, Any]:
    """A bulk query works off a backlog; then alerts with a target come and go."""
    saw: dict[str, Any] = {}
    with laxity.attach(kafka.spark, latency_period="10s", quantum="50ms") as lx:
        bulk = lx.start(
            kafka.writer(
                hashed(kafka.read("bulk", maxOffsetsPerTrigger=OWN_LIMIT)), "hashes", "bulk"
            ),
            name="bulk",
            target="1h",
        )
        wait_for(lambda: lx.model("bulk").batches >= 3, "bulk batches alone")
        saw["source"] = [(s.limit_by, s.limit) for s in lx.model("bulk").semantics.sources]
        saw["limit alone"] = lx.status()["bulk"].limit
        alerts = lx.start(
            kafka.writer(arrivals(kafka.read("events")), "alerts", "alerts"),
            name="alerts",
            target=TARGET,
        )
        (folder / "alerts-run").touch()  # now events may come
        limit = wait_for(lambda: lx.status()["bulk"].limit, "a limit for bulk")
        saw["first limit"] = limit
        batch = lx.model("bulk").batches
        wait_for(lambda: lx.model("bulk").batches >= batch + 10, "bulk batches beside alerts")

        def met() -> Any:
            now = alerts.latency()
            return now if now.count >= 15 and now.met >= 0.95 else None

        summary = wait_for(met, f"alerts to meet their target: {alerts.latency()}", 90)
        saw["p50"], saw["p99"], saw["met"] = summary.p50, summary.p99, summary.met
        saw["arrival"] = summary.arrival
        saw["window"] = [time.time() - summary.period, time.time()]
        status = lx.status()
        saw["limit beside"] = status["bulk"].limit
        saw["bulk still behind"] = status["bulk"].rows_per_batch
        alerts.stop()
        wait_for(lambda: lx.status()["bulk"].limit == 0, "the limit to be lifted")
        wait_for(lambda: lx.status()["bulk"].rows_per_batch == OWN_LIMIT, "full batches again")
        saw["sizes"] = [p["numInputRows"] for p in bulk.recentProgress]
        bulk.stop()
        saw["notices"] = list(lx.status().notices)
    return saw


def keyed(frame: DataFrame) -> DataFrame:
    """A key that names where the row came from: the same however often it is written. Partition 1
    is slow, so that a batch is half written for a while."""
    slow = sf.expr(
        "if(partition = 1, java_method('java.lang.Thread', 'sleep', 30L), cast(null as string))"
    )
    return frame.select(
        sf.concat_ws("-", "topic", "partition", "offset").alias("key"),
        sf.concat(
            sf.col("value").cast("string"),
            sf.replace(sf.coalesce(slow, sf.lit("")), sf.lit("null"), sf.lit("")),
        ).alias("value"),
    )


def exactly_once(kafka: Kafka, folder: Path) -> dict[str, Any]:
    """Until somebody kills us, or everything that is there has been written."""
    finish = (folder / "finish").exists()
    with laxity.attach(kafka.spark, quantum="50ms") as lx:
        lines = kafka.read("lines", maxOffsetsPerTrigger=60)
        queries = [
            lx.start(kafka.writer(keyed(lines), "copies", "copies"), name="copies", target="1h"),
            lx.start(
                keyed(lines)
                .writeStream.format("parquet")
                .option("path", str(folder / "files"))
                .option("checkpointLocation", str(kafka.checkpoint("files"))),
                name="files",
                target="1s",
            ),
        ]
        for query in queries:
            if finish:
                query.processAllAvailable()
                query.stop()
            else:
                query.awaitTermination()
        notices = list(lx.status().notices)
    found = kafka.spark.read.parquet(str(folder / "files")).collect()
    return {"files": sorted([row["key"], row["value"]] for row in found), "notices": notices}


def main() -> None:
    scenario, broker, place, jars = sys.argv[1:]
    folder = Path(place)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("laxity-kafka")
        .config("spark.jars", jars)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.local.dir", str(folder / "local"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        scenarios = {"load": under_load, "once": exactly_once}
        seen = scenarios[scenario](Kafka(spark, broker, folder), folder)
        print("SAW " + json.dumps(seen), flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
