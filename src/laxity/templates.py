"""What `laxity init` writes: an example that runs as it is."""

from __future__ import annotations

from pathlib import Path

from laxity.core.errors import LaxityError

PIPELINE = '''"""Two alerts and two reports on one Spark. Run it with: laxity run pipeline.py"""

from pyspark.sql import functions as F

import laxity


def clicks(spark, rows):
    """Stands for your own source: Kafka, files, Kinesis ..."""
    stream = spark.readStream.format("rate").option("rowsPerSecond", rows).load()
    return stream.withColumn("page", F.col("value") % 100)


@laxity.query(target="1s", tenant="alerts")
def errors(spark):
    """Counts of every second, due one second after the last event of that second."""
    counts = (
        clicks(spark, 500)
        .withWatermark("timestamp", "0 seconds")
        .groupBy(F.window("timestamp", "1 second"))
        .count()
    )
    return counts.writeStream.format("noop")


@laxity.query(target="1500ms", tenant="alerts")
def logins(spark):
    """No window: every batch answers, within a second and a half."""
    return clicks(spark, 500).filter("page = 7").writeStream.format("noop")


def report(spark, rows):
    pages = clicks(spark, rows).withColumn("digest", F.sha2(F.col("page").cast("string"), 256))
    windows = pages.withWatermark("timestamp", "0 seconds").groupBy(
        F.window("timestamp", "10 seconds"), "digest"
    )
    return windows.count().writeStream.format("noop")


@laxity.query(target="2min", tenant="reports")
def pages(spark):
    return report(spark, 20_000)


@laxity.query(target="10min", tenant="reports")
def history(spark):
    return report(spark, 20_000)
'''

SETTINGS = """# Settings of `laxity run pipeline.py`. Flags outrank them; every key is optional.

[session]
master = "local[2]"
name = "example"
checkpoints = "./checkpoints"  # beside this file; on a cluster, a place that all can reach
log = "ERROR"                  # Spark's own log level
grace = "10s"                  # how long running batches may take when stopping

[session.conf]
"spark.sql.shuffle.partitions" = 2

[laxity]
policy = "llf"

[server]
address = "127.0.0.1:8642"     # beyond loopback a token is needed: token-file = "token"

[restart]
first = "1s"
longest = "1min"

[events]
file = "events.jsonl"

# [tenants.reports]
# cap = 1                      # at most one task of theirs at a time

# [targets]                    # instead of those in the pipeline
# errors = "800ms"
"""

FILES = {"pipeline.py": PIPELINE, "laxity.toml": SETTINGS}


class ExistsError(LaxityError, FileExistsError):
    """Nothing is overwritten without being asked to."""

    __str__ = Exception.__str__


def write_example(folder: Path, *, force: bool = False) -> list[Path]:
    """Write the example's files; returns their paths."""
    paths = [folder / name for name in FILES]
    for path in paths:
        if path.exists() and not force:
            raise ExistsError(f"{path} exists already; choose another folder, or use --force")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            path.write_text(FILES[path.name], encoding="utf-8")
    except OSError as error:
        raise ExistsError(f"cannot write to {folder}: {error.strerror}") from error
    return paths
