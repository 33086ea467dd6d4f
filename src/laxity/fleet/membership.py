"""Who is in the fleet, from when each agent was last heard. Pure: the time is passed in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from laxity.fleet.protocol import Observation, Report
from laxity.fleet.refusals import NodeUnknownError


class Reach(StrEnum):
    UP = "up"
    SILENT = "silent"
    """Late. It may be dead, paused or cut off; its queries may well run."""
    LOST = "lost"
    """Late for so long that its queries are offered to others; their leases decide."""
    LEFT = "left"
    """It said goodbye: its queries are stopped and their leases released."""


@dataclass
class Node:
    name: str
    report: Report
    heard: float
    joined: float
    queries: dict[str, Observation] = field(default_factory=dict)

    def sees(self, query: str) -> Observation | None:
        return self.queries.get(query)


class Membership:
    def __init__(self, *, silent_after: float, lost_after: float) -> None:
        self._silent_after = silent_after
        self._lost_after = lost_after
        self._nodes: dict[str, Node] = {}

    def hear(self, report: Report, now: float) -> Node:
        node = self._nodes.get(report.node)
        if node is None or node.report.incarnation != report.incarnation:
            node = Node(report.node, report, now, joined=now)
            self._nodes[report.node] = node
        node.report, node.heard = report, now
        node.queries = {q.query: q for q in report.queries}
        return node

    def reach(self, name: str, now: float) -> Reach:
        node = self._nodes.get(name)
        if node is None:
            return Reach.LOST
        if node.report.leaving:
            return Reach.LEFT
        silence = now - node.heard
        if silence >= self._lost_after:
            return Reach.LOST
        return Reach.SILENT if silence >= self._silent_after else Reach.UP

    def up(self, now: float) -> list[Node]:
        return [n for n in self._nodes.values() if self.reach(n.name, now) is Reach.UP]

    def get(self, name: str | None) -> Node | None:
        return None if name is None else self._nodes.get(name)

    def __getitem__(self, name: str) -> Node:
        node = self._nodes.get(name)
        if node is None:
            known = ", ".join(sorted(self._nodes)) or "none yet"
            raise NodeUnknownError(
                f"no node named {name!r}; agents that have reported: {known}. Start one with: "
                f"laxity agent --name {name}"
            )
        return node

    def __iter__(self) -> Iterator[Node]:
        return iter(list(self._nodes.values()))
