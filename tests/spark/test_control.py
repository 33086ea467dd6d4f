"""Control on Spark: what changes, changes between two batches and for all of the query at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laxity
from laxity.core.errors import LaxityError
from laxity.spark.control.errors import (
    NothingToUndoError,
    RepartitionError,
    UnfitOperationError,
    UnknownVariableError,
    VariableTypeError,
)
from laxity.spark.service import SparkService

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from laxity.spark import Laxity

pytestmark = pytest.mark.spark

WaitFor = Callable[..., Any]


class Batches:
    """What each batch wrote."""

    def __init__(self) -> None:
        self.rows: dict[int, list[Any]] = defaultdict(list)

    def __call__(self, frame: Any, batch: int) -> None:
        self.rows[batch] = [tuple(row) for row in frame.collect()]

    @property
    def all(self) -> list[Any]:
        return [row for batch in sorted(self.rows) for row in self.rows[batch]]


def test_two_filters_change_in_the_same_batch(
    spark: SparkSession, lx: Laxity, feed: Any, wait_for: WaitFor
) -> None:
    """Figure 4b: a tuple passes x < A on one way and y < B on the other; never a mixture."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = feed.read(spark, maxFilesPerTrigger=1)
    left = rows.filter(F.col("value") < laxity.variable("A", 10))
    right = rows.filter(F.col("value") < laxity.variable("B", 10))
    both = left.select(F.lit("x").alias("way"), "value").union(
        right.select(F.lit("y").alias("way"), "value")
    )
    out = Batches()
    lx.start(both.writeStream.foreachBatch(out), name="fig4b", target="1h")
    control = lx.control("fig4b")
    feed.add((0.0, "k", value) for value in range(40))
    wait_for(lambda: out.rows, "a batch under the defaults")
    entry = control.set(A=20, B=20, by="ada")
    for _ in range(3):
        feed.add((0.0, "k", value) for value in range(40))
    wait_for(lambda: len(out.rows) >= 4, "batches under the new values")
    for batch, written in out.rows.items():
        counts = {way: sum(1 for w, _ in written if w == way) for way in ("x", "y")}
        expected = 10 if batch < entry.result["batch"] else 20
        assert counts == {"x": expected, "y": expected}
    assert entry.by == "ada"
    assert control.variables() == {"A": "20L", "B": "20L"}

    # Mistakes change nothing.
    with pytest.raises(UnknownVariableError, match="has no variable 'C'; it has: A, B"):
        control.set(A=1, C=2)
    with pytest.raises(VariableTypeError, match="B is bigint: 'many' is not"):
        control.set(A=1, B="many")
    with pytest.raises(UnfitOperationError, match="there is no setting 'colour'"):
        control.change(colour="red")
    assert control.variables() == {"A": "20L", "B": "20L"}

    # Undo, once for each change.
    control.undo()
    assert control.variables() == {"A": "CAST(10 AS BIGINT)", "B": "CAST(10 AS BIGINT)"}
    with pytest.raises(NothingToUndoError):
        control.undo()
    assert [e.name for e in control.history()] == ["spark-change", "spark-change"]


@pytest.mark.slow
def test_the_same_from_outside(
    spark: SparkSession, lx: Laxity, feed: Any, wait_for: WaitFor
) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    out = Batches()
    rows = feed.read(spark).filter(F.col("value") < laxity.variable("A", 10))
    lx.start(rows.writeStream.foreachBatch(out), name="fig4b", target="1h")
    feed.add([(0.0, "k", 1)])
    wait_for(lambda: out.rows, "a batch")
    service = SparkService(lx)
    done = service.operate("fig4b", "change", {"variables": {"A": 5}, "pace": "10ms"}, "api")
    assert (done.name, done.by) == ("change", "api")
    seen = service.control("fig4b")
    assert seen.variables["A"] == "5L"
    assert seen.settings["pace"] == 0.01
    assert [o.id for o in seen.history][-1] == done.id
    for operation, arguments, reason in (
        ("change", {"variables": {"C": 1}}, "no variable 'C'"),
        ("change", {"caps": {"x": "many"}}, "slots from 1 on"),
        ("change", {"pace": {}}, "."),
        ("scale", {"by": 1}, "takes \\(partitions\\)"),
        ("explode", {}, "no operation 'explode'; there are change, scale"),
    ):
        with pytest.raises(LaxityError, match=reason):
            service.operate("fig4b", operation, arguments, "api")
    assert service.control("fig4b").history == seen.history


def test_functions_and_settings_change_together(
    spark: SparkSession, lx: Laxity, feed: Any, wait_for: WaitFor
) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    score = laxity.function("score", "bigint", returns="bigint", v1=lambda x: x + 1)
    score.define("v2", lambda x: x * laxity.variable("factor", 100))
    out = Batches()
    rows = feed.read(spark, maxFilesPerTrigger=1).select(score(F.col("value")))
    lx.start(rows.writeStream.foreachBatch(out), name="scores", target="1h")
    control = lx.control("scores")
    feed.add([(0.0, "k", 7)])
    wait_for(lambda: out.all == [(8,)], "the first version")
    control.change(variables={"score": "v2"}, target="20s", batch_size=3, paused=True)
    feed.add([(0.0, "k", 7)])
    assert lx.status()["scores"].target == 20.0
    assert len(out.all) == 1
    control.resume()  # an operation on a query that stands at the gate
    wait_for(lambda: out.all == [(8,), (700,)], "the second version")
    with pytest.raises(UnknownVariableError, match="no version 'v3'; it has v1, v2"):
        control.set(score="v3")
    with pytest.raises(RepartitionError):
        control.scale(4)


def test_a_savepoint_is_taken_while_the_query_runs(
    spark: SparkSession, lx: Laxity, feed: Any, wait_for: WaitFor, tmp_path: Path
) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    out = Batches()
    least = F.col("value") >= laxity.variable("least", 0)
    counts = feed.read(spark).filter(least).groupBy("key").count()
    writer = counts.writeStream.outputMode("update").foreachBatch(out)
    query = lx.start(writer, name="counts", target="1h")
    control = lx.control("counts")
    keys = [f"k{i}" for i in range(20)]
    feed.add((0.0, key, 5) for key in keys)
    wait_for(lambda: len(out.all) == 20 and control.partitions() == 2, "a first batch")
    control.set(least=3)
    saved = control.savepoint(str(tmp_path / "saved"))
    assert (tmp_path / "saved" / "commits" / str(saved.result["last"])).exists()
    with pytest.raises(RepartitionError, match="only state in RocksDB"):
        control.scale(3)  # refused: the default store would be left half divided
    feed.add((0.0, key, value) for key in keys for value in (1, 5))
    wait_for(lambda: dict(out.all) == dict.fromkeys(keys, 2), "counts that go on, and least=3")
    assert query.isActive
