"""A Spark application of its own, for the driver's test: prints its JVM's pid and address."""

from __future__ import annotations

import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

folder, master = sys.argv[1:]
spark = (
    SparkSession.builder.master(master)
    .config("spark.driver.memory", "1g")
    .config("spark.executor.memory", "512m")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.streaming.metricsEnabled", "true")
    .config("spark.ui.enabled", "true")
    .config("spark.ui.port", "0")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()


@f.udf("long")
def slowly(value: int) -> int:
    time.sleep(0.2)
    return value


for name, frame in (
    ("alerts", rows),
    ("bulk", rows.where("value % 20 = 0").select(slowly("value"))),
):
    writer = frame.writeStream.format("noop").queryName(name)
    writer.option("checkpointLocation", f"{folder}/{name}").start()
pid = spark._jvm.java.lang.ProcessHandle.current().pid()
print(f"{pid} {spark.sparkContext.uiWebUrl}", flush=True)
sys.stdin.read()
spark.stop()
