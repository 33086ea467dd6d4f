"""Moves on real Spark: by itself, with a real Kafka, and with state that must go along."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.spark_harness import SparkFleet, exactly_once, runs_once
from spark.kafka_parts import Broker, Unavailable, connector_jars, start_broker

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]

CPUS = sorted(os.sched_getaffinity(0))

BURNING = """
from pathlib import Path
import laxity

ROOT = Path({root!r})

def copy_of(name):
    @laxity.query(name=name, target="5s")
    def build(spark):
        from pyspark.sql import functions as f

        source = str(ROOT / "in" / name)
        rows = spark.readStream.schema("n LONG").option("maxFilesPerTrigger", 1).json(source)
        spent = f.aggregate(f.sequence(f.lit(1), f.lit(60000)), f.lit(0).cast("bigint"),
                            lambda total, i: total + f.pmod(f.hash(f.col("n"), i), f.lit(7)))
        rows = rows.where(spent >= 0)
        return rows.writeStream.format("json").option("path", str(ROOT / "out" / name))
    return build

for _name in {names!r}:
    globals()[_name] = copy_of(_name)
"""

KAFKA = """
import laxity

@laxity.query(target="5s")
def copy(spark):
    rows = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "ADDRESS")
    rows = rows.option("subscribe", "numbers").option("startingOffsets", "earliest")
    out = rows.load().selectExpr("CAST(value AS STRING) AS value").writeStream.format("kafka")
    return out.option("kafka.bootstrap.servers", "ADDRESS").option("topic", "copies")
"""


@pytest.mark.skipif(len(CPUS) < 2 or not shutil.which("taskset"), reason="needs two CPUs, taskset")
def test_an_overloaded_application_sheds_a_query_by_itself(tmp_path: Path) -> None:
    """Two applications, each bound to a CPU as if to a host. Three queries on one of them want
    more than it has; the other is idle."""
    queries = ("a", "b", "c")
    fleet = SparkFleet(tmp_path / "fleet", queries, BURNING)
    enough = threading.Event()

    def keep_feeding() -> None:
        while not enough.wait(0.7):
            for query in queries:
                fleet.feed(query, rows=10)

    feeder = threading.Thread(target=keep_feeding)
    try:
        places = [argument for query in queries for argument in ("--place", f"{query}=n1")]
        fleet.orchestrator(
            "orchestrator", str(fleet.pipeline), *places, "--nodes", "2", "--cooling-down", "5s"
        )
        for name, cpu in zip(("n1", "n2"), CPUS, strict=False):
            fleet.agent(name, "--cooling-down", "5s", "--period", "1s", "--ttl", "8s", cpu=cpu)
        fleet.up("n1", "n2")
        fleet.wait(lambda: all(fleet.runs(q, "n1") for q in queries), "all run on n1", 180)
        feeder.start()

        def done() -> list[dict[str, Any]]:
            return [move for move in fleet.show()["moves"] if move["step"] == "done"]

        moves = fleet.wait(done, "a query has moved", 180)
        enough.set()
        feeder.join()
        first = moves[-1]
        assert (first["source"], first["target"], first["by"]) == ("n1", "n2", "fleet")
        for query in queries:
            runs_once(fleet, query)
            exactly_once(fleet, query)
    finally:
        enough.set()
        if feeder.is_alive():
            feeder.join()
        fleet.close()


def wait_for(condition: Callable[[], Any], what: str = "", seconds: float = 90.0) -> Any:
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until, f"not within {seconds} s: {what}"
        time.sleep(0.05)
    return value


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    pytest.importorskip("kafka", reason="kafka-python is not installed")
    (tmp_path / "kafka").mkdir()
    try:
        running = start_broker(tmp_path / "kafka", wait_for)
    except Unavailable as why:
        pytest.skip(str(why))
    yield running
    running.stop()


def test_moves_from_kafka_to_kafka_lose_and_double_nothing(broker: Broker, tmp_path: Path) -> None:
    """Kafka's sink may write a batch twice; a move lets the batch end first, so it does not."""
    import pyspark

    try:
        jars = ",".join(map(str, connector_jars(pyspark.__version__)))
    except Unavailable as why:
        pytest.skip(str(why))
    broker.create(numbers=2, copies=2)
    fleet = SparkFleet(tmp_path / "fleet", pipeline=KAFKA.replace("ADDRESS", broker.address))
    sent, enough = [0], threading.Event()

    def keep_sending() -> None:
        while not enough.wait(0.1):
            values = [str(n) for n in range(sent[0], sent[0] + 20)]
            broker.send("numbers", values, 2)
            sent[0] += len(values)

    sender = threading.Thread(target=keep_sending)
    try:
        fleet.orchestrator("orchestrator", str(fleet.pipeline), "--place", "copy=n1")
        for name in ("n1", "n2"):
            fleet.agent(name, "--conf", f"spark.jars={jars}")
        fleet.up("n1", "n2")
        fleet.wait(lambda: fleet.runs("copy", "n1"), "copy runs on n1", 120)
        sender.start()
        fleet.wait(lambda: broker.count("copies") > 100, "copies arrive", 120)
        for target in ("n2", "n1", "n2"):
            before = broker.count("copies")
            fleet.client.move("copy", target)
            fleet.wait(lambda target=target: fleet.runs("copy", target), f"runs on {target}", 120)
            fleet.wait(lambda before=before: broker.count("copies") > before + 60, "goes on", 120)
            move = fleet.wait(lambda: (m := fleet.last_move("copy")) and m["gap"] and m, "its gap")
            assert move["step"] == "done"
            print(f"pause {move['pause']:.2f} s, until the first commit {move['gap']:.2f} s")
        enough.set()
        sender.join()
        fleet.wait(lambda: broker.count("copies") >= sent[0], "all is copied", 120)
        runs_once(fleet)
        counts = Counter(int(record.value) for record in broker.read("copies"))
        assert sorted(counts) == list(range(sent[0]))
        assert set(counts.values()) == {1}
    finally:
        enough.set()
        if sender.is_alive():
            sender.join()
        fleet.close()
