"""Whatever breaks, in the end each query runs exactly once and the status says so. Real processes;
the queries are those of the file-to-file engine. The same faults on real Spark: test_spark_faults.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections import Counter
from collections.abc import Callable

import pytest

from agents.harness import Fleet
from laxity.fleet.fencing import FOLDER
from laxity.fleet.handover import find
from laxity.fleet.testing import CuttableProxy, sink_rows

FleetOf = Callable[..., Fleet]


def exactly_once(fleet: Fleet, query: str) -> None:
    """Everything that was fed is in the sink, nothing twice."""
    sink = fleet.root / "out" / query

    def all_there() -> bool:
        return len(sink_rows(sink)) >= fleet.fed[query]

    fleet.wait(all_there, "all rows in the sink")
    counts = Counter(sink_rows(sink))
    assert sorted(counts) == list(range(fleet.fed[query]))
    assert set(counts.values()) == {1}


def runs_once(fleet: Fleet, query: str) -> None:
    """By the agents' own reports, not by what the orchestrator wishes."""
    fleet.wait(
        lambda: (
            [query in node["runs"] for node in fleet.show()["nodes"]].count(True) == 1
            and fleet.runs(query)
        ),
        f"{query} runs exactly once",
    )


@pytest.fixture
def fleet(fleet_of: FleetOf) -> Fleet:
    """Two agents, one query, running on n1 with some batches done."""
    fleet = fleet_of("copy")
    fleet.orchestrator("orchestrator", str(fleet.pipeline), "--place", "copy=n1", "--nodes", "2")
    fleet.agent("n1")
    fleet.agent("n2")
    fleet.wait(lambda: fleet.runs("copy", "n1"), "copy runs on n1")
    fleet.feed("copy", 3)
    exactly_once(fleet, "copy")
    return fleet


def test_a_move_loses_and_doubles_nothing(fleet: Fleet) -> None:
    for target in ("n2", "n1", "n2"):
        fleet.client.move("copy", target)
        fleet.feed("copy", 3)
        fleet.wait(lambda target=target: fleet.runs("copy", target), f"copy runs on {target}")
        move = fleet.last_move("copy")
        assert move is not None
        assert move["step"] == "done"
        assert move["pause"] is not None
        known = find(fleet.store / "copy" / FOLDER)
        assert known is not None, "what the source had learned did not come along"
        assert known.rates  # how many, and which, depends on how long it was there
    runs_once(fleet, "copy")
    fleet.feed("copy", 3)
    exactly_once(fleet, "copy")


def test_a_drained_node_empties_and_one_that_leaves_hands_over_at_once(fleet: Fleet) -> None:
    fleet.client.drain("n1")
    fleet.wait(lambda: fleet.runs("copy", "n2"), "copy runs on n2")
    fleet.wait(lambda: fleet.node("n1")["runs"] == [], "n1 is empty")
    fleet.feed("copy", 2)
    exactly_once(fleet, "copy")
    fleet.client.drain("n1", on=False)
    fleet.stop("n2")
    fleet.wait(lambda: fleet.node("n2")["reach"] == "left", "n2 said goodbye")
    fleet.wait(lambda: fleet.runs("copy", "n1"), "copy runs on n1")
    fleet.feed("copy", 2)
    exactly_once(fleet, "copy")


@pytest.mark.slow
def test_the_orchestrator_killed_and_started_again(fleet: Fleet) -> None:
    fleet.kill("orchestrator")
    fleet.feed("copy", 3)
    exactly_once(fleet, "copy")  # nobody needs it for that
    fleet.orchestrator()
    fleet.up("n1", "n2")
    runs_once(fleet, "copy")
    assert fleet.query("copy")["node"] == "n1"
    fleet.client.move("copy", "n2")
    fleet.wait(lambda: fleet.runs("copy", "n2"), "it moves again")
    fleet.feed("copy", 2)
    exactly_once(fleet, "copy")


@pytest.mark.slow
def test_the_orchestrator_killed_mid_move_and_without_memory(fleet: Fleet) -> None:
    fleet.knobs(n2={"prepare_seconds": 2.0})
    fleet.client.move("copy", "n2")
    fleet.wait(lambda: fleet.moving("copy", "prepare"), "n2 prepares")
    fleet.kill("orchestrator")
    for name in ("fleet.db", "fleet.db-wal", "fleet.db-shm"):
        (fleet.state / name).unlink(missing_ok=True)
    fleet.orchestrator()
    runs_once(fleet, "copy")  # learned from the agents alone
    fleet.feed("copy", 3)
    exactly_once(fleet, "copy")


