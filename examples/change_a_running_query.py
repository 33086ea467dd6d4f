"""Changes a running query in every way docs/control-on-spark.md tells of, and prints what it sees.

    python examples/change_a_running_query.py

Needs pyspark 4.2 or later; takes about a minute, and leaves nothing behind.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import laxity
from laxity.core.errors import LaxityError
from laxity.server.control_cli import describe
from laxity.spark.service import as_operation

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
KEYS = 1000


class Numbers:
    """A folder that numbers are put into, and the counts a query makes of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.files = folder, 0
        self.counts: dict[int, int] = {}
        folder.mkdir()

    def add(self) -> None:
        """Each key once, and key 7 two thousand times more."""
        rows = [json.dumps({"key": key, "value": key}) for key in range(KEYS)]
        rows += [json.dumps({"key": 7, "value": 7})] * 2 * KEYS
        hidden = self.folder / f".{self.files}"
        hidden.write_text("\n".join(rows))
        hidden.rename(self.folder / f"{self.files:04}.json")
        self.files += 1

    def note(self, frame: object, batch: int) -> None:
        for row in frame.collect():  # type: ignore[attr-defined]
            self.counts[row["key"]] = row["count"]


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("nothing happens")
        time.sleep(0.05)


def main(scratch: Path) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.sql.streaming.checkpointLocation", str(scratch / "checkpoints"))
        .config("spark.sql.autoBroadcastJoinThreshold", -1)  # as if the table were large
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    lx = laxity.attach(spark)
    numbers = Numbers(scratch / "in")
    rows = spark.readStream.schema("key LONG, value LONG").json(str(scratch / "in"))
    kept = rows.filter(F.col("value") >= laxity.variable("least", 0))
    counts = kept.groupBy("key").count().writeStream.outputMode("update")
    lx.start(counts.foreachBatch(numbers.note), name="counts", target="1h")
    control = lx.control("counts")

    def told(entry: object) -> None:
        print("  " + describe(as_operation(entry)))  # type: ignore[arg-type]

    def one_more(of: int = 11) -> None:
        before = numbers.counts.get(of, 0)
        numbers.add()
        wait_for(lambda: numbers.counts.get(of, 0) > before)
        wait_for(lambda: len(control.files.committed()) > 0 and control.partitions() is not None)
        print(f"  counted {sum(numbers.counts.values())} rows, key {of} {numbers.counts[of]} times")

    print("a first batch")
    one_more()
    print("change: from one batch to the next")
    told(control.set(least=10))
    one_more()
    told(control.undo())
    print("keys, counted beside the data")
    told(control.monitor(every=1))
    one_more()
    found = control.monitoring()
    assert found is not None
    print(f"  about {found.keys} keys in {found.rows} rows; key {found.heaviest[0].key} has")
    print(f"  {found.heaviest[0].share:.0%} of them")
    control.monitor(every=0)
    print("scale out and in")
    for partitions in (4, 1):
        told(control.scale(partitions))
        one_more()
    print("rollback")
    last = control.files.committed()[-1]
    told(control.rollback(last - 3))
    one_more()
    print("replay into another sink")
    again = Numbers(scratch / "again")
    writer = kept.groupBy("key").count().writeStream.outputMode("update").foreachBatch(again.note)
    copy = str(scratch / "copy")
    control.replay(
        control.files.committed()[0], writer, name="again", path=copy, variables={"least": 500}
    )
    wait_for(lambda: again.counts)
    print(f"  it has counted key 600 {again.counts[600]} times, and {len(again.counts)} keys")
    print("skew repair: a join with a table")
    table = spark.range(KEYS).select(F.col("id").alias("key"), F.hex("id").alias("name"))
    joined = rows.join(table, "key").writeStream.format("noop")
    lx.start(joined, name="join", target="1h")
    join = lx.control("join")
    wait_for(lambda: join.files.committed())
    for _ in range(5):
        numbers.add()
    told(join.repair_skew("salt"))
    told(join.repair_skew("broadcast"))
    print("refused, before anything changes")
    for mistake in (
        lambda: control.set(most=1),
        lambda: control.set(least="few"),
        lambda: control.scale(1),
        lambda: control.rollback(1000),
        lambda: control.repair_skew(),
        lambda: lx.set_executors(4),
    ):
        try:
            mistake()
        except LaxityError as error:
            print(f"  {type(error).__name__}: {error}")
    lx.detach()
    for query in spark.streams.active:
        query.stop()
    spark.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
