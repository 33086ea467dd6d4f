"""A micro-batch taken apart: where its time went, and what its stages cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from laxity.spark.wire import BatchDone, StageDone


class Phase(Enum):
    """Where a moment of a result's latency was spent."""

    HELD = "held by the gate"
    PLANNING = "planning"
    WAITING = "waiting for a slot"
    RUNNING = "running"
    COMMITTING = "committing"
    IDLE = "between batches"


@dataclass(frozen=True, slots=True)
class Span:
    phase: Phase
    start: float
    end: float
    behind: tuple[str, ...] = ()
    """While waiting: ids of the queries whose tasks held the slots, most tasks first."""


def spans(batch: BatchDone, stages: Sequence[StageDone]) -> list[Span]:
    """The batch as consecutive spans. Stages of a batch may overlap; a moment in which any of
    them runs counts as running."""
    found: list[Span] = []
    if batch.held > 0:
        found.append(Span(Phase.HELD, batch.started - batch.held, batch.started))
    cursor = batch.started
    for stage in sorted(stages, key=lambda s: s.submitted):
        if stage.submitted > cursor:
            found.append(Span(Phase.PLANNING, cursor, stage.submitted))
            cursor = stage.submitted
        if stage.launched > cursor:
            who = sorted(stage.behind, key=lambda q: -stage.behind[q])
            found.append(Span(Phase.WAITING, cursor, stage.launched, tuple(who)))
            cursor = stage.launched
        if stage.done > cursor:
            found.append(Span(Phase.RUNNING, cursor, stage.done))
            cursor = stage.done
    if batch.ended > cursor:
        last = Phase.COMMITTING if stages else Phase.PLANNING
        found.append(Span(last, cursor, batch.ended))
    return found


def attribute(spans: Iterable[Span], start: float, end: float) -> dict[Phase, float]:
    """How the time from `start` to `end` divides into phases; what no span covers was idle."""
    shares: dict[Phase, float] = defaultdict(float)
    for span in spans:
        overlap = min(end, span.end) - max(start, span.start)
        if overlap > 0:
            shares[span.phase] += overlap
    idle = (end - start) - sum(shares.values())
    if idle > 1e-6:
        shares[Phase.IDLE] += idle
    return dict(shares)


def behind_whom(spans: Iterable[Span], start: float, end: float) -> dict[str, float]:
    """Seconds of waiting between `start` and `end`, by the query that was in the way most."""
    blame: dict[str, float] = defaultdict(float)
    for span in spans:
        overlap = min(end, span.end) - max(start, span.start)
        if span.phase is Phase.WAITING and span.behind and overlap > 0:
            blame[span.behind[0]] += overlap
    return dict(blame)


@dataclass(frozen=True, slots=True)
class StageCost:
    """A stage's cost on the batch's way, and what follows it within the batch."""

    cost: float
    path_cost: float
    task_seconds: float
    longest_task: float
    tasks: int
    parents: tuple[str, ...] = ()


def stage_costs(stages: Sequence[StageDone], tail: float) -> dict[str, StageCost]:
    """C_o and C_path of every stage, by its position in the plan (as Stream.position numbers
    them). Jobs of a batch follow each other; within one the stage DAG decides. `tail` is what
    follows the last stage: the commit."""
    by_job: dict[int, list[StageDone]] = defaultdict(list)
    for stage in stages:
        by_job[stage.job].append(stage)
    found: dict[str, StageCost] = {}
    after = tail
    for ordinal, job in reversed(list(enumerate(sorted(by_job)))):
        members = {stage.stage: stage for stage in by_job[job]}
        first = min(members, key=lambda s: members[s].submitted)
        children: dict[int, list[int]] = defaultdict(list)
        for stage in members.values():
            for parent in stage.parents:
                children[parent].append(stage.stage)
        path: dict[int, float] = {}
        for number in sorted(members, reverse=True):  # Spark numbers parents before children
            path[number] = max(
                (_wall(members[c]) + path[c] for c in children[number] if c in path),
                default=after,
            )
        for number, stage in members.items():
            found[f"{ordinal}.{number - first}"] = StageCost(
                _wall(stage),
                path[number],
                stage.task_seconds,
                stage.longest_task,
                stage.tasks,
                tuple(f"{ordinal}.{p - first}" for p in stage.parents if p in members),
            )
        after += max((_wall(s) + path[s.stage] - after for s in members.values()), default=0.0)
    return found


def _wall(stage: StageDone) -> float:
    """What the stage itself takes once it has a slot; waiting for one is not its cost."""
    return max(0.0, stage.done - stage.launched)


def unobstructed(batch: BatchDone, stages: Iterable[StageDone]) -> float:
    """How long the batch would have taken with slots at once."""
    waited = sum(max(0.0, s.launched - s.submitted) for s in stages)
    return max(0.0, batch.ended - batch.started - waited)


def names(ids: Mapping[str, float], known: Mapping[str, str]) -> dict[str, float]:
    """Query ids replaced by names where they are known."""
    return {known.get(i, "a batch job" if i == "batch" else i): v for i, v in ids.items()}