def test_a_standby_takes_over(fleet: Fleet) -> None:
    fleet.orchestrator("standby")
    leader = fleet.show()["url"]
    fleet.kill("orchestrator")
    fleet.wait(lambda: fleet.show().get("url", leader) != leader, "the standby leads")
    runs_once(fleet, "copy")
    assert fleet.show()["term"] == 2
    fleet.up("n1", "n2")
    fleet.client.move("copy", "n2")
    fleet.wait(lambda: fleet.runs("copy", "n2"), "it moves")
    fleet.feed("copy", 2)
    exactly_once(fleet, "copy")


STEPS: dict[str, dict[str, dict[str, float]]] = {
    "prepare": {"n2": {"prepare_seconds": 3.0}},
    "stop": {"n1": {"batch_seconds": 1.0}},
    "start": {"n2": {"start_seconds": 3.0}},
}


@pytest.mark.parametrize(
    ("step", "victim"),
    [
        pytest.param(step, victim, marks=() if one == ("stop", "n1") else pytest.mark.slow)
        for one in itertools.product(STEPS, ("n1", "n2"))
        for step, victim in [one]
    ],
)
def test_an_agent_killed_at_each_step_of_a_move(fleet: Fleet, step: str, victim: str) -> None:
    fleet.knobs(**STEPS[step])
    if step == "stop":  # the slow batch must be the source's: bring it up with the knob
        fleet.kill("n1")
        fleet.agent("n1")
        fleet.wait(lambda: fleet.runs("copy", "n1"), "copy runs on n1 again")
        fleet.feed("copy", 2)
    fleet.client.move("copy", "n2")
    fleet.feed("copy", 2)
    fleet.wait(lambda: fleet.moving("copy", step), f"the move is at {step}")
    fleet.kill(victim)
    survivor = "n2" if victim == "n1" else "n1"
    fleet.wait(lambda: fleet.runs("copy", survivor), f"copy runs on {survivor}")
    fleet.wait(lambda: fleet.node(victim)["reach"] == "lost", "the status tells of the victim")
    runs = [
        node["name"] for node in fleet.show()["nodes"] if node["reach"] == "up" and node["runs"]
    ]
    assert runs == [survivor]
    fleet.feed("copy", 2)
    exactly_once(fleet, "copy")
    fleet.agent(victim)  # and its return changes nothing
    fleet.up(victim)
    runs_once(fleet, "copy")
    assert fleet.query("copy")["node"] == survivor


def test_the_checkpoint_store_goes_away_and_comes_back(fleet: Fleet) -> None:
    os.unlink(fleet.store)
    fleet.feed("copy", 2)
    fleet.wait(lambda: fleet.query("copy")["state"] in ("waiting", "failed"), "it is noticed")
    assert fleet.query("copy")["reason"]
    assert not fleet.store.exists(), "somebody wrote where the store was not"
    fleet.store.symlink_to(fleet.root / "real-store")
    runs_once(fleet, "copy")
    exactly_once(fleet, "copy")


def test_agents_cut_off_from_the_orchestrator(fleet_of: FleetOf) -> None:
    fleet = fleet_of("copy")
    fleet.orchestrator("orchestrator", str(fleet.pipeline), "--place", "copy=n1", "--nodes", "2")
    url = fleet.wait(lambda: fleet.show().get("url"), "the orchestrator is up")
    proxy = CuttableProxy(int(url.rpartition(":")[2]))
    try:
        fleet.agent("n1", "--url", f"http://127.0.0.1:{proxy.port}")
        fleet.agent("n2")
        fleet.wait(lambda: fleet.runs("copy", "n1"), "copy runs on n1")
        proxy.cut()
        # n2 is offered it, finds the lease alive, and leaves it alone.
        fleet.wait(
            lambda: "by its lease" in fleet.query("copy")["state"], "the status tells the truth"
        )
        assert fleet.query("copy")["node"] == "n1"
        assert fleet.node("n1")["reach"] == "lost"
        fleet.feed("copy", 3)
        exactly_once(fleet, "copy")
        proxy.heal()
        fleet.wait(lambda: fleet.runs("copy", "n1"), "it is n1's again")
        runs_once(fleet, "copy")
        fleet.feed("copy", 2)
        exactly_once(fleet, "copy")
    finally:
        proxy.close()


def test_a_paused_application_wakes_up_fenced(fleet: Fleet) -> None:
    fleet.signal("n1", signal.SIGSTOP)
    fleet.feed("copy", 3)
    fleet.wait(lambda: fleet.runs("copy", "n2"), "n2 took over when the lease lapsed")
    fleet.feed("copy", 3)
    fleet.signal("n1", signal.SIGCONT)
    fleet.up("n1")
    runs_once(fleet, "copy")
    assert fleet.query("copy")["node"] == "n2"
    fleet.feed("copy", 3)
    exactly_once(fleet, "copy")
