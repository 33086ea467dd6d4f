"""With a real Kafka: a broker, Spark's connector, and a driver that a test can kill."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from spark.kafka_parts import Broker, Unavailable, connector_jars, newest_up_to, start_broker

DRIVER = Path(__file__).with_name("kafka_driver.py")
OWN_LIMIT = 20_000
TARGET = 1.5

WaitFor = Callable[..., Any]
real = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_connector_is_of_the_installed_spark_or_the_newest_before_it() -> None:
    published = ["3.5.4", "4.0.0", "4.0.1", "4.1.0-preview1", "4.2.0", "4.10.0"]
    assert newest_up_to("4.2.0", published) == "4.2.0"
    assert newest_up_to("4.3.0", published) == "4.2.0"
    assert newest_up_to("4.11.0", published) == "4.10.0"
    assert newest_up_to("4.1.9", published) == "4.0.1"
    assert newest_up_to("5.0.0", published) is None


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, wait_for: WaitFor) -> Iterator[Broker]:
    pytest.importorskip("kafka", reason="kafka-python is not installed")
    try:
        running = start_broker(tmp_path_factory.mktemp("kafka"), wait_for)
    except Unavailable as why:
        pytest.skip(str(why))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def jars() -> list[Path]:
    import pyspark

    try:
        return connector_jars(pyspark.__version__)
    except Unavailable as why:
        pytest.skip(str(why))


class Driver:
    """A run of kafka_driver.py, with all it starts in a process group of its own."""

    def __init__(self, scenario: str, broker: Broker, folder: Path, jars: list[Path]) -> None:
        paths = ",".join(map(str, jars))
        self._process = subprocess.Popen(
            [sys.executable, str(DRIVER), scenario, broker.address, str(folder), paths],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def saw(self) -> dict[str, Any]:
        out, errors = self._process.communicate(timeout=400)
        seen = re.search(r"^SAW (.*)$", out, re.MULTILINE)
        assert seen, errors[-4000:]
        return json.loads(seen[1])  # type: ignore[no-any-return]

    def kill(self) -> None:
        """Python, the JVM and its workers at once, as a machine that loses power would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@pytest.fixture
def drive(broker: Broker, jars: list[Path], tmp_path: Path) -> Iterator[Callable[[str], Driver]]:
    started: list[Driver] = []

    def drive(scenario: str) -> Driver:
        started.append(Driver(scenario, broker, tmp_path, jars))
        return started[-1]

    yield drive
    for driver in started:
        driver.kill()


class TestUnderLoad:
    pytestmark = real

    def test_a_target_is_met_and_bulk_makes_room(
        self, broker: Broker, drive: Callable[[str], Driver], tmp_path: Path, wait_for: WaitFor
    ) -> None:
        broker.create(bulk=2, hashes=2, events=1, alerts=1)
        done = threading.Event()
        bulk = threading.Thread(target=_keep_behind, args=(broker, done))
        bulk.start()
        try:
            driver = drive("load")
            events = threading.Thread(
                target=_tick, args=(broker, tmp_path / "alerts-run", done, driver)
            )
            events.start()
            seen = driver.saw()
        finally:
            done.set()
            bulk.join()
        events.join()
        assert seen["notices"] == []
        assert seen["source"] == [["rows", OWN_LIMIT]]
        # Met by Laxity's own account, which is an upper bound, and by Kafka's clock.
        assert seen["met"] >= 0.95
        assert "upper bound" in seen["arrival"]
        since, until = seen["window"]
        rows, batches = _written(broker, since, until)
        assert len(rows) >= 50
        assert sum(latency <= TARGET for latency in rows) / len(rows) >= 0.95
        # A batch's figure is that of its earliest row; Spark commits after Kafka has them all.
        assert median(batches) <= seen["p50"] + 0.1
        # The batch size: the user's own, smaller while somebody is urgent, the user's own again.
        sizes = seen["sizes"]
        assert max(sizes) == OWN_LIMIT
        assert seen["limit alone"] == 0
        assert 0 < seen["limit beside"] < OWN_LIMIT
        assert min(size for size in sizes if size) < OWN_LIMIT
        assert sizes[-1] == OWN_LIMIT


def _written(broker: Broker, since: float, until: float) -> tuple[list[float], list[float]]:
    """By the broker's clock: latencies of rows, and of batches from their earliest row on."""
    rows: list[float] = []
    ends: dict[bytes, tuple[float, float]] = {}
    for record in broker.read("alerts"):
        written = record.timestamp / 1000
        if since <= written <= until:
            arrived, _, batch = record.value.partition(b" ")
            rows.append(written - float(arrived))
            before = ends.get(batch, (written, float(arrived)))
            ends[batch] = max(before[0], written), min(before[1], float(arrived))
    return rows, [written - arrived for written, arrived in ends.values()]


def _keep_behind(broker: Broker, done: threading.Event) -> None:
    """More rows for the bulk query than it can take, until the end."""
    producer = broker.producer()
    number = 0
    while not done.is_set():
        if number - broker.count("hashes") < 12 * OWN_LIMIT:
            for _ in range(OWN_LIMIT):
                producer.send("bulk", b"%d" % number, partition=number % 2)
                number += 1
            producer.flush()
        else:
            done.wait(0.2)
    producer.close()


def _tick(broker: Broker, starting: Path, done: threading.Event, driver: Driver) -> None:
    """An event every 20 ms."""
    producer = broker.producer()
    while not done.is_set() and driver.running:
        if starting.exists():
            producer.send("events", b"tick")
        done.wait(0.02)
    producer.close()


class TestAcrossKills:
    pytestmark = real

    def test_files_have_each_row_once_and_kafka_each_key(
        self, broker: Broker, drive: Callable[[str], Driver], tmp_path: Path, wait_for: WaitFor
    ) -> None:
        """Twice the driver dies in the middle of a batch; a third run writes the rest."""
        rows = 600
        broker.create(lines=2, copies=1)
        broker.send("lines", [f"line {number}" for number in range(rows)], partitions=2)
        commits = tmp_path / "checkpoints" / "copies" / "commits"

        def half_written() -> bool:
            """Are there copies whose batch has not been committed?"""
            batches = len([f for f in commits.glob("*") if f.name.isdigit()])
            return batches >= 1 and broker.count("copies") > 60 * batches + copied_again

        copied_again = 0
        for _ in range(2):
            driver = drive("once")
            before = len(list(commits.glob("[0-9]*")))
            wait_for(
                lambda before=before, driver=driver: (
                    not driver.running
                    or (len(list(commits.glob("[0-9]*"))) > before and half_written())
                ),
                "a batch half written",
                150,
            )
            assert driver.running, driver.saw()
            driver.kill()
            batches = len(list(commits.glob("[0-9]*")))
            copied_again += broker.count("copies") - 60 * batches - copied_again
        (tmp_path / "finish").touch()
        seen = drive("once").saw()
        assert seen["notices"] == []

        expected = {f"lines-{n % 2}-{n // 2}": f"line {n}" for n in range(rows)}
        # Spark's file sink: each row once.
        assert dict(map(tuple, seen["files"])) == expected
        assert len(seen["files"]) == rows
        # Spark's Kafka sink writes a batch again that was cut short: each key at least once, always
        # with the same value, so that whoever keeps one record a key has each row once.
        copies = [(r.key.decode(), r.value.decode()) for r in broker.read("copies")]
        assert set(copies) == set(expected.items())
        again = {key: n - 1 for key, n in Counter(key for key, _ in copies).items() if n > 1}
        assert sum(again.values()) >= 2, "no kill fell into a batch: nothing was tested"
        assert max(again.values()) <= 2
