"""The driver of test_cluster.py: one scenario on a standalone cluster, in a process of its own
because a process can have one SparkContext. Prints what it saw as one line of JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import laxity


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 90.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"not within {seconds} s: {what}")
        time.sleep(0.05)


def nap(log: Path, tag: str, seconds: float) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A task that notes when it ran. The workers share this machine's files and clock."""

    def work(values: Iterator[Any]) -> Iterator[Any]:
        start = time.time()
        kept = list(values)
        time.sleep(seconds)
        with log.open("a") as file:
            file.write(f"{tag} {start} {time.time()}\n")
        return iter(kept)

    return work


def order_and_caps(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Bulk of one tenant, capped at two of four slots; beside it a job that is due."""
    log = folder / "tasks"
    context = spark.sparkContext
    context.parallelize(range(8), 8).count()  # executors and Python workers are up
    with laxity.attach(spark) as lx:
        lx.set_cap("bulk", 2)

        def submit(tag: str, tasks: int, target: str, tenant: str) -> threading.Thread:
            def job() -> None:
                with lx.target(target, tenant=tenant):
                    context.parallelize(range(tasks), tasks).mapPartitions(
                        nap(log, tag, 0.3)
                    ).count()

            thread = threading.Thread(target=job)
            thread.start()
            return thread

        bulk = [submit("bulk", 10, "1h", "bulk") for _ in range(2)]
        wait_for(log.exists, "the first tasks")
        lax = submit("lax", 16, "2h", "other")
        wait_for(lambda: "lax" in log.read_text(), "lax tasks in the slots the cap leaves")
        urgent = submit("urgent", 8, "1s", "other")
        for thread in (*bulk, lax, urgent):
            thread.join(120)
        status = lx.status()
    tasks = [line.split() for line in log.read_text().splitlines()]
    return {
        "tasks": [[tag, float(start), float(end)] for tag, start, end in tasks],
        "cores": status.cores,
        "notices": list(status.notices),
    }


def kill_a_worker(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """A query counts numbered rows into files; half-way, a worker and its executor die."""
    source = folder / "in"
    source.mkdir()
    victim = int(os.environ["LAXITY_TEST_WORKER"])
    files, per_file = 12, 50

    def add(number: int) -> None:
        rows = range(number * per_file, (number + 1) * per_file)
        hidden = source / f".{number}"
        hidden.write_text("\n".join(json.dumps({"n": n}) for n in rows))
        hidden.rename(source / f"{number:03}.json")

    with laxity.attach(spark) as lx:
        reader = spark.readStream.schema("n LONG").option("maxFilesPerTrigger", 1)
        slow = reader.json(str(source)).repartition(4).mapInPandas(_slowly, "n LONG")
        writer = slow.writeStream.format("parquet").option("path", str(folder / "out"))
        query = lx.start(
            writer.option("checkpointLocation", str(folder / "checkpoint")),
            name="counted",
            target="1s",
        )
        for number in range(files):
            add(number)
        wait_for(lambda: lx.model("counted").batches >= 2, "two batches")
        os.killpg(victim, signal.SIGKILL)
        query.processAllAvailable()
        wait_for(lambda: lx.model("counted").batches >= files, "all batches to be reported")
        query.stop()
        notices = list(lx.status().notices)
    found = sorted(row.n for row in spark.read.parquet(str(folder / "out")).collect())
    return {"rows": found, "expected": files * per_file, "notices": notices}


def resize(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """A query keeps counts while an executor goes and comes back."""
    source, last = folder / "in", dict[str, int]()
    source.mkdir()
    keys = [f"k{i}" for i in range(40)]

    def add(number: int) -> None:
        hidden = source / f".{number}"
        hidden.write_text("\n".join(json.dumps({"key": key}) for key in keys))
        hidden.rename(source / f"{number:03}.json")

    def note(frame: Any, batch: int) -> None:
        last.update({row["key"]: row["count"] for row in frame.collect()})

    sizes = []
    with laxity.attach(spark) as lx:
        counts = spark.readStream.schema("key STRING").json(str(source)).groupBy("key").count()
        writer = counts.writeStream.outputMode("update").foreachBatch(note)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        query = lx.start(writer, name="counted", target="1h")
        for number, executors in enumerate((2, 1, 2), 1):
            done = lx.set_executors(executors)
            sizes.append([done.before, done.after])
            add(number)
            wait_for(lambda n=number: last == dict.fromkeys(keys, n), "counts that go on")
        query.stop()
        notices = list(lx.status().notices)
    return {"sizes": sizes, "counts": sorted(set(last.values())), "notices": notices}


def _slowly(frames: Iterator[Any]) -> Iterator[Any]:
    for frame in frames:
        time.sleep(0.2)
        yield frame


def main() -> None:
    scenario, master, folder = sys.argv[1:]
    spark = (
        SparkSession.builder.master(master)
        .appName("laxity-cluster")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.executor.memory", "512m")
        .config("spark.executor.cores", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.local.dir", str(Path(folder) / "local"))
        .getOrCreate()
    )
    try:
        context = spark.sparkContext._jsc.sc()
        wait_for(lambda: len(context.statusTracker().getExecutorInfos()) == 3, "two executors")
        scenarios = {"order": order_and_caps, "kill": kill_a_worker, "resize": resize}
        print("SAW " + json.dumps(scenarios[scenario](spark, Path(folder))), flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
