"""Queries on a real Flink and a real Spark on one machine at the same time (Lachesis' goal G5).

Both engines run urgent and bulk queries, and bulk takes all CPU it can get. The kernel knows
threads and shares evenly; a host loop over both engines knows targets. Everything keeps running
while modes take turns.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from laxity.bench.flink_cluster import FlinkCluster
from laxity.bench.host_contest import DEFAULT, Row
from laxity.host import procfs
from laxity.host.config import HostConfig, make_bindings, make_drivers
from laxity.host.drivers.flink import Job, metric_names, parse_job
from laxity.host.drivers.http import RestClient
from laxity.host.runner import HostRunner, prefer_this_process

MODES = (DEFAULT, "laxity", "random")
TARGETS = {"*alerts*": 0.3, "*bulk*": 3600.0}
_HASHES = 8
_FLINK_ALERTS = 2
_FLINK_BULK = 3
_ALERT_ROWS = 12_000
"""Rows/s of each urgent Flink query: a good third of a core, more than an even share here."""


def flink_job(name: str, rows_per_second: int) -> list[str]:
    table = name.replace("-", "_")
    value = "CAST(x AS STRING)"
    for _ in range(_HASHES):
        value = f"SHA512({value})"
    source = f"'connector' = 'datagen', 'rows-per-second' = '{rows_per_second}'"
    return [
        f"CREATE TEMPORARY TABLE in_{table} (x BIGINT) WITH ({source})",
        f"CREATE TEMPORARY TABLE out_{table} (h STRING) WITH ('connector' = 'blackhole')",
        f"INSERT INTO out_{table} SELECT {value} FROM in_{table}",
    ]


def flink_jobs() -> dict[str, list[str]]:
    alerts = {
        f"f-alerts-{i}": flink_job(f"f-alerts-{i}", _ALERT_ROWS) for i in range(_FLINK_ALERTS)
    }
    bulk = {f"f-bulk-{i}": flink_job(f"f-bulk-{i}", 10_000_000) for i in range(_FLINK_BULK)}
    return alerts | bulk


@dataclass
class SparkSide:
    """A local Spark with one urgent and one bulk query."""

    folder: Path
    queries: dict[str, Any] = field(default_factory=dict)

    def __enter__(self) -> SparkSide:
        from pyspark.sql import SparkSession
        from pyspark.sql import functions as f

        self.session = (
            SparkSession.builder.master("local[2]")
            .config("spark.driver.memory", "1g")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.streaming.metricsEnabled", "true")
            .config("spark.sql.streaming.numRecentProgressUpdates", "5000")
            .config("spark.ui.port", "0")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        self.session.sparkContext.setLogLevel("ERROR")
        alerts = (
            self.session.readStream.format("rate")
            .option("rowsPerSecond", 1000)
            .load()
            .groupBy((f.col("value") % 10).alias("k"))
            .count()
        )
        hashed = f.sha2(f.col("value").cast("string"), 512)
        for _ in range(_HASHES):
            hashed = f.sha2(hashed, 512)
        bulk = (
            self.session.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", 200_000)
            .option("numPartitions", 2)
            .load()
            .select(hashed.alias("h"))
        )
        self._start("s-alerts", alerts, "complete", "500 milliseconds")
        self._start("s-bulk", bulk, "append", "0 seconds")
        return self

    def _start(self, name: str, frame: Any, mode: str, trigger: str) -> None:
        writer = frame.writeStream.format("noop").outputMode(mode).queryName(name)
        checkpoint = str(self.folder / name)
        writer = writer.option("checkpointLocation", checkpoint).trigger(processingTime=trigger)
        self.queries[name] = writer.start()

    @property
    def url(self) -> str:
        return str(self.session.sparkContext.uiWebUrl)

    @property
    def pid(self) -> int:
        for pid in procfs.descendants(os.getpid()):
            if "SparkSubmit" in procfs.command_line(pid):
                return pid
        raise LookupError("this process has no Spark JVM")

    def measure(self, since: float, until: float) -> dict[str, float]:
        def batches(name: str) -> list[tuple[float, int]]:
            return [
                (p["durationMs"].get("triggerExecution", 0) / 1000, p["numInputRows"])
                for p in self.queries[name].recentProgress
                if since <= datetime.fromisoformat(p["timestamp"]).timestamp() < until
                and p["numInputRows"]
            ]

        alerts = sorted(duration for duration, _ in batches("s-alerts"))
        bulk = sum(rows for _, rows in batches("s-bulk"))
        return {
            "spark_alerts_p50": median(alerts) if alerts else until - since,
            "spark_alerts_max": alerts[-1] if alerts else until - since,
            "spark_alerts_batches": float(len(alerts)),
            "spark_bulk_rows": bulk / (until - since),
        }

    def __exit__(self, *_: object) -> None:
        for query in self.queries.values():
            query.stop()
        self.session.stop()


class FlinkSide:
    """Reads what the jobs did, over the same REST API as the driver."""

    def __init__(self, cluster: FlinkCluster) -> None:
        self._rest = RestClient(cluster.url, timeout=10)
        running = self._rest.json("/jobs/overview")["jobs"]
        jobs = [parse_job(self._rest.json(f"/jobs/{job['jid']}")) for job in running]
        self._jobs: Mapping[str, Job] = {job.name: job for job in jobs}

    def look(self) -> dict[str, dict[str, float]]:
        found = {}
        for name, job in self._jobs.items():
            last = next(v for v in job.vertices if not any(v.id in w.inputs for w in job.vertices))
            (age,) = metric_names("head_age", last, 0)
            tail = age.replace("latency_median", "latency_p99")
            names = ",".join(("0.numRecordsIn", age, tail))
            answer = self._rest.json(f"/jobs/{job.id}/vertices/{last.id}/metrics?get={names}")
            said = {entry["id"]: float(entry["value"]) for entry in answer}
            found[name] = {
                "rows": said.get("0.numRecordsIn", 0.0),
                "p50": said.get(age, 0.0) / 1000,
                "p99": said.get(tail, 0.0) / 1000,
            }
        return found

    def measure(
        self, before: dict[str, dict[str, float]], after: dict[str, dict[str, float]], span: float
    ) -> dict[str, float]:
        alerts = [name for name in after if "alerts" in name]
        bulk = [name for name in after if "bulk" in name]

        def rate(names: Sequence[str]) -> float:
            return sum(after[n]["rows"] - before[n]["rows"] for n in names) / span

        return {
            "flink_alerts_rows": rate(alerts),
            "flink_alerts_offered": float(_ALERT_ROWS * len(alerts)),
            "flink_alerts_p50": max(after[n]["p50"] for n in alerts),
            "flink_alerts_p99": max(after[n]["p99"] for n in alerts),
            "flink_bulk_rows": rate(bulk),
        }


@dataclass(frozen=True)
class MixedContest:
    modes: Sequence[str] = MODES
    rounds: int = 2
    settle: float = 6.0
    seconds: float = 12.0
    period: float = 0.5
    warm_up: float = 15.0

    @property
    def phases(self) -> int:
        return self.rounds * len(self.modes)

    def run(self, say: Callable[[str], None]) -> Iterator[Row]:
        order = random.Random(time.time_ns())
        with tempfile.TemporaryDirectory(prefix="laxity-mixed-") as folder:
            flink_folder = Path(folder, "flink")
            flink_folder.mkdir()
            with FlinkCluster(flink_folder) as cluster:
                cluster.submit_sql(flink_jobs())
                with SparkSide(Path(folder, "spark")) as spark:
                    prefer_this_process()
                    time.sleep(self.warm_up)
                    flink = FlinkSide(cluster)
                    for _ in range(self.rounds):
                        for mode in order.sample(self.modes, len(self.modes)):
                            yield self._phase(mode, cluster, flink, spark, say)

    def _phase(
        self,
        mode: str,
        cluster: FlinkCluster,
        flink: FlinkSide,
        spark: SparkSide,
        say: Callable[[str], None],
    ) -> Row:
        def measure() -> Row:
            time.sleep(self.settle)
            before, since, used = flink.look(), time.time(), time.process_time()
            time.sleep(self.seconds)
            after, until = flink.look(), time.time()
            own = (time.process_time() - used) / (until - since)
            return {
                "mode": mode,
                "own_cpu": own,
                **flink.measure(before, after, until - since),
                **spark.measure(since, until),
            }

        if mode == DEFAULT:
            return measure()
        config = HostConfig(
            engines=(
                {"kind": "flink", "url": cluster.url, "process": str(cluster.folder)},
                {"kind": "spark", "url": spark.url, "pids": [spark.pid]},
            ),
            policies=({"kind": mode, "translator": "nice"},),
            targets=TARGETS,
            period=self.period,
        )
        runner = HostRunner(
            make_drivers(config),
            lambda kernel, journal, notices: make_bindings(config, kernel, journal, notices),
            name=f"mixed-{os.getpid()}",
            timeout=2 * self.period,
            say=say,
        )
        with runner:
            runner.start()
            return measure()
