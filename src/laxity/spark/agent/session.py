"""The Spark session of an agent, warm before it takes its first query."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_session(name: str, master: str, memory: str, settings: dict[str, str]) -> SparkSession:
    """A classic session; on one machine it binds to loopback and takes no fixed port."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master(master)
        .appName(f"laxity-agent-{name}")
        .config("spark.driver.memory", memory)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    if master.startswith("local"):
        builder = builder.config("spark.driver.host", "127.0.0.1").config(
            "spark.driver.bindAddress", "127.0.0.1"
        )
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def warm_up(spark: SparkSession, *, batches: int = 3, within: float = 60.0) -> float:
    """Run a small stateful query for a few batches: loads the classes and compiles the paths that
    the first batch of any query would otherwise wait for. Seconds it took."""
    from pyspark.sql import functions

    began = time.monotonic()
    scratch = tempfile.mkdtemp(prefix="laxity-warm-")
    rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    counted = (
        rows.withWatermark("timestamp", "1 second")
        .groupBy(functions.window("timestamp", "1 second"))
        .count()
    )
    query = (
        counted.writeStream.format("noop")
        .outputMode("update")
        .queryName("laxity-warm-up")
        .option("checkpointLocation", scratch)
        .start()
    )
    try:
        while time.monotonic() - began < within and query.isActive:
            progress = query.lastProgress
            if progress is not None and progress["batchId"] >= batches:
                break
            time.sleep(0.1)
    finally:
        query.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    return time.monotonic() - began
