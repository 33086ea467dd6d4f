"""`laxity bench spark`: what an attached Laxity costs the driver.

The loop at many queries in one session, and the pool's order with many waiting task sets.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from laxity.bench.report import describe, machine, write_json
from laxity.bench.sessions import local_session

QUERIES = (1, 10, 50)
WAITING = (10, 100, 400)


def run(*, seconds: float, json: Path | None) -> None:
    console = Console()
    facts = machine()
    console.print(describe(facts), style="dim")
    scratch = tempfile.mkdtemp(prefix="laxity-cost-")
    try:
        spark = local_session("local[1]", scratch, name="laxity bench spark", partitions=1)
        console.print(f"Spark {spark.version}, local\\[1], queries of 1 row/s, one batch a second")
        with console.status("measuring the loop"):
            loop = [_loop_cost(spark, count, seconds) for count in QUERIES]
        with console.status("measuring the pool"):
            sorts = [_sort_cost(spark, count) for count in WAITING]
        spark.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    table = Table(title="Cost of an attached Laxity")
    table.add_column("what")
    table.add_column("cost", justify="right")
    table.add_column("goal", justify="right")
    for count, share in zip(QUERIES, loop, strict=True):
        goal = "2 %" if count == 50 else ""
        table.add_row(f"loop, {count} queries: share of a core", f"{share:.2%}", goal)
    for count, took in zip(WAITING, sorts, strict=True):
        goal = "100 µs" if count == 100 else ""
        table.add_row(f"order of {count} waiting task sets", f"{took * 1e6:.0f} µs", goal)
    console.print(table)
    if json is not None:
        write_json(
            json,
            {
                "machine": facts,
                "loop_share": dict(zip(map(str, QUERIES), loop, strict=True)),
                "sort_seconds": dict(zip(map(str, WAITING), sorts, strict=True)),
            },
        )


def _loop_cost(spark: Any, count: int, seconds: float) -> float:
    import laxity

    with laxity.attach(spark) as lx:
        queries = [
            lx.start(
                spark.readStream.format("rate")
                .option("rowsPerSecond", 1)
                .load()
                .writeStream.format("noop")
                .trigger(processingTime="1 second"),
                name=f"q{number}",
                target="800ms" if number % 2 else "1h",
            )
            for number in range(count)
        ]
        time.sleep(5)
        before, start = lx.status().loop_cpu, time.monotonic()
        time.sleep(seconds)
        share = (lx.status().loop_cpu - before) / (time.monotonic() - start)
        for query in queries:
            query.stop()
    return share


def _sort_cost(spark: Any, count: int) -> float:
    """One job holds the only slot while `count` others wait for it."""
    import laxity

    context = spark.sparkContext
    with laxity.attach(spark, host=False) as lx:
        blocker = context._jvm.java.util.ArrayList()
        for number in range(count + 1):
            blocker.add(number)
        jobs = []
        group = "laxity-bench"
        context.setJobGroup(group, "waiting", True)
        rows = spark.range(1).selectExpr("java_method('java.lang.Thread', 'sleep', 20000L)")
        jobs.append(rows._jdf.toJavaRDD().countAsync())
        for _ in range(count):
            jobs.append(context._jsc.parallelize(blocker, 1).countAsync())
        deadline = time.monotonic() + 30
        while sum(lx._controller.capacity.waiting.values()) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{count} task sets never waited at once")
            time.sleep(0.1)
        lx._bridge.time_sort(2000)  # let the JVM compile it
        took = min(lx._bridge.time_sort(500) for _ in range(5))
        context.cancelJobGroup(group)
    return took
