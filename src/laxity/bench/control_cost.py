"""`laxity bench control`: what watching keys costs a query, and what spreading a hot key gains it.

Both queries run back to back on batches of a fixed size, so throughput is rows over a batch's
time. Two settings take turns on the same running query: each change is a control operation, and
each figure the median of the ratios of neighbouring turns.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.table import Table

from laxity.bench.report import begin, command, write_json
from laxity.bench.sessions import local_session

KEYS = 10_000
HOT_SHARE = 0.6
PARTITIONS = 4


def run(*, rounds: int, batches: int, rows: int, warmup: int, json: Path | None) -> None:
    console, facts = begin()
    scratch = tempfile.mkdtemp(prefix="laxity-control-")
    try:
        # As if the table were too large to broadcast: else Spark would not shuffle for the join.
        conf = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
        spark = local_session(
            "local[*]", scratch, name="laxity bench control", partitions=PARTITIONS, conf=conf
        )
        console.print(
            f"Spark {spark.version}, {rows:,} rows a batch, {rounds} rounds of {batches} batches "
            f"a setting after {warmup} of warm-up"
        )
        turns = Turns(rounds, batches, warmup)
        with console.status("watching keys"):
            watched = _monitoring(spark, rows, turns)
        with console.status("repairing skew"):
            repaired = _skew(spark, rows, turns)
        spark.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    table = Table("what", "time of a batch", "throughput")
    found = watched | repaired
    for name, ratio in found.items():
        table.add_row(name, f"{ratio - 1:+.1%}", f"{1 / ratio - 1:+.1%}")
    console.print(table)
    console.print(
        f"The paper's skew repair: throughput +26 %, latency −61 % on Azure; here {HOT_SHARE:.0%} "
        f"of the rows are of one key in {PARTITIONS} partitions."
    )
    if json is not None:
        write_json(json, {"command": command(), "machine": facts, "batch_time_ratio": found})


class Turns:
    """Settings in turn on one query."""

    def __init__(self, rounds: int, batches: int, warmup: int) -> None:
        self.rounds, self.batches, self.warmup = rounds, batches, warmup

    def compare(self, control: Any, settings: dict[str, Callable[[], Any]]) -> dict[str, float]:
        """Mean time of a batch under each setting, as a ratio to the first."""
        for change in settings.values():  # each plan is compiled once beforehand
            change()
            self._take(control, self.warmup)
        seen: dict[str, list[float]] = {name: [] for name in settings}
        order = list(settings)
        for number in range(self.rounds):
            for name in order if number % 2 == 0 else reversed(order):
                settings[name]()
                seen[name].append(self._take(control, self.batches))
        base = seen[order[0]]
        return {
            name: statistics.median(t / b for t, b in zip(times, base, strict=True))
            for name, times in seen.items()
            if name != order[0]
        }

    def _take(self, control: Any, count: int) -> float:
        """Mean seconds of the next batches, without the one that is under way. The mean, because
        a few of them count keys and all others do not."""
        lx = control.laxity
        first = lx.model(control.id).last_batch.batch + 1
        while True:
            with lx.looking():
                history = [b for b, _ in lx.model(control.id).history]
            done = [b for b in history if first < b.batch <= first + count]
            if len(done) == count:
                return statistics.fmean(b.ended - b.started for b in done)
            time.sleep(0.05)


def _stream(spark: Any, rows: int) -> Any:
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    return reader.option("numPartitions", PARTITIONS).load()


def _start(lx: Any, frame: Any, name: str, mode: str = "append") -> Any:
    lx.start(frame.writeStream.outputMode(mode).format("noop"), name=name, target="1h")
    while lx.model(name).last_batch is None:
        time.sleep(0.1)
    return lx.control(name)


def _monitoring(spark: Any, rows: int, turns: Turns) -> dict[str, float]:
    from pyspark.sql import functions as F  # noqa: N812

    import laxity
    from laxity.spark.control.monitoring import EVERY

    keyed = _stream(spark, rows).select((F.xxhash64("value") % KEYS).alias("key"), "value")
    counts = keyed.groupBy("key").agg(F.count("*"), F.sum("value"))
    with laxity.attach(spark, size=False, interpret=False) as lx:
        control = _start(lx, counts, "watched", "update")
        found = turns.compare(
            control,
            {
                "off": lambda: control.monitor(every=0),
                f"keys counted in one batch of {EVERY}": lambda: control.monitor(every=EVERY),
                "keys counted in every batch": lambda: control.monitor(every=1),
            },
        )
        control.streaming_query.stop()
    return found


def _skew(spark: Any, rows: int, turns: Turns) -> dict[str, float]:
    """A stream is enriched from a table, and the joined row is hashed: work that lies behind the
    shuffle, with the task of the hot key."""
    from pyspark.sql import functions as F  # noqa: N812

    import laxity

    rank = F.xxhash64("value") % 1000
    key = F.when(F.abs(rank) < 1000 * HOT_SHARE, 0).otherwise(F.abs(F.xxhash64("value")) % KEYS)
    stream = _stream(spark, rows).select(key.cast("bigint").alias("key"), "value")
    table = spark.range(KEYS).select(F.col("id").alias("key"), F.sha2(F.hex("id"), 256).alias("n"))
    joined = stream.join(table, "key")
    heavy = F.concat_ws("|", "n", F.col("value").cast("string"))
    for _ in range(4):
        heavy = F.sha2(heavy, 256)
    with laxity.attach(spark, size=False, interpret=False) as lx:
        control = _start(lx, joined.select("key", heavy.alias("hash")), "skewed")
        hot = control.repair_skew("salt").result["keys"]
        found = turns.compare(
            control,
            {
                "as Spark plans it": lambda: control.repair_skew("none"),
                "hot key salted": lambda: control.repair_skew("salt", keys=hot),
                "table broadcast": lambda: control.repair_skew("broadcast"),
            },
        )
        control.streaming_query.stop()
    return found
