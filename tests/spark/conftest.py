"""One real Spark session for all tests that need one."""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from laxity.spark import Laxity

# Ours stay errors; these come from inside pyspark and py4j, where no test can mend them.
_NOT_OURS = (
    "ignore:::pyspark",
    "ignore:::py4j",
    # py4j leaves the sockets of a stopped gateway to the collector.
    r"ignore:unclosed <socket:ResourceWarning",
    r"ignore:subprocess \d+ is still running:ResourceWarning",
)


def pytest_configure(config: pytest.Config) -> None:
    for line in _NOT_OURS:
        config.addinivalue_line("filterwarnings", line)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small classic session; checkpoints, warehouse and scratch space go where pytest cleans."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # tasks run what the tests run
    scratch = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("laxity-tests")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.sql.streaming.checkpointLocation", str(scratch / "checkpoints"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def attach(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Laxity]]:
    """`laxity.attach` to the shared session. Whatever a test leaves running is stopped, and
    Spark is its own again afterwards."""
    import laxity

    # Spark keeps a named query's checkpoint under its name: not from one test to the next.
    key = "spark.sql.streaming.checkpointLocation"
    shared = spark.conf.get(key)
    spark.conf.set(key, str(tmp_path / "checkpoints"))
    handles: list[Laxity] = []

    def attach(policy: str = "llf", **settings: Any) -> Laxity:
        handles.append(laxity.attach(spark, policy, **settings))
        return handles[-1]

    yield attach
    for handle in handles:  # first of all: a test may have left a query paused
        handle.detach()
    for query in spark.streams.active:
        query.stop()
    spark.conf.set(key, shared)


@pytest.fixture
def lx(attach: Callable[..., Laxity]) -> Laxity:
    return attach()


@pytest.fixture(scope="session")
def wait_for() -> Callable[..., Any]:
    """Wait until a condition holds, and return what it said. Generous, because a machine may be
    busy with other things; a test that passes hardly waits."""

    def wait_for(condition: Callable[[], Any], what: str = "", seconds: float = 90.0) -> Any:
        until = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < until, f"not within {seconds} s: {what or condition}"
            time.sleep(0.05)

    return wait_for


class Feed:
    """A folder of JSON files that a streaming query reads: what a test says arrives, when it
    says so."""

    SCHEMA = "ts TIMESTAMP, key STRING, value LONG"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._numbers = itertools.count()

    def add(self, rows: Iterable[tuple[float, str, int]]) -> None:
        """One file, there at once; event times in seconds since 1970."""
        number = next(self._numbers)
        text = "\n".join(
            json.dumps({"ts": _iso(ts), "key": key, "value": value}) for ts, key, value in rows
        )
        hidden = self.folder / f".{number:05}"
        hidden.write_text(text)
        hidden.rename(self.folder / f"{number:05}.json")

    def read(self, spark: SparkSession, **options: Any) -> DataFrame:
        return spark.readStream.schema(self.SCHEMA).options(**options).json(str(self.folder))


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "feed")


@pytest.fixture(scope="session")
def feed_at() -> Callable[[Path], Feed]:
    return Feed
