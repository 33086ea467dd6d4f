"""Drivers against real engines: Spark, and Flink where it is installed."""

from __future__ import annotations

import contextlib
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
from laxity.host import procfs
from laxity.host.binding import Binding
from laxity.host.drivers.api import Targets
from laxity.host.drivers.flink import FlinkDriver
from laxity.host.drivers.spark import SparkDriver
from laxity.host.entities import Thread
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
from standalone import standalone

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


@contextlib.contextmanager
def application(folder: Path, master: str) -> Iterator[tuple[int, str]]:
    """Pid of its driver's JVM and address of its REST API."""
    script = Path(__file__).parent / "spark_app.py"
    process = subprocess.Popen(
        [sys.executable, str(script), str(folder), master],
        cwd=folder,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout
        pid, url = process.stdout.readline().split()
        # The address may name an interface; the same server answers on this machine.
        port = re.search(r":(\d+)", url.partition("://")[2])
        assert port
        yield int(pid), f"http://localhost:{port[1]}"
    finally:
        process.communicate()


@pytest.fixture(scope="module")
def local_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    with application(tmp_path_factory.mktemp("spark"), "local[2]") as running:
        yield running


def threads_of(snapshot: Snapshot, operator: str) -> list[Thread]:
    """Of all physical operators whose id begins like this."""
    found = (op for op in snapshot.deployment.physical if op.id.startswith(operator))
    return [thread for op in found for thread in op.threads]


def python_workers(snapshot: Snapshot) -> list[Thread]:
    found = (op for op in snapshot.deployment.physical if "/python#" in op.id)
    return [thread for op in found for thread in op.threads]


TARGETS = Targets({"alerts": 0.5, "bulk": 3600.0})


@pytest.mark.spark
@needs_root
def test_a_real_sparks_threads_are_found_and_ranked(local_spark: tuple[int, str]) -> None:
    pid, url = local_spark
    driver = SparkDriver(url=url, pids=[pid], targets=TARGETS, timeout=10)
    snapshot = eventually(
        lambda: driver.snapshot(time.time(), frozenset({"latency", "target"})),
        lambda s: threads_of(s, "spark/bulk/tasks") and python_workers(s) and s.get("latency"),
    )
    assert [q.name for q in snapshot.deployment.queries] == ["alerts", "bulk"]
    assert snapshot.get("latency")["spark/alerts/stream"] > 0
    said: list[str] = []
    binding = Binding("laxity", LeastLaxity(), make_translator("nice", tools(said)))
    loop = HostLoop([driver], [binding])
    step = loop.step()
    (alerts,) = threads_of(step.snapshots["spark"], "spark/alerts/stream")
    (bulk,) = threads_of(step.snapshots["spark"], "spark/bulk/stream")
    assert KERNEL.nice(alerts.tid) < KERNEL.nice(bulk.tid)
    loop.close()
    assert KERNEL.nice(alerts.tid) == KERNEL.nice(bulk.tid) == 0
    assert said == []


@pytest.mark.spark
@needs_root
def test_executors_in_processes_of_their_own_are_found_and_ranked(
    local_spark: tuple[int, str], tmp_path: Path
) -> None:
    """A standalone worker's executor and its Python workers; beside it runs another application,
    with task ids and query names like these, that must not be mistaken for this one."""
    other, _ = local_spark
    with (
        standalone(tmp_path, workers=1, cores=2) as (master, _),
        application(tmp_path, master) as (pid, url),
    ):
        driver = SparkDriver(url=url, targets=TARGETS, timeout=10)
        snapshot = eventually(
            lambda: driver.snapshot(time.time(), frozenset()),
            lambda s: threads_of(s, "spark/bulk/tasks") and python_workers(s),
        )
        assert {t.pid for t in threads_of(snapshot, "spark/bulk/stream")} == {pid}
        (executor,) = {t.pid for t in threads_of(snapshot, "spark/bulk/tasks")}
        assert executor not in (pid, other)
        assert {t.pid for t in python_workers(snapshot)} <= set(procfs.descendants(executor))

        said: list[str] = []
        translator = make_translator("nice", tools(said))
        binding = Binding("constant", Constant({"bulk": 4.0}), translator, period=0.01)
        loop = HostLoop([driver], [binding])
        step = eventually(
            loop.step,
            lambda s: (
                threads_of(s.snapshots["spark"], "spark/bulk/tasks")
                and python_workers(s.snapshots["spark"])
            ),
        )
        seen = step.snapshots["spark"]
        bulk = [*threads_of(seen, "spark/bulk/"), *python_workers(seen)]
        (alerts,) = threads_of(seen, "spark/alerts/stream")
        assert {t.pid for t in bulk} > {pid, executor}, "driver, executor and Python workers"
        assert {KERNEL.nice(t.tid) for t in bulk} == {-20}
        assert KERNEL.nice(alerts.tid) == -14
        loop.close()
        assert {KERNEL.nice(t.tid) for t in (*bulk, alerts)} == {0}
        assert said == []
        driver.close()

        # Seen from an executor's host alone, queries are known by the jobs they run.
        elsewhere = SparkDriver(url=url, pids=[executor], timeout=10)
        snapshot = eventually(
            lambda: elsewhere.snapshot(time.time(), frozenset()),
            lambda s: threads_of(s, "spark/bulk/tasks") and python_workers(s),
        )
        assert not threads_of(snapshot, "spark/bulk/stream")
        elsewhere.close()


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
