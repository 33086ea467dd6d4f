"""The scheduling of Neptune on both sides of the wire: an agent's measurements become rings,
scores and requests; the orchestrator answers requests with moves."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from dataclasses import asdict, replace
from typing import Any

from laxity.fleet.decisions import (
    Decision,
    DecisionSettings,
    FleetPlanner,
    Migrate,
    MigrationRequest,
    NodeReport,
    threshold_for,
)
from laxity.fleet.engine import Measures
from laxity.fleet.errors import InvalidRingError
from laxity.fleet.footprint import Conditions, Footprint
from laxity.fleet.forecasts import HoltWinters
from laxity.fleet.handover import Knowledge
from laxity.fleet.hostload import HostLoad
from laxity.fleet.interference import InterferenceScore
from laxity.fleet.membership import Node, Reach
from laxity.fleet.migration import Step
from laxity.fleet.node import NodeManager
from laxity.fleet.orchestrator import Orchestrator, release
from laxity.fleet.refusals import RefusedError
from laxity.fleet.rings import PredictionRing

log = logging.getLogger("laxity.fleet")


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
    """The agent's side: called once a period with what was measured. Queries come and go in other
    threads than the one that measures."""

    def __init__(self, node: str, settings: DecisionSettings, *, step: float = 1.0) -> None:
        forecaster = HoltWinters()
        self._season = forecaster.settings.season
        self._manager = NodeManager(
            node, InterferenceScore(), settings, forecaster=forecaster, step=step
        )
        self._lock = threading.Lock()
        self._step = step
        self._expected: dict[str, list[float]] = {}
        """Rates of queries that come with some."""
        self._round = 0
        self._settings = settings
        self._rejections: dict[str, float] = {}
        self._unanswered: set[str] = set()
        """Queries that have asked to move since they were last refused."""
        self._notices: dict[str, str] = {}

    def __call__(self, measured: list[Measures], host: HostLoad, now: float) -> dict[str, Any]:
        with self._lock:
            return self._assess(measured, host, now)

    def pack(self, query: str, now: float) -> Knowledge | None:
        with self._lock:
            if query not in self._manager.computations:
                return None
            found = self._manager.hand_over(query)
            self._manager.took_part(now)
            per_row = found.footprint.processing_time
            return Knowledge(self._step, now, per_row, list(found.history))

    def unpack(self, query: str, knowledge: Knowledge, now: float) -> None:
        with self._lock:
            self._expected[query] = knowledge.continued(self._step, self._season, now)

    def _assess(self, measured: list[Measures], host: HostLoad, now: float) -> dict[str, Any]:
        manager = self._manager
        known, here = set(manager.computations), {m.query for m in measured}
        for gone in known - here:
            manager.hand_over(gone)
            self._notices.pop(gone, None)
            self._unanswered.discard(gone)
        for one in measured:
            footprint = Footprint(max(0.0, one.seconds_per_row))
            if one.query in known:
                manager.measured(one.query, footprint)
            else:
                manager.add(one.query, footprint, self._expected.pop(one.query, ()))
        if known != here:
            manager.took_part(now)
        manager.observe({m.query: m.rows_per_second * self._step for m in measured})
        if not measured:
            ring = PredictionRing(now=now)
            self._round += 1
            return self._wire(NodeReport(manager.node, ring, conditions_of(host)), {}, None)
        found = manager.round(conditions_of(host), now)
        self._round += 1
        if found.request is not None:
            self._unanswered.add(found.request.computation)
        for query, score in found.scores.items():
            if score <= self._settings.score_threshold:
                self._notices.pop(query, None)
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
        """Each refusal of the orchestrator once, by when it was. A node may ask again before it
        hears the answer; the answer to that is no second refusal. Nor is one from before this
        process began."""
        for query, at in rejections.items():
            if self._rejections.get(query) == at:
                continue
            self._rejections[query] = at
            if query not in self._unanswered:
                continue
            self._unanswered.discard(query)
            scale_out = self._manager.rejected(query, now)
            if scale_out is not None:
                self._notices[query] = str(scale_out)


class Adviser:
    """The orchestrator's side: called with every tick.

    A query can only go where its checkpoint can be read, so nodes of different feature releases
    are planned for apart.
    """

    def __init__(self, settings: DecisionSettings) -> None:
        self._planners: defaultdict[tuple[str, str], FleetPlanner] = defaultdict(
            lambda: FleetPlanner(InterferenceScore(), settings)
        )
        self._answered: dict[str, tuple[str, int]] = {}
        self._seen_moves: set[int] = set()
        self._unreadable: set[tuple[str, str]] = set()

    def __call__(self, mind: Orchestrator, now: float) -> None:
        requests: dict[tuple[str, str], list[MigrationRequest]] = defaultdict(list)
        for node in mind.members:
            group = release(node.report)
            for other, planner in self._planners.items():
                if other != group and node.name in planner.nodes:
                    planner.remove(node.name)  # it came back with another release
            if mind.members.reach(node.name, now) is not Reach.UP or not node.report.load:
                self._leave_out(node)
                continue
            try:
                request = self._read(mind, node)
            except (LookupError, TypeError, ValueError) as error:
                self._leave_out(node)
                this = (node.name, node.report.incarnation)
                if this not in self._unreadable:
                    log.warning("%s reports a load that cannot be read: %s", node.name, error)
                self._unreadable.add(this)
                continue
            if request is not None:
                requests[group].append(request)
        self._cool(mind, now)
        for group, asked in requests.items():
            for answer in self._planners[group].plan(asked, now):
                self._carry_out(answer, mind, now)

    def _read(self, mind: Orchestrator, node: Node) -> MigrationRequest | None:
        """What a node says of itself, and its request unless that was answered already."""
        load = node.report.load
        planner = self._planners[release(node.report)]
        planner.report(
            NodeReport(
                node.name,
                _ring(load["ring"], planner),
                Conditions(**load["conditions"]),
                open=node.name not in mind.drained,
            )
        )
        asked, this = load["request"], (node.report.incarnation, load["round"])
        if asked is None or self._answered.get(node.name) == this:
            return None
        self._answered[node.name] = this
        query = asked["query"]
        if query in mind.migrations or not mind.runs(query, node.name):
            return None
        return MigrationRequest(
            query, node.name, _ring(asked["ring"], planner), float(asked["score"])
        )

    def _leave_out(self, node: Node) -> None:
        planner = self._planners[release(node.report)]
        if node.name in planner.nodes:
            planner.remove(node.name)

    @staticmethod
    def _carry_out(answer: Decision, mind: Orchestrator, now: float) -> None:
        if isinstance(answer, Migrate):
            try:
                mind.move(answer.computation, answer.target, now, by="fleet")
            except RefusedError:
                mind.reject(answer.computation, answer.source, now)
        elif answer.counts:
            mind.reject(answer.computation, answer.source, now)

    def _cool(self, mind: Orchestrator, now: float) -> None:
        """Nodes of moves that are under way or have just ended, whoever asked for them. A move
        that came to nothing counts as a refusal, or it would be tried again and again."""
        for move in mind.migrations.values():
            self._took_part(move.source, move.target, now=now)
        ended = {move.number: move for move in mind.history}
        for number in ended.keys() - self._seen_moves:
            move = ended[number]
            self._took_part(move.source, move.target, now=now)
            if move.by == "fleet" and move.step is Step.ENDED:
                mind.reject(move.query, move.source, now)
        self._seen_moves = set(ended)

    def _took_part(self, *names: str, now: float) -> None:
        for planner in self._planners.values():
            for name in names:
                if name in planner.nodes:
                    planner.took_part(name, now)


def _ring(data: Any, planner: FleetPlanner) -> PredictionRing:
    ring, shape = PredictionRing.from_wire(data), planner.score.shape
    if ring.shape != shape:
        raise InvalidRingError(f"rings of {ring.shape.rings} where {shape.rings} are spoken")
    return ring
