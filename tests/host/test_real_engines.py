"""Drivers against real engines: Spark, and Flink where it is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar
from urllib.request import Request, urlopen

import pytest

from laxity.bench.flink_cluster import FlinkCluster, FlinkUnavailableError, flink_home
from laxity.host.binding import Binding
from laxity.host.drivers.api import Targets
from laxity.host.drivers.flink import FlinkDriver
from laxity.host.drivers.spark import SparkDriver
from laxity.host.errors import DriverError
from laxity.host.fetch import ThreadedFetcher
from laxity.host.journal import Journal
from laxity.host.kernel import LinuxKernel
from laxity.host.loop import HostLoop
from laxity.host.metrics import Snapshot
from laxity.host.notices import Notices
from laxity.host.policies import Constant, LeastLaxity
from laxity.host.translators import make_translator
from laxity.host.translators.api import Tools

KERNEL = LinuxKernel()
T = TypeVar("T")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def _no_flink() -> str:
    try:
        flink_home()
    except FlinkUnavailableError as error:
        return str(error)
    return ""


needs_flink = pytest.mark.skipif(bool(_no_flink()), reason=_no_flink() or "Flink is there")


def eventually(get: Callable[[], T], good: Callable[[T], object], seconds: float = 90) -> T:
    deadline = time.monotonic() + seconds
    while True:
        try:
            last: T | DriverError = get()
        except DriverError as error:
            last = error
        if not isinstance(last, DriverError) and good(last):
            return last
        assert time.monotonic() < deadline, f"never good: {last}"
        time.sleep(0.1)


def tools(said: list[str]) -> Tools:
    return Tools(KERNEL, Journal(KERNEL), Notices(said.append), f"test-{os.getpid()}")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    folder = tmp_path_factory.mktemp("spark")
    script = Path(__file__).parent / "spark_app.py"
    application = subprocess.Popen(
        [sys.executable, str(script), str(folder)],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert application.stdout
        pid, url = application.stdout.readline().split()
        # The address may name an interface; the same server answers on this machine.
        port = re.search(r":(\d+)", url.partition("://")[2])
        assert port
        yield int(pid), f"http://localhost:{port[1]}"
    finally:
        application.communicate()


@pytest.mark.spark
@needs_root
def test_a_real_sparks_threads_are_found_and_ranked(spark: tuple[int, str]) -> None:
    pid, url = spark
    targets = Targets({"alerts": 0.5, "bulk": 3600.0})
    driver = SparkDriver(url=url, pids=[pid], targets=targets, timeout=10)

    def threads(snapshot: Snapshot, operator: str) -> list[int]:
        ops = {op.id: op for op in snapshot.deployment.physical}
        return [t.tid for t in ops[operator].threads] if operator in ops else []

    snapshot = eventually(
        lambda: driver.snapshot(time.time(), frozenset({"latency", "target"})),
        lambda s: threads(s, "spark/bulk/tasks#0") and s.get("latency"),
    )
    assert [q.name for q in snapshot.deployment.queries] == ["alerts", "bulk"]
    assert snapshot.get("latency")["spark/alerts/stream"] > 0
    python = [op for op in snapshot.deployment.physical if op.id.endswith("/python")]
    assert python
    assert python[0].threads, "the bulk query's Python workers"
    said: list[str] = []
    binding = Binding("laxity", LeastLaxity(), make_translator("nice", tools(said)))
    loop = HostLoop([driver], [binding])
    step = loop.step()
    (alerts,) = threads(step.snapshots["spark"], "spark/alerts/stream#0")
    (bulk,) = threads(step.snapshots["spark"], "spark/bulk/stream#0")
    assert KERNEL.nice(alerts) < KERNEL.nice(bulk)
    loop.close()
    assert KERNEL.nice(alerts) == KERNEL.nice(bulk) == 0
    assert said == []


DATAGEN = "'connector' = 'datagen', 'rows-per-second' = '1000'"
JOB = [
    "CREATE TEMPORARY TABLE source_{0} (x BIGINT) WITH ({1})",
    "CREATE TEMPORARY TABLE sink_{0} (k BIGINT, n BIGINT) WITH ('connector' = 'blackhole')",
    "INSERT INTO sink_{0} SELECT x % 10, COUNT(*) FROM source_{0} GROUP BY x % 10",
]


@pytest.mark.flink
@needs_flink
@needs_root
def test_a_real_flinks_jobs_come_and_go(tmp_path: Path) -> None:
    with FlinkCluster(tmp_path, slots=8) as cluster:
        jobs = {name: [line.format(name, DATAGEN) for line in JOB] for name in ("urgent", "bulk")}
        cluster.submit_sql(jobs, parallelism=2)
        driver = FlinkDriver(url=cluster.url, process=str(tmp_path), timeout=10)
        wanted = frozenset({"records_in", "records_out", "queue_size", "cpu_use", "head_age"})
        snapshot = eventually(
            lambda: driver.snapshot(time.time(), wanted),
            lambda s: (
                len(s.deployment.queries) == 2
                and all(op.threads for op in s.deployment.physical)
                and all(len(s.get(metric)) > 10 for metric in wanted - {"head_age"})
                and any(age > 0 for age in s.get("head_age").values())
            ),
        )
        deployment = snapshot.deployment
        assert len(deployment.physical) == 20, "5 operators, twice each, of two jobs"
        said: list[str] = []
        translator = make_translator("nice", tools(said))
        binding = Binding("constant", Constant({"urgent": 4.0}), translator, period=0.01)
        loop = HostLoop([driver], [binding], notices=Notices(said.append))
        loop.step()
        for op in deployment.physical:
            wanted_nice = -20 if op.query == "urgent" else -14
            assert {KERNEL.nice(t.tid) for t in op.threads} == {wanted_nice}
        bulk = next(j for j in driver._running_jobs() if j.name == "bulk")
        urlopen(Request(f"{cluster.url}/jobs/{bulk.id}?mode=cancel", method="PATCH")).close()
        eventually(
            loop.step,
            lambda step: [q.name for q in step.snapshots["flink"].deployment.queries] == ["urgent"],
        )
        assert said == []
        loop.close()
        left = driver.snapshot(time.time(), frozenset()).deployment.physical
        driver.close()
        assert {KERNEL.nice(t.tid) for op in left for t in op.threads} == {0}


@pytest.mark.flink
@needs_flink
@needs_root
def test_a_flink_that_dies_does_not_end_the_loop(tmp_path: Path) -> None:
    said: list[str] = []
    with FlinkCluster(tmp_path, slots=2) as cluster:
        driver = FlinkDriver(url=cluster.url, process=str(tmp_path))
        binding = Binding("constant", Constant(), make_translator("nice", tools(said)), period=0.01)
        loop = HostLoop(
            [driver], [binding], fetcher=ThreadedFetcher(2.0), notices=Notices(said.append)
        )
        loop.step()
        assert said == []
        cluster.stop()
        for _ in range(6):
            time.sleep(0.02)
            loop.step()
        assert len(said) == 1
        assert "'flink' cannot be read" in said[0]
        loop.close()
