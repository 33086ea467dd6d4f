"""What the fleet level costs: a node's forecasts, rings and scores, and planning a large fleet.

Told in CPU time, because the question is what part of a core it takes and machines are shared.
"""

from __future__ import annotations

import json as jsonlib
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

from laxity.fleet import (
    Conditions,
    DecisionSettings,
    FleetPlanner,
    Footprint,
    InterferenceScore,
    Migrate,
    MigrationRequest,
    NodeManager,
    NodeReport,
    PredictionRing,
    threshold_for,
)
from laxity.fleet.interference import scores_at_home

SEASON = 60
STEPS = 90


@dataclass(frozen=True, slots=True)
class NodeCost:
    """Share of a core, with a step and a round every second; fits are apart: they are rare."""

    queries: int
    share_of_a_core: float
    milliseconds_a_fit: float


@dataclass(frozen=True, slots=True)
class PlanCost:
    """`seconds` is the whole round: scores of all computations on their nodes, and the plan."""

    computations: int
    nodes: int
    requests: int
    moves: int
    seconds: float


def node_cost(queries: int, seed: int = 1) -> NodeCost:
    rng = np.random.default_rng(seed)
    score = InterferenceScore()
    settings = DecisionSettings(threshold_for(score, load=0.5, share=0.02))
    node = NodeManager("bench", score, settings)
    names = [f"q{n}" for n in range(queries)]
    phase = rng.uniform(0, SEASON, queries)

    def rates(step: int) -> dict[str, float]:
        wave = 100 + 30 * np.sin(2 * np.pi * (step + phase) / SEASON)
        return dict(zip(names, rng.poisson(wave).astype(float).tolist(), strict=True))

    for name in names:
        node.add(name, Footprint(1e-4))
    # Two seasons, then one step for each fit that waits.
    for step in range(2 * SEASON - 1):
        node.observe(rates(step))
    begun, fitting = 2 * SEASON - 1, time.process_time()
    for step in range(begun, begun + queries):
        node.observe(rates(step))
    a_fit = (time.process_time() - fitting) / queries
    spent = []
    for step in range(begun + queries, begun + queries + STEPS):
        arrived = rates(step)
        started = time.process_time()
        node.observe(arrived)
        node.round(Conditions(2.0, 8, own_load=1.0), float(step))
        spent.append(time.process_time() - started)
    return NodeCost(queries, median(spent), a_fit * 1000)


def plan_cost(computations: int, nodes: int, seed: int = 1) -> PlanCost:
    """Every node asks for its most hurt computation to be moved."""
    rng = np.random.default_rng(seed)
    score = InterferenceScore()
    planner = FleetPlanner(score, DecisionSettings(score_threshold=0.0))
    places = rng.integers(0, nodes, computations)
    levels = rng.uniform(0.0, 0.05, (computations, 1)) * rng.uniform(0.5, 1.5, (computations, 90))
    started = time.process_time()
    requests = []
    for node in range(nodes):
        rows = levels[places == node]
        planner.report(NodeReport(f"n{node}", PredictionRing(rows.sum(axis=0), now=0.0)))
        if rows.size:
            found = scores_at_home(score, rows)
            worst = int(found.argmax())
            ring = PredictionRing(rows[worst], now=0.0)
            requests.append(
                MigrationRequest(f"n{node}/{worst}", f"n{node}", ring, float(found[worst]))
            )
    answers = planner.plan(requests, 1.0)
    seconds = time.process_time() - started
    moves = sum(isinstance(answer, Migrate) for answer in answers)
    return PlanCost(computations, nodes, len(requests), moves, seconds)


def run(*, json: Path | None) -> None:
    node = node_cost(150)
    plan = min((plan_cost(10_000, 500, seed) for seed in range(3)), key=lambda p: p.seconds)
    table = Table("what", "goal", "here", title="The cost of the fleet level (CPU time)")
    table.add_row(
        f"forecasts, rings and scores of {node.queries} queries, every second",
        "below 1 % of a core",
        f"{node.share_of_a_core:.2%}",
    )
    table.add_row("one fit of a forecast, when it is due", "", f"{node.milliseconds_a_fit:.0f} ms")
    table.add_row(
        f"{plan.computations:,} computations on {plan.nodes} nodes: "
        f"{plan.requests} requests, {plan.moves} moves",
        "below 1 s",
        f"{plan.seconds:.2f} s",
    )
    Console().print(table)
    if json is not None:
        json.write_text(jsonlib.dumps({"node": asdict(node), "plan": asdict(plan)}, indent=2))
