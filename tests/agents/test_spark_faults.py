"""The faults of test_faults on real Spark: three processes and two JVMs each, so by hand only."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.spark_harness import SparkFleet, exactly_once, runs_once
from laxity.fleet.testing import CuttableProxy

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[SparkFleet]:
    fleet = SparkFleet(tmp_path / "fleet")
    try:
        fleet.orchestrator("orchestrator", str(fleet.pipeline), "--place", "copy=n1")
        fleet.agent("n1")
        fleet.agent("n2")
        fleet.up("n1", "n2")
        fleet.wait(lambda: fleet.runs("copy", "n1"), "copy runs on n1", 120)
        fleet.feed("copy", 2)
        exactly_once(fleet)
        yield fleet
    finally:
        fleet.close()


def settles(fleet: SparkFleet, on: str) -> None:
    fleet.wait(lambda: fleet.runs("copy", on), f"copy runs on {on}", 120)
    runs_once(fleet)
    fleet.feed("copy", 2)
    exactly_once(fleet)


def test_moves_lose_and_double_nothing(fleet: SparkFleet) -> None:
    for target in ("n2", "n1", "n2"):
        fleet.client.move("copy", target)
        fleet.feed("copy", 4)
        settles(fleet, target)
        move = fleet.wait(lambda: (m := fleet.last_move("copy")) and m["gap"] and m, "its gap")
        assert move["step"] == "done"
        print(f"pause {move['pause']:.2f} s, until the first commit {move['gap']:.2f} s")


def test_the_orchestrator_is_killed(fleet: SparkFleet) -> None:
    fleet.client.move("copy", "n2")
    fleet.kill("orchestrator")
    fleet.feed("copy", 3)
    fleet.orchestrator()
    runs_once(fleet)
    exactly_once(fleet)


@pytest.mark.parametrize("victim", ["n1", "n2"])
@pytest.mark.parametrize(
    ("step", "knobs"),
    [
        ("prepare", {"n2": {"prepare_seconds": 5.0}}),
        ("stop", {"n1": {"batch_seconds": 4.0}}),
        ("start", {}),
    ],
)
def test_an_agent_is_killed_at_each_step_of_a_move(
    fleet: SparkFleet, victim: str, step: str, knobs: dict[str, dict[str, float]]
) -> None:
    fleet.knobs(**knobs)
    if step == "stop":  # the source takes the knob up when it builds the query anew
        fleet.stop("n1")
        fleet.wait(lambda: fleet.runs("copy", "n2"), "copy runs on n2", 120)
        fleet.agent("n1")
        fleet.up("n1")
        fleet.client.move("copy", "n1")
        fleet.wait(lambda: fleet.runs("copy", "n1"), "copy runs on n1 again", 120)
    fleet.feed("copy", 2)
    fleet.client.move("copy", "n2")
    fleet.wait(lambda: fleet.moving("copy", step), f"the move is at {step}", 120)
    fleet.kill(victim)
    settles(fleet, "n2" if victim == "n1" else "n1")


def test_the_checkpoint_store_is_away_for_thirty_seconds(fleet: SparkFleet) -> None:
    import time

    os.unlink(fleet.store)
    gone = time.monotonic()
    fleet.feed("copy", 3)
    fleet.wait(lambda: fleet.query("copy")["state"] in ("waiting", "failed"), "it is noticed")
    while time.monotonic() - gone < 30:
        assert not os.path.lexists(fleet.store), "somebody wrote where the store was not"
        time.sleep(0.5)
    fleet.store.symlink_to(fleet.root / "real-store")
    runs_once(fleet)
    exactly_once(fleet)


def test_an_agent_is_cut_off(tmp_path: Path) -> None:
    fleet = SparkFleet(tmp_path / "fleet")
    fleet.orchestrator("orchestrator", str(fleet.pipeline), "--place", "copy=n1")
    url = fleet.wait(lambda: fleet.show().get("url"), "the orchestrator is up")
    proxy = CuttableProxy(int(url.rpartition(":")[2]))
    try:
        fleet.agent("n1", "--url", f"http://127.0.0.1:{proxy.port}")
        fleet.agent("n2")
        fleet.up("n1", "n2")
        fleet.wait(lambda: fleet.runs("copy", "n1"), "copy runs on n1", 120)
        proxy.cut()
        fleet.wait(lambda: "by its lease" in fleet.query("copy")["state"], "the truth is told")
        assert fleet.query("copy")["node"] == "n1"
        fleet.feed("copy", 2)
        exactly_once(fleet)
        proxy.heal()
        settles(fleet, "n1")
    finally:
        proxy.close()
        fleet.close()


def test_a_paused_application_wakes_up_fenced(fleet: SparkFleet) -> None:
    """Python is paused; the JVM below it goes on until its fence stops it."""
    fleet.signal("n1", signal.SIGSTOP)
    fleet.wait(lambda: fleet.runs("copy", "n2"), "n2 took over", 120)
    fleet.feed("copy", 4)
    fleet.signal("n1", signal.SIGCONT)
    fleet.up("n1")
    settles(fleet, "n2")
