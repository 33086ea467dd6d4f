"""How much a batch takes of what is there, and how late a query is that leaves some behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from laxity.spark import Laxity

pytestmark = pytest.mark.spark

WaitFor = Callable[..., Any]
Attach = Callable[..., "Laxity"]


def test_lax_batches_shrink_beside_urgent_ones_and_grow_without(
    spark: SparkSession,
    attach: Attach,
    feed_at: Callable[[Path], Any],
    tmp_path: Path,
    wait_for: WaitFor,
) -> None:
    """Each file holds a task for 40 ms, and a batch would take sixty of them at a time."""
    from pyspark.sql import functions as sf

    def rest(value: int) -> int:
        time.sleep(0.04)
        return value

    lx = attach(quantum="10ms", max_hold="1s")
    rate = spark.readStream.format("rate").load()
    urgent = lx.start(rate.writeStream.format("noop"), name="urgent", target="1s")
    feeds = {name: feed_at(tmp_path / name) for name in ("free", "limited")}
    options = {"free": {}, "limited": {"maxFilesPerTrigger": 3}}
    queries = {}
    for name, feed in feeds.items():
        frame = feed.read(spark, **options[name]).select(sf.udf(rest, "long")("value"))
        queries[name] = lx.start(frame.writeStream.format("noop"), name=name, target="1h")

    def process(name: str, files: int) -> list[int]:
        """Rows (so, files) of each batch that it took."""
        before = lx.model(name).total_rows
        seen = len(lx.model(name).history)
        lx.pause(name)
        wait_for(lambda: lx.model(name).state == "held", "it to stand still")
        for value in range(files):
            feeds[name].add([(float(value), "a", value)])
        lx.resume(name)
        queries[name].processAllAvailable()
        wait_for(lambda: lx.model(name).total_rows == before + files, "all to be reported")
        return [batch.rows for batch, _ in list(lx.model(name).history)[seen:] if batch.rows]

    while lx.status()["free"].limit not in (1, 2, 3):  # tasks are too long for any more
        process("free", 1)
    assert max(process("free", 60)) < 50  # behind, it may take twenty quanta a task, not all
    assert max(process("limited", 12)) <= 3
    urgent.stop()
    for _ in range(8):  # step by step, and then without a limit
        process("free", 1)
    assert lx.status()["free"].limit == 0
    assert process("free", 40) == [40]
    assert max(process("limited", 12)) == 3


@pytest.mark.parametrize(
    ("end", "latest", "reached"),
    [
        ('{"t":{"0":9,"1":20}}', '{"t":{"0":9,"1":20}}', True),
        ('{"t":{"0":10,"1":20}}', '{"t":{"0":9,"1":20}}', True),
        ('{"t":{"0":10,"1":19}}', '{"t":{"0":9,"1":20}}', False),
        ('{"t":{"0":10,"1":20}}', '{"t":{"0":9,"1":20,"2":1}}', False),  # a partition more
        ('{"other":{"0":10}}', '{"t":{"0":9}}', False),
        ("49590338271490256608559692538361571095921575989136588898", "5", True),
        (None, "5", False),
        ("5", None, False),
    ],
)
def test_offsets_are_compared_number_by_number(
    lx: Laxity, end: str | None, latest: str | None, reached: bool
) -> None:
    assert lx._bridge._static("Backlog", "reaches", end, latest) is reached
