"""What `laxity fleet show` tells, and only what is known: a query whose node is cut off is not
said to be running, but to have been running, or to run by its lease."""

from __future__ import annotations

from typing import Any

from laxity.fleet.membership import Node, Reach
from laxity.fleet.orchestrator import Assignment, Orchestrator
from laxity.fleet.protocol import Observation, Phase


def fleet_to_dict(mind: Orchestrator, now: float, term: int, url: str) -> dict[str, Any]:
    return {
        "term": term,
        "url": url,
        "learning": mind.learning(now),
        "nodes": [_node(mind, node, now) for node in sorted(mind.members, key=lambda n: n.name)],
        "queries": [_query(mind, a, now) for _, a in sorted(mind.assignments.items())],
        "moves": [m.to_wire() for m in (*mind.migrations.values(), *reversed(mind.history))],
        "events": [{"at": e.at, "text": e.text} for e in list(mind.events)[-50:]],
    }


def _node(mind: Orchestrator, node: Node, now: float) -> dict[str, Any]:
    report = node.report
    return {
        "name": node.name,
        "reach": mind.members.reach(node.name, now).value,
        "heard": round(now - node.heard, 3),
        "engine": report.engine,
        "version": report.version,
        "cores": report.cores,
        "draining": node.name in mind.drained,
        "host": report.host,
        "load": {k: v for k, v in report.load.items() if k in ("scores", "request", "notices")},
        "runs": sorted(q.query for q in report.queries if q.phase is Phase.RUNNING),
    }


def _query(mind: Orchestrator, known: Assignment, now: float) -> dict[str, Any]:
    node = mind.members.get(known.node)
    seen = node.sees(known.query) if node else None
    state, where = _state(mind, known, seen, now)
    going = mind.migrations.get(known.query)
    return {
        "name": known.query,
        "node": where,
        "state": state,
        "reason": seen.reason if seen else "",
        "moving": None if going is None else {"to": going.target, "step": going.step.value},
        "epoch": seen.epoch if seen else 0,
        "restarts": seen.restarts if seen else 0,
        "checkpoint": seen.checkpoint if seen else "",
        "target": known.target,
        "pipeline": known.pipeline,
        "measures": seen.measures if seen else {},
    }


def _state(
    mind: Orchestrator, known: Assignment, seen: Observation | None, now: float
) -> tuple[str, str | None]:
    if known.node is None or (not known.wanted and seen is None):
        return ("unplaced" if known.wanted else "stopped"), None
    reach = mind.members.reach(known.node, now)
    if seen is not None and seen.phase is Phase.WAITING and seen.holder not in (None, known.node):
        holder = seen.holder or ""
        apart = mind.members.reach(holder, now)
        if apart is Reach.UP:
            return f"waiting for the lease of {holder}", known.node
        return f"running by its lease; {holder} is {apart}", holder
    if seen is None:
        return ("unknown" if reach is not Reach.UP else "placed"), known.node
    if reach is Reach.UP:
        return seen.phase.value, known.node
    if reach is Reach.LEFT:
        return "stopped", known.node
    return f"unknown; {seen.phase} {now - (mind.members[known.node].heard):.0f} s ago", known.node
