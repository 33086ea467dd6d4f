"""One real Spark session for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
