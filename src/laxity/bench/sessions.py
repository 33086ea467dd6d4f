"""The Spark session every benchmark runs in: local, quiet, its files where they are cleaned up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def local_session(
    master: str, scratch: str, *, name: str, partitions: int, conf: Mapping[str, str] | None = None
) -> Any:
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master(master)
        .appName(name)
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", f"{scratch}/local")
        .config("spark.sql.warehouse.dir", f"{scratch}/warehouse")
        .config("spark.sql.streaming.checkpointLocation", f"{scratch}/checkpoints")
        .config("spark.sql.shuffle.partitions", str(partitions))
    )
    for key, value in (conf or {}).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
