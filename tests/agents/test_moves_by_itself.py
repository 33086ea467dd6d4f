"""An overloaded node sheds load without anybody asking: real processes, each on a CPU of its own,
with queries that burn it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agents.harness import Fleet
from agents.test_faults import exactly_once, runs_once

QUERIES = ("a", "b", "c", "d")
CPUS = sorted(os.sched_getaffinity(0))


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_an_overloaded_node_sheds_a_query_by_itself(fleet_of: Callable[..., Fleet]) -> None:
    fleet = fleet_of(*QUERIES)
    fleet.knobs(n1={"cpu_seconds": 0.05}, n2={"cpu_seconds": 0.05})
    places = [argument for query in QUERIES for argument in ("--place", f"{query}=n1")]
    fleet.orchestrator(
        "orchestrator", str(fleet.pipeline), *places, "--nodes", "2", "--cooling-down", "2s"
    )
    for name, cpu in zip(("n1", "n2"), CPUS, strict=False):
        fleet.agent(name, "--cpu", str(cpu), "--cooling-down", "2", "--ttl", "5")
    fleet.wait(lambda: all(fleet.runs(query, "n1") for query in QUERIES), "all run on n1")

    enough = threading.Event()

    def keep_feeding() -> None:  # 4 queries × 0.05 s each 0.2 s: all that one CPU has
        while not enough.wait(0.2):
            for query in QUERIES:
                fleet.feed(query)

    feeder = threading.Thread(target=keep_feeding)
    feeder.start()
    try:

        def done() -> list[dict[str, Any]]:
            return [move for move in fleet.show()["moves"] if move["step"] == "done"]

        moves = fleet.wait(done, "a query has moved")
    finally:
        enough.set()
        feeder.join()
    first = moves[-1]
    assert (first["source"], first["target"], first["by"]) == ("n1", "n2", "fleet")
    for query in QUERIES:
        runs_once(fleet, query)
        exactly_once(fleet, query)
