"""The scheduling of Neptune on both sides of the wire: an agent's measurements become rings,
scores and requests; the orchestrator answers requests with moves."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from laxity.fleet.decisions import (
    DecisionSettings,
    FleetPlanner,
    Migrate,
    MigrationRequest,
    NodeReport,
    threshold_for,
)
from laxity.fleet.engine import Measures
from laxity.fleet.footprint import Conditions, Footprint
from laxity.fleet.hostload import HostLoad
from laxity.fleet.interference import InterferenceScore
from laxity.fleet.membership import Reach
from laxity.fleet.node import NodeManager
from laxity.fleet.orchestrator import Orchestrator
from laxity.fleet.refusals import RefusedError
from laxity.fleet.rings import PredictionRing


def default_decisions(**changes: Any) -> DecisionSettings:
    """A query asks to move when it interferes as much as one that takes a tenth of a core where
    others take four tenths."""
    threshold = threshold_for(InterferenceScore(), load=0.4, share=0.1)
    return replace(DecisionSettings(score_threshold=threshold), **changes)


def conditions_of(host: HostLoad) -> Conditions:
    """Bandwidth is left out: what a process sends is not told by the kernel without privileges,
    so only the CPU speaks."""
    own = host.load * min(1.0, host.own / host.busy) if host.busy > 0.05 else host.load
    return Conditions(load_average=host.load, cores=host.cores, own_load=own)


class NodeLoad:
    """The agent's side: called once a period with what was measured."""

    def __init__(self, node: str, settings: DecisionSettings, *, step: float = 1.0) -> None:
        self._manager = NodeManager(node, InterferenceScore(), settings, step=step)
        self._step = step
        self._round = 0
        self._rejections: dict[str, float] = {}
        self._notices: dict[str, str] = {}

    def __call__(self, measured: list[Measures], host: HostLoad, now: float) -> dict[str, Any]:
        manager = self._manager
        known, here = set(manager.computations), {m.query for m in measured}
        for gone in known - here:
            manager.hand_over(gone)
            self._notices.pop(gone, None)
        for one in measured:
            footprint = Footprint(max(0.0, one.seconds_per_row))
            if one.query in known:
                manager.measured(one.query, footprint)
            else:
                manager.add(one.query, footprint)
        if known != here:
            manager.took_part(now)
        manager.observe({m.query: m.rows_per_second * self._step for m in measured})
        if not measured:
            ring = PredictionRing(now=now)
            self._round += 1
            return self._wire(NodeReport(manager.node, ring, conditions_of(host)), {}, None)
        found = manager.round(conditions_of(host), now)
        self._round += 1
        return self._wire(found.report, dict(found.scores), found.request)

    def _wire(
        self, report: NodeReport, scores: dict[str, float], request: MigrationRequest | None
    ) -> dict[str, Any]:
        return {
            "round": self._round,
            "ring": report.ring.to_wire(),
            "conditions": asdict(report.conditions),
            "scores": scores,
            "request": None
            if request is None
            else {
                "query": request.computation,
                "ring": request.ring.to_wire(),
                "score": request.score,
            },
            "notices": list(self._notices.values()),
        }

    def rejected(self, rejections: dict[str, float], now: float) -> None:
        """Each refusal of the orchestrator once, by when it was."""
        for query, at in rejections.items():
            if self._rejections.get(query) != at:
                self._rejections[query] = at
                scale_out = self._manager.rejected(query, now)
                if scale_out is not None:
                    self._notices[query] = str(scale_out)


class Adviser:
    """The orchestrator's side: called with every tick."""

    def __init__(self, settings: DecisionSettings) -> None:
        self._planner = FleetPlanner(InterferenceScore(), settings)
        self._answered: dict[str, tuple[str, int]] = {}
        self._seen_moves: set[int] = set()

    def __call__(self, mind: Orchestrator, now: float) -> None:
        self._cool(mind, now)
        requests = []
        for node in mind.members:
            load = node.report.load
            if mind.members.reach(node.name, now) is not Reach.UP or "ring" not in load:
                if node.name in self._planner.nodes:
                    self._planner.remove(node.name)
                continue
            self._planner.report(
                NodeReport(
                    node.name,
                    PredictionRing.from_wire(load["ring"]),
                    Conditions(**load["conditions"]),
                    open=node.name not in mind.drained,
                )
            )
            asked, this = load.get("request"), (node.report.incarnation, load["round"])
            if asked is None or self._answered.get(node.name) == this:
                continue
            self._answered[node.name] = this
            if asked["query"] not in mind.migrations and mind.runs(asked["query"], node.name):
                ring = PredictionRing.from_wire(asked["ring"])
                requests.append(MigrationRequest(asked["query"], node.name, ring, asked["score"]))
        for answer in self._planner.plan(requests, now) if requests else ():
            if isinstance(answer, Migrate):
                try:
                    mind.move(answer.computation, answer.target, now, by="fleet")
                except RefusedError:
                    mind.reject(answer.computation, answer.source, now)
            elif answer.counts:
                mind.reject(answer.computation, answer.source, now)

    def _cool(self, mind: Orchestrator, now: float) -> None:
        """Nodes of moves that are under way or have just ended, whoever asked for them."""
        for move in mind.migrations.values():
            for name in (move.source, move.target):
                self._planner.took_part(name, now)
        for move in mind.history:
            if move.number not in self._seen_moves:
                self._seen_moves.add(move.number)
                for name in (move.source, move.target):
                    self._planner.took_part(name, now)
