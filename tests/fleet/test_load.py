"""Moves nobody asked for: agents' measurements in, moves out. Both sides of the wire, with reports
and replies as JSON between them, on a clock that is only a number."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from laxity.fleet.engine import Measures
from laxity.fleet.hostload import HostLoad
from laxity.fleet.load import Adviser, NodeLoad, conditions_of, default_decisions
from laxity.fleet.orchestrator import Orchestrator, OrchestratorSettings
from laxity.fleet.protocol import Observation, Order, Phase, Reply, Report, Want
from laxity.fleet.rings import PredictionRing

IDLE = HostLoad(cores=2, load=0.0, busy=0.0, own=0.0, external_cpu=0.0, network=0.0)
CROWDED = HostLoad(cores=2, load=6.0, busy=2.0, own=0.2, external_cpu=0.9, network=0.0)

AFTER = {
    Want.PREPARE: Phase.PREPARED,
    Want.RUN: Phase.RUNNING,
    Want.STOP: Phase.STOPPED,
}


@dataclass
class VirtualAgent:
    """Follows each order at once."""

    name: str
    load: NodeLoad
    version: str = "4.1.0"
    host: HostLoad = IDLE
    refuses: bool = False
    following: dict[str, Order] = field(default_factory=dict)
    said: dict[str, Any] = field(default_factory=dict)

    def phase(self, order: Order) -> Phase:
        if self.refuses and order.want is Want.PREPARE:
            return Phase.REFUSED
        return AFTER[order.want]

    def runs(self) -> list[str]:
        return [q for q, o in self.following.items() if o.want is Want.RUN]

    def report(self, shares: dict[str, float], now: float) -> dict[str, Any]:
        measured = [Measures(q, 100.0, shares[q] / 100.0, 8.0) for q in self.runs()]
        self.said = self.load(measured, self.host, now)
        seen = tuple(
            Observation(q, self.phase(o), o.number, o.pipeline, o.digest, token=f"of {q}")
            for q, o in self.following.items()
        )
        report = Report(self.name, "first", 0, seen, "spark", self.version, cores=2, load=self.said)
        wire: dict[str, Any] = json.loads(json.dumps(report.to_wire()))
        return wire

    def follow(self, reply: Reply, now: float) -> None:
        self.load.rejected(reply.rejections, now)
        for order in reply.orders:
            if order.want is Want.DROP:
                self.following.pop(order.query, None)
            elif order.query in self.following or order.want is not Want.STOP:
                self.following[order.query] = order


class VirtualFleet:
    def __init__(self, *names: str, cooling_down: float = 30.0) -> None:
        settings = default_decisions(cooling_down=cooling_down)
        self.now = 1_000.0
        self.mind = Orchestrator(OrchestratorSettings(learn_for=0.0, nodes=len(names)), self.now)
        self.adviser = Adviser(settings)
        self.agents = {name: VirtualAgent(name, NodeLoad(name, settings)) for name in names}
        self.shares: dict[str, float] = {}

    def place(self, node: str, **shares: float) -> None:
        """Queries that keep a core busy for that share of the time."""
        self.shares |= shares
        queries = [{"name": name} for name in shares]
        self.mind.submit(f"{node}.py", "d", queries, self.now, place=dict.fromkeys(shares, node))

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1.0
            for agent in self.agents.values():
                self.mind.hear(Report.from_wire(agent.report(self.shares, self.now)), self.now)
            self.adviser(self.mind, self.now)
            for agent in self.agents.values():
                reply = self.mind.reply(agent.name, term=1).to_wire()
                agent.follow(Reply.from_wire(json.loads(json.dumps(reply))), self.now)

    @property
    def moves(self) -> list[tuple[str, str, str, str]]:
        found = (*self.mind.history, *self.mind.migrations.values())
        return [(m.query, m.source, m.target, m.by) for m in found]

    def where(self) -> dict[str, list[str]]:
        return {name: sorted(agent.runs()) for name, agent in self.agents.items()}


def test_an_overloaded_node_sheds_its_worst_query_and_then_there_is_calm() -> None:
    fleet = VirtualFleet("n1", "n2")
    fleet.place("n1", big=0.5, small=0.3)
    fleet.run(300)
    assert fleet.moves == [("big", "n1", "n2", "fleet")]
    assert fleet.where() == {"n1": ["small"], "n2": ["big"]}


def test_nothing_moves_where_nothing_interferes() -> None:
    fleet = VirtualFleet("n1", "n2")
    fleet.place("n1", a=0.05, b=0.05)
    fleet.run(300)
    assert fleet.moves == []


def test_a_crowded_node_beside_a_hog_sheds_load_until_others_are_no_better() -> None:
    """The case of `laxity bench fleet-spark`: n1 shares its CPU with a hog, n2 and n3 share one."""
    fleet = VirtualFleet("n1", "n2", "n3")
    fleet.place("n1", a=0.2, b=0.2, c=0.2, d=0.2)
    fleet.place("n2", e=0.2)
    fleet.place("n3", f=0.2)
    for _ in range(200):
        where = {name: len(queries) for name, queries in fleet.where().items()}
        own = min(0.2 * where["n1"], 0.5)
        fleet.agents["n1"].host = HostLoad(1, 1.0, 1.0, own, 1 - own, 0.0)
        used = min(1.0, 0.2 * (where["n2"] + where["n3"]) + 0.1)
        for name in ("n2", "n3"):
            own = min(0.2 * where[name], used)
            fleet.agents[name].host = HostLoad(1, used, used, own, 1 - own / used, 0.0)
        fleet.run(1)
    assert [(source, by) for _, source, _, by in fleet.moves] == [("n1", "fleet")] * 2
    assert {name: len(queries) for name, queries in fleet.where().items()} == {
        "n1": 2,
        "n2": 2,
        "n3": 2,
    }


def test_a_query_flees_a_host_that_others_crowd() -> None:
    fleet = VirtualFleet("n1", "n2")
    fleet.place("n1", a=0.3)
    fleet.agents["n1"].host = CROWDED
    fleet.run(120)
    assert fleet.moves == [("a", "n1", "n2", "fleet")]


def test_one_move_at_a_time_for_a_node_and_a_rest_between() -> None:
    fleet = VirtualFleet("n1", "n2", "n3", cooling_down=20.0)
    fleet.place("n1", a=0.4, b=0.4, c=0.4)
    fleet.run(200)
    assert {len(runs) for runs in fleet.where().values()} == {1}
    first, second = fleet.mind.history
    assert second.began >= first.ended + 20.0


def test_too_small_a_fleet_backs_off_and_says_so_until_it_is_over() -> None:
    fleet = VirtualFleet("n1", "n2")
    fleet.place("n1", a=0.9)
    fleet.place("n2", b=0.9)
    fleet.run(120)
    assert fleet.moves == []
    assert not any(agent.said["notices"] for agent in fleet.agents.values())
    fleet.run(300)  # back-offs of 60 and 120 s have passed
    assert fleet.moves == []
    assert "a was refused a better place 3 times" in fleet.agents["n1"].said["notices"][0]
    fleet.shares["a"] = 0.01
    fleet.run(60)
    assert fleet.agents["n1"].said["notices"] == []


def test_asking_again_before_the_answer_is_heard_is_one_refusal() -> None:
    settings = default_decisions(cooling_down=0.0, rejections_until_scale_out=2)
    load = NodeLoad("n1", settings)
    busy = [Measures("a", 100.0, 0.009, 8.0)]
    said: dict[str, Any] = {}
    for second in range(10):
        said = load(busy, IDLE, float(second))
    assert said["request"]["query"] == "a"
    load.rejected({"a": 8.0}, 10.0)
    load.rejected({"a": 9.0}, 10.5)  # of the request before
    said = load(busy, IDLE, 11.0)
    assert (said["request"], said["notices"]) == (None, [])
    assert load(busy, IDLE, 71.0)["request"] is not None  # after one back-off, not two
    load.rejected({"a": 71.0}, 72.0)
    assert load(busy, IDLE, 72.0)["notices"]


def test_a_refusal_from_before_the_agent_began_is_not_its_own() -> None:
    load = NodeLoad("n1", default_decisions(cooling_down=0.0))
    load.rejected({"a": 1.0}, 2.0)
    busy = [Measures("a", 100.0, 0.009, 8.0)]
    assert any(load(busy, IDLE, 3.0 + n)["request"] for n in range(10))


def test_nodes_of_another_release_and_drained_ones_are_no_targets() -> None:
    fleet = VirtualFleet("n1", "n2", "n3", "n4")
    fleet.place("n1", a=0.5, b=0.5)
    fleet.agents["n2"].version = "3.5.4"
    fleet.run(1)
    fleet.mind.drain("n3", fleet.now)
    fleet.run(120)
    assert [target for _, _, target, _ in fleet.moves] == ["n4"]


def test_a_move_that_comes_to_nothing_is_not_tried_again_at_once() -> None:
    fleet = VirtualFleet("n1", "n2", cooling_down=5.0)
    fleet.agents["n2"].refuses = True
    fleet.place("n1", a=0.5, b=0.5)
    fleet.run(50)
    tried = [query for query, *_ in fleet.moves]
    assert sorted(tried) == ["a", "b"]  # each once; back-off is 60 s
    assert fleet.where() == {"n1": ["a", "b"], "n2": []}


@pytest.mark.parametrize(
    "spoilt",
    [
        {"ring": "?"},
        {"ring": PredictionRing(now=0.0).to_wire() | {"rings": [[90, 1.0]]}},
        {"conditions": {"cores": 0}},
        {"conditions": {"weather": 1}},
        {"request": "please"},
        {"round": None, "ring": None},
    ],
)
def test_a_load_that_cannot_be_read_leaves_out_its_node_alone(
    spoilt: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    fleet = VirtualFleet("n1", "n2", "n3")
    bad = fleet.agents["n2"]
    assess = bad.load

    class Spoilt(NodeLoad):
        def __init__(self) -> None: ...

        def __call__(self, *given: Any) -> dict[str, Any]:
            return assess(*given) | spoilt

        def rejected(self, *given: Any) -> None: ...

    bad.load = Spoilt()
    fleet.place("n1", a=0.5, b=0.5)
    fleet.run(120)
    assert [target for _, _, target, _ in fleet.moves] == ["n3"]
    told = [r for r in caplog.records if "n2 reports a load that cannot be read" in r.message]
    assert len(told) == 1


def test_a_standby_goes_on_where_the_first_has_left_off() -> None:
    fleet = VirtualFleet("n1", "n2")
    fleet.place("n1", a=0.5, b=0.5)
    fleet.run(20)
    fleet.mind = Orchestrator(fleet.mind.settings, fleet.now, fleet.mind.save())
    fleet.adviser = Adviser(default_decisions())
    fleet.run(120)
    assert len(fleet.moves) == 1
    assert sorted(len(runs) for runs in fleet.where().values()) == [1, 1]


def test_only_what_others_use_is_external() -> None:
    shared = conditions_of(HostLoad(2, load=2.0, busy=1.6, own=0.4, external_cpu=0.75, network=0))
    assert shared.own_load == pytest.approx(0.5)
    assert shared.external_cpu == pytest.approx(0.75)
    assert conditions_of(IDLE).external_cpu == 0.0
