"""Who asks to move, where to, and who must stay (§4.2). Time is passed in; nothing here waits.

A node nominates (`Nominations`): the computation with the highest score, if that stayed above a
threshold for some rounds in a row. The orchestrator decides (`FleetPlanner`): it scores the
computation on every other node and moves it to the least, if that is enough of an improvement.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from laxity.fleet.errors import InvalidFleetSettingsError, UnknownNodeError
from laxity.fleet.footprint import Conditions
from laxity.fleet.interference import InterferenceScore, neighbourhood
from laxity.fleet.rings import Array, PredictionRing


@dataclass(frozen=True, slots=True)
class Steps:
    """The least ΔI that is worth a move, by how uneven the nodes are (§4.2.1): `levels` are
    (variance, ΔI), from the most uneven down; `otherwise` below all of them.

    The variance is taken of scores divided by their mean, since scores have no unit of their own:
    the same steps then do for every fleet. The paper's default of 5 % is the lowest step.
    """

    levels: tuple[tuple[float, float], ...] = ((0.5, 0.05), (0.1, 0.15), (0.02, 0.30))
    otherwise: float = 0.50

    def __post_init__(self) -> None:
        variances = [variance for variance, _ in self.levels]
        if variances != sorted(variances, reverse=True) or any(v < 0 for v in variances):
            raise InvalidFleetSettingsError("steps go from the highest variance to the lowest")
        thresholds = [least for _, least in self.levels] + [self.otherwise]
        if thresholds != sorted(thresholds) or not all(0 <= t < 1 for t in thresholds):
            raise InvalidFleetSettingsError(
                "thresholds are in [0, 1) and never smaller where nodes are more even"
            )

    def threshold(self, variance: float) -> float:
        return next((least for above, least in self.levels if variance >= above), self.otherwise)


@dataclass(frozen=True, slots=True)
class DecisionSettings:
    """`score_threshold` is in the unit of scores (see `threshold_for`). Times are seconds."""

    score_threshold: float
    consecutive: int = 3
    cooling_down: float = 30.0
    back_off: float = 60.0
    longest_back_off: float = 900.0
    rejections_until_scale_out: int = 3
    steps: Steps = field(default_factory=Steps)

    def __post_init__(self) -> None:
        for name in ("consecutive", "rejections_until_scale_out"):
            if getattr(self, name) < 1:
                raise InvalidFleetSettingsError(f"{name} is 1 or more, not {getattr(self, name)}")
        for name in ("score_threshold", "cooling_down", "back_off", "longest_back_off"):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0:
                raise InvalidFleetSettingsError(f"{name} is finite, 0 or more, not {value!r}")


def threshold_for(score: InterferenceScore, *, load: float, share: float) -> float:
    """The score of a computation that constantly takes `share` of what a node can give, where all
    others take `load` of it: a way to say a threshold without thinking in scores."""
    if share <= 0 or load < 0:
        raise InvalidFleetSettingsError(f"share is above 0 and load not below, not {share}, {load}")
    size = score.shape.size
    return float(score.of_values(np.full(size, load), np.full(size, share)))


class Nominations:
    """The node's side: which of its computations asks to move."""

    def __init__(self, settings: DecisionSettings) -> None:
        self._settings = settings
        self._streaks: dict[str, int] = {}
        self._barred: dict[str, float] = {}
        self._rejections: dict[str, int] = {}
        self._cool_at = -math.inf

    def evaluate(self, scores: Mapping[str, float], now: float) -> str | None:
        """One round. Streaks go on while the node cools down, so that it can ask right after."""
        above = {n: s for n, s in scores.items() if s > self._settings.score_threshold}
        self._streaks = {name: self._streaks.get(name, 0) + 1 for name in above}
        for book in (self._barred, self._rejections):
            for name in book.keys() - scores.keys():
                del book[name]
        # Interference that went away by itself is no reason to scale out any more.
        for name in self._rejections.keys() - above.keys():
            del self._rejections[name]
        if now < self._cool_at:
            return None
        asking = [
            name
            for name in above
            if self._streaks[name] >= self._settings.consecutive
            and now >= self._barred.get(name, -math.inf)
        ]
        return max(asking, key=lambda name: (above[name], name), default=None)

    def rejected(self, name: str, now: float) -> ScaleOut | None:
        """Leave that one alone for a while, longer each time: moving others may help it too. If it
        did not, the fleet is too small."""
        settings = self._settings
        count = self._rejections[name] = self._rejections.get(name, 0) + 1
        doubled: float = settings.back_off * 2.0 ** min(count - 1, 60)
        self._barred[name] = now + min(doubled, settings.longest_back_off)
        if count < settings.rejections_until_scale_out:
            return None
        return ScaleOut(name, count)

    def took_part(self, now: float) -> None:
        """A computation has left or come."""
        self._cool_at = now + self._settings.cooling_down

    def forget(self, name: str) -> None:
        for book in (self._streaks, self._barred, self._rejections):
            book.pop(name, None)

    def barred_until(self, name: str) -> float:
        return self._barred.get(name, -math.inf)


