"""On a real standalone cluster: a master and two workers, each a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from standalone import standalone

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


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all tests; the one that kills a worker comes last."""
    folder = tmp_path_factory.mktemp("cluster")
    with standalone(folder, workers=2, cores=CORES) as (url, workers):
        yield Cluster(url, workers, folder)


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


@pytest.mark.slow
def test_executors_go_and_come_back_and_counts_go_on(cluster: Cluster) -> None:
    seen = cluster.run("resize")
    assert seen == {"sizes": [[2, 2], [2, 1], [1, 2]], "counts": [3], "notices": []}
