"""What makes a batch cheaper: in force while attached, gone afterwards, never against a user's own
settings. That results stay the same is test_identical's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from laxity.spark import Laxity

pytestmark = pytest.mark.spark

Attach = Callable[..., "Laxity"]
BLOCK_SIZE = "spark.broadcast.blockSize"
WHOLE_STAGE = "spark.sql.codegen.wholeStage"
EXPRESSIONS = "spark.sql.codegen.factoryMode"


def counted(spark: SparkSession, lx: Laxity, feed: Any, name: str) -> Any:
    frame = feed.read(spark, maxFilesPerTrigger=1).groupBy("key").count()
    return lx.start(frame.writeStream.format("noop").outputMode("update"), name=name, target="1h")


def run_batches(query: Any, feed: Any, count: int) -> None:
    for value in range(count):
        feed.add([(float(value), "a", value)])
    query.processAllAvailable()


def parts_of_spark(spark: SparkSession, lx: Laxity) -> tuple[Any, Any]:
    """What makes broadcasts and what serialises functions, by their classes."""
    environment = lx._bridge.member(spark._jsparkSession.sparkContext(), "_env")
    factory = lx._bridge.member(
        lx._bridge.member(environment, "broadcastManager"), "broadcastFactory"
    )
    return factory.getClass().getSimpleName(), lx._bridge.member(
        environment, "closureSerializer"
    ).getClass().getName()


def live_conf(spark: SparkSession) -> Any:
    return spark._jsparkSession.sparkContext().conf()


@pytest.fixture
def own_block_size(spark: SparkSession) -> Iterator[str]:
    live_conf(spark).set(BLOCK_SIZE, "1m")
    yield "1m"
    live_conf(spark).remove(BLOCK_SIZE)


def test_functions_are_tried_once_and_detach_gives_spark_its_parts_back(
    spark: SparkSession, attach: Attach, feed: Any
) -> None:
    stock = "TorrentBroadcastFactory", "org.apache.spark.serializer.JavaSerializer"
    with attach(lean=False) as lx:
        assert parts_of_spark(spark, lx) == stock
    lx = attach()
    checks = lx._bridge._replacements[1]
    assert parts_of_spark(spark, lx) == ("Broadcasts", "laxity.ClosureChecks")
    run_batches(counted(spark, lx, feed, "counted"), feed, 4)
    assert lx._bridge.member(checks, "passed").size() >= 2
    assert not live_conf(spark).contains(BLOCK_SIZE)
    lx.detach()
    assert parts_of_spark(spark, lx) == stock


def test_a_block_size_of_the_users_stays(
    spark: SparkSession, attach: Attach, feed: Any, own_block_size: str
) -> None:
    lx = attach()
    run_batches(counted(spark, lx, feed, "own size"), feed, 2)
    assert live_conf(spark).get(BLOCK_SIZE) == own_block_size


@pytest.mark.parametrize("chosen", [None, "true"])
def test_small_batches_are_interpreted_unless_the_user_chose(
    spark: SparkSession, attach: Attach, feed: Any, wait_for: Callable[..., Any], chosen: str | None
) -> None:
    lx = attach()
    if chosen is not None:
        spark.conf.set(WHOLE_STAGE, chosen)
    try:
        query = counted(spark, lx, feed, f"small {chosen}")
    finally:
        spark.conf.unset(WHOLE_STAGE)
    conf = query._jsq.streamingQuery().sparkSessionForStream().conf()

    def batch_by_batch() -> bool:
        run_batches(query, feed, 1)
        return chosen is not None or conf.contains(EXPRESSIONS)

    for _ in range(10):
        batch_by_batch()
    wait_for(batch_by_batch, "small batches interpreted")
    if chosen is None:
        assert (conf.get(WHOLE_STAGE), conf.get(EXPRESSIONS)) == ("false", "NO_CODEGEN")
    lx.detach()
    assert conf.contains(WHOLE_STAGE) == (chosen is not None)
    assert not conf.contains(EXPRESSIONS)
