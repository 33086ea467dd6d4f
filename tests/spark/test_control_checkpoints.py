"""Control on Spark's checkpoints: scale, savepoint, rollback, replay. Nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laxity
from laxity.spark.control.checkpoints import Scale
from laxity.spark.control.errors import (
    CheckpointError,
    OperationFailedError,
    RepartitionError,
    UnfitOperationError,
)
from laxity.spark.errors import DuplicateQueryError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from laxity.spark import Laxity

pytestmark = pytest.mark.spark

WaitFor = Callable[..., Any]
KEYS = [f"k{i}" for i in range(40)]


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    key = "spark.sql.streaming.stateStore.providerClass"
    name = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set(key, name)
    yield
    spark.conf.unset(key)


class Counts:
    """The last count of each key, as an update-mode query tells it; and who told it."""

    def __init__(self) -> None:
        self.last: dict[str, int] = {}
        self.batches: list[int] = []

    def __call__(self, frame: Any, batch: int) -> None:
        self.last |= {row["key"]: row["count"] for row in frame.collect()}
        self.batches.append(batch)

    def all_at(self, count: int) -> bool:
        return self.last == dict.fromkeys(KEYS, count)


def counting(rows: DataFrame, out: Counts) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    least = F.col("value") >= laxity.variable("least", 0)
    counts = rows.filter(least).groupBy("key").count()
    return counts.writeStream.outputMode("update").foreachBatch(out)


def add(feed: Any, value: int = 5) -> None:
    feed.add((0.0, key, value) for key in KEYS)


def test_state_is_divided_anew_and_nothing_is_lost(
    spark: SparkSession, lx: Laxity, feed: Any, wait_for: WaitFor, rocksdb: None
) -> None:
    out = Counts()
    query = lx.start(counting(feed.read(spark), out), name="wide", target="1h", tenant="ads")
    control = lx.control("wide")
    with pytest.raises(RepartitionError, match="no state, or has not finished a batch"):
        control.scale(3)
    add(feed)
    wait_for(lambda: out.all_at(1) and control.partitions() == 2, "a first batch")
    for seen, partitions in ((2, 5), (3, 3)):
        entry = control.scale(partitions)
        assert entry.result["partitions"] == [{5: 2, 3: 5}[partitions], partitions]
        assert entry.result["pause"] > 0
        add(feed)
        wait_for(lambda: out.all_at(seen), "counts that go on")  # noqa: B023
        wait_for(lambda: control.partitions() == partitions, "new partitions")  # noqa: B023
    assert query.isActive
    assert query.target == 3600.0
    assert lx.status()["wide"].tenant == "ads"
    with pytest.raises(RepartitionError, match="3 partitions already"):
        control.scale(3)
    for wrong in (0, True, 2.5):
        with pytest.raises(RepartitionError, match="whole number from 1 on"):
            control.scale(wrong)  # type: ignore[arg-type]


def test_a_division_that_fails_leaves_the_query_running(
    spark: SparkSession,
    lx: Laxity,
    feed: Any,
    wait_for: WaitFor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the default store Spark breaks off when it has begun a batch that it cannot finish."""
    out = Counts()
    lx.start(counting(feed.read(spark), out), name="stock", target="1h")
    control = lx.control("stock")
    add(feed)
    wait_for(lambda: out.all_at(1) and control.stateful, "a first batch")
    with pytest.raises(RepartitionError, match=r"HDFSBackedStateStoreProvider.*set spark.sql"):
        control.scale(3)
    monkeypatch.setattr(Scale, "check", lambda *_: None)
    with pytest.raises(OperationFailedError, match="UNSUPPORTED_PROVIDER"):
        control.scale(3)
    add(feed)
    wait_for(lambda: out.all_at(2), "counts that go on")
    assert "failed" in control.history()[-1].result


def test_back_to_a_batch_and_on_from_there(
    spark: SparkSession, lx: Laxity, feed: Any, wait_for: WaitFor, tmp_path: Path
) -> None:
    out = Counts()
    writer = counting(feed.read(spark), out)
    query = lx.start(writer, name="past", target="1h")
    control = lx.control("past")
    for count in (1, 2, 3):
        add(feed)
        wait_for(lambda: out.all_at(count), "a batch")  # noqa: B023
    wait_for(lambda: control.files.committed() == [0, 1, 2], "a commit")
    control.set(least=9)
    add(feed)
    wait_for(lambda: control.files.committed() == [0, 1, 2, 3], "a batch that filters all away")

    # Beside it: the same query from batch 0 into another sink, with another setting.
    other = Counts()
    with pytest.raises(DuplicateQueryError):
        control.replay(0, writer, name="past", path=str(tmp_path / "copy"))
    again = control.replay(
        0,
        counting(feed.read(spark, maxFilesPerTrigger=1), other),
        name="again",
        path=str(tmp_path / "copy"),
        variables={"least": 1},
        target="2h",
    )
    wait_for(lambda: other.all_at(4), "all four, since 5 is at least 1")
    assert other.batches == [1, 2, 3]
    assert query.isActive
    assert again.id != query.id
    assert again.target == 7200.0
    again.stop()

    # The query itself goes back: its state, its progress and its variables.
    with pytest.raises(CheckpointError, match="no finished batch 7; it has 0 to 3"):
        control.rollback(7)
    with pytest.raises(CheckpointError, match="nothing to go back over"):
        control.rollback(3)
    with pytest.raises(UnfitOperationError, match="exists; a savepoint needs a new folder"):
        control.savepoint(str(tmp_path / "copy"))
    out.last.clear()
    entry = control.rollback(1)
    assert (entry.result["from"], entry.result["to"]) == (3, 1)
    wait_for(lambda: out.all_at(4), "batches 2 and 3 again, now without the filter")
    assert control.variables()["least"] == "CAST(0 AS BIGINT)"
    assert (Path(control.checkpoint.removeprefix("file:")) / entry.result["kept"]).is_dir()
    add(feed)
    wait_for(lambda: out.all_at(5), "counts that go on")


def test_a_sink_that_remembers_batches_is_not_taken_back(
    spark: SparkSession, lx: Laxity, feed: Any, wait_for: WaitFor, tmp_path: Path
) -> None:
    writer = feed.read(spark, maxFilesPerTrigger=1).writeStream.format("parquet")
    lx.start(writer.option("path", str(tmp_path / "out")), name="files", target="1h")
    control = lx.control("files")
    add(feed)
    add(feed)
    wait_for(lambda: control.files.committed() == [0, 1], "two batches")
    with pytest.raises(UnfitOperationError, match="FileStreamSink, which skips batches"):
        control.rollback(0)
    with pytest.raises(RepartitionError, match="no state"):
        control.scale(4)