@dataclass(frozen=True, slots=True)
class ScaleOut:
    """No move helps this computation: the fleet needs more nodes, or has to shed load."""

    computation: str
    rejections: int

    def __str__(self) -> str:
        return (
            f"{self.computation} was refused a better place {self.rejections} times: "
            "scale out or shed load"
        )


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What a node sends every round: the sum of its rings, not normalised, and its host."""

    node: str
    ring: PredictionRing
    conditions: Conditions = field(default_factory=Conditions)
    open: bool = True
    """Whether it takes computations; False while it is drained."""


@dataclass(frozen=True, slots=True)
class MigrationRequest:
    """Sent with the report. `score` is what it suffers where it is (I_c)."""

    computation: str
    node: str
    ring: PredictionRing
    score: float


class Reason(StrEnum):
    COOLING = "the node takes part in another move or is cooling down"
    NOWHERE = "no other node takes computations now"
    TOO_LITTLE = "the best node is not better enough"


@dataclass(frozen=True, slots=True)
class Migrate:
    computation: str
    source: str
    target: str
    reduction: float
    """ΔI as a fraction."""
    threshold: float
    variance: float


@dataclass(frozen=True, slots=True)
class Reject:
    computation: str
    source: str
    reason: Reason
    reduction: float = 0.0
    threshold: float = 0.0
    variance: float = 0.0

    @property
    def counts(self) -> bool:
        """Whether the node should back off: not if it only has to wait its turn."""
        return self.reason is not Reason.COOLING


Decision = Migrate | Reject


@dataclass(frozen=True, slots=True)
class Ranking:
    """Scores of one computation on the nodes that could take it, best first."""

    nodes: tuple[str, ...]
    scores: tuple[float, ...]
    variance: float

    @property
    def best(self) -> tuple[str, float] | None:
        return (self.nodes[0], self.scores[0]) if self.nodes else None


def reduction(current: float, best: float) -> float:
    """ΔI = (I_c − I_n) / I_c, as a fraction."""
    return (current - best) / current if current > 0 else 0.0


def relative_variance(scores: Array) -> float:
    """Variance of scores divided by their mean; 0 where there is nothing to compare."""
    mean = float(scores.mean()) if scores.size else 0.0
    return float(scores.var()) / mean**2 if mean > 0 else 0.0


class FleetPlanner:
    """The orchestrator's side. It keeps the last report of each node and who is cooling down, both
    of which a successor learns from the nodes within a round."""

    def __init__(self, score: InterferenceScore, settings: DecisionSettings) -> None:
        self.score = score
        self.settings = settings
        self._reports: dict[str, NodeReport] = {}
        self._cool_at: dict[str, float] = {}

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self._reports)

    def report(self, report: NodeReport) -> None:
        self._reports[report.node] = report

    def remove(self, node: str) -> None:
        self._known(node)
        del self._reports[node]
        self._cool_at.pop(node, None)

    def took_part(self, node: str, now: float) -> None:
        """A move of this node has ended, or begins now: it is left alone from here on."""
        self._cool_at[node] = now + self.settings.cooling_down

    def cooling(self, node: str, now: float) -> bool:
        return now < self._cool_at.get(node, -math.inf)

    def rank(
        self, ring: PredictionRing, now: float, *, without: Iterable[str] = (), cool: bool = True
    ) -> Ranking:
        """Where would it be best? For a first placement, and to drain a node."""
        left_out = set(without)
        table = _Table(self, now)
        scores = table.scores(ring)
        return self._ranking(table, scores, [n not in left_out for n in table.names], now, cool)

    def decide(self, request: MigrationRequest, now: float) -> Decision:
        return self.plan([request], now)[0]

    def plan(self, requests: Iterable[MigrationRequest], now: float) -> list[Decision]:
        """Decide on a round of requests, the most hurt first; answers in the order of requests.

        A node takes part in one move a round, so no answer changes what a later one looks at and
        scores are computed on rings as reported.
        """
        asked = list(requests)
        for request in asked:
            self._known(request.node)
        table = _Table(self, now)
        answers: dict[int, Decision] = {}
        for index in sorted(range(len(asked)), key=lambda i: -asked[i].score):
            answer = answers[index] = self._decide(asked[index], table, now)
            if isinstance(answer, Migrate):
                self.took_part(answer.source, now)
                self.took_part(answer.target, now)
        return [answers[index] for index in range(len(asked))]

    def _decide(self, request: MigrationRequest, table: _Table, now: float) -> Decision:
        if self.cooling(request.node, now):
            return Reject(request.computation, request.node, Reason.COOLING)
        scores = table.scores(request.ring)
        others = [name != request.node for name in table.names]
        ranking = self._ranking(table, scores, others, now, True)
        if ranking.best is None:
            waits = any(self.cooling(n, now) and self._reports[n].open for n in table.names)
            reason = Reason.COOLING if waits else Reason.NOWHERE
            return Reject(request.computation, request.node, reason)
        target, least = ranking.best
        gained = reduction(request.score, least)
        threshold = self.settings.steps.threshold(ranking.variance)
        if gained > threshold:
            return Migrate(
                request.computation, request.node, target, gained, threshold, ranking.variance
            )
        return Reject(
            request.computation,
            request.node,
            Reason.TOO_LITTLE,
            gained,
            threshold,
            ranking.variance,
        )

    def _ranking(
        self, table: _Table, scores: Array, others: list[bool], now: float, cool: bool
    ) -> Ranking:
        """The variance is over every other node: how uneven the fleet is does not depend on who
        happens to be cooling down."""
        mask = np.array(others, dtype=np.bool_)
        variance = relative_variance(scores[mask])
        able = [
            (float(scores[i]), name)
            for i, name in enumerate(table.names)
            if others[i] and self._reports[name].open and not (cool and self.cooling(name, now))
        ]
        able.sort()
        return Ranking(tuple(n for _, n in able), tuple(s for s, _ in able), variance)

    def _known(self, node: str) -> None:
        if node not in self._reports:
            known = ", ".join(sorted(self._reports)) or "none"
            raise UnknownNodeError(f"no node {node!r} has reported; known are: {known}")


class _Table:
    """All nodes' levels at one moment, as they weigh on their hosts."""

    def __init__(self, planner: FleetPlanner, now: float) -> None:
        reports = planner._reports
        self._score, self._now = planner.score, now
        self.names = tuple(reports)
        if not reports:
            return
        self._factors = np.array([self._score.factors(r.conditions) for r in reports.values()])
        levels = np.array([self._levels(report.ring) for report in reports.values()])
        self._usage = neighbourhood(levels * self._factors)

    def _levels(self, ring: PredictionRing) -> Array:
        return ring.at(max(self._now, ring.updated_at)).values

    def scores(self, ring: PredictionRing) -> Array:
        """Of a computation with this ring, on every node."""
        if not self.names:
            return np.zeros(0)
        added = neighbourhood(self._levels(ring) * self._factors)
        return self._score.of_neighbourhoods(self._usage, added)
