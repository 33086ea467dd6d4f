"""On a real standalone cluster: a master and two workers, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark

DRIVER = Path(__file__).with_name("cluster_driver.py")
CORES = 2


@dataclass
class Cluster:
    url: str
    workers: list[subprocess.Popen[bytes]]
    folder: Path

    def run(self, scenario: str) -> dict[str, Any]:
        """What the driver saw in one of the scenarios of cluster_driver.py."""
        folder = self.folder / scenario
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, str(DRIVER), scenario, self.url, str(folder)],
            env=os.environ
            | {
                "LAXITY_TEST_WORKER": str(self.workers[0].pid),
                "PYSPARK_PYTHON": sys.executable,
            },
            capture_output=True,
            text=True,
            timeout=240,
        )
        seen = re.search(r"^SAW (.*)$", done.stdout, re.MULTILINE)
        assert seen, done.stderr[-4000:]
        return json.loads(seen[1])  # type: ignore[no-any-return]


def _spark_class(folder: Path, name: str, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments],
            env=os.environ
            | {
                "SPARK_HOME": str(home),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_WORKER_DIR": str(folder / name),
            },
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a worker dies together with its executors
        )


def _logged(folder: Path, name: str, pattern: str, seconds: float = 90) -> re.Match[str]:
    until = time.monotonic() + seconds
    while True:
        text = (folder / f"{name}.log").read_text(errors="replace")
        found = re.search(pattern, text)
        if found:
            return found
        assert time.monotonic() < until, text[-3000:]
        time.sleep(0.1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    host = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    started = [_spark_class(tmp_path, "master", "master.Master", *host)]
    try:
        url = _logged(tmp_path, "master", r"Starting Spark master at (spark://\S+)")[1]
        size = ("--cores", str(CORES), "--memory", "1g")
        for name in ("worker-0", "worker-1"):
            started.append(_spark_class(tmp_path, name, "worker.Worker", *host, *size, url))
        for name in ("worker-0", "worker-1"):
            _logged(tmp_path, name, "Successfully registered with master")
        yield Cluster(url, started[1:], tmp_path)
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_order_and_caps_hold(cluster: Cluster) -> None:
    seen = cluster.run("order")
    assert seen["notices"] == []
    assert seen["cores"] == 2 * CORES
    tasks = {
        tag: [(start, end) for t, start, end in seen["tasks"] if t == tag]
        for tag in ("bulk", "lax", "urgent")
    }
    assert {tag: len(spans) for tag, spans in tasks.items()} == {"bulk": 20, "lax": 16, "urgent": 8}
    # Two slots of four stay free or go to others, however much bulk waits.
    assert _most_at_once(tasks["bulk"]) <= 2
    assert _most_at_once([*tasks["bulk"], *tasks["lax"]]) > 2
    # Urgent work came last, and until its last task had a slot nobody else got one. A task notes
    # its start a moment after its launch, so that one launched before may seem to come after.
    first, last = (choose(start for start, _ in tasks["urgent"]) for choose in (min, max))
    others = [start for start, _ in (*tasks["bulk"], *tasks["lax"])]
    assert sum(first < start < last for start in others) <= 2
    assert sum(start > last for start in others) >= 4, "nobody was left to be overtaken"


def _most_at_once(spans: list[tuple[float, float]]) -> int:
    edges = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    most = now = 0
    for _, change in edges:
        now += change
        most = max(most, now)
    return most


def test_a_worker_killed_mid_run_loses_and_duplicates_nothing(cluster: Cluster) -> None:
    seen = cluster.run("kill")
    assert seen["rows"] == list(range(seen["expected"]))
    assert seen["notices"] == []
