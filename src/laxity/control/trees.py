"""Broadcast and aggregation trees (Chi §4.3): no controller talks to thousands of operators.

A tree is never built. A node's name says which of the leaves are below it, and its children and
parent follow from that; so nodes keep no state of the tree, and any process can be one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from laxity.control.errors import InvalidOperationError, ProtocolError
from laxity.control.messages import CONTROLLER, ControlMessage, Payload
from laxity.control.processor import SendMessage

PREFIX = "@tree"


@dataclass(frozen=True)
class Tree:
    """Over the leaves in their order, at most `fan_out` children a node."""

    leaves: tuple[str, ...]
    fan_out: int

    def __post_init__(self) -> None:
        if self.fan_out < 2:
            raise InvalidOperationError(f"a tree needs a fan-out of at least 2, not {self.fan_out}")

    @cached_property
    def _index(self) -> dict[str, int]:
        return {leaf: i for i, leaf in enumerate(self.leaves)}

    @property
    def top(self) -> tuple[str, ...]:
        """The controller's own children."""
        return self._children(0, len(self.leaves))

    @property
    def depth(self) -> int:
        """Messages one after the other from the controller to a leaf."""
        depth, width = 0, len(self.leaves)
        while width > 1:
            depth, width = depth + 1, -(-width // self.fan_out)
        return max(depth, 1)

    def below(self, node: str) -> tuple[str, ...]:
        return self._children(*_span(node))

    def above(self, node: str) -> str:
        """The parent of a node or leaf; the controller at the top."""
        low, high = (
            _span(node) if is_tree_node(node) else (self._index[node], self._index[node] + 1)
        )
        parent, span = CONTROLLER, (0, len(self.leaves))
        while True:
            cuts = self._cuts(*span)
            span = next((a, b) for a, b in cuts if a <= low and high <= b)
            if span == (low, high):
                return parent
            parent = _name(*span)

    def nodes(self) -> list[str]:
        """All inner nodes, from the top."""
        found: list[str] = []
        level = [n for n in self.top if is_tree_node(n)]
        while level:
            found += level
            level = [n for node in level for n in self.below(node) if is_tree_node(n)]
        return found

    def _children(self, low: int, high: int) -> tuple[str, ...]:
        return tuple(
            self.leaves[a] if b - a == 1 else _name(a, b) for a, b in self._cuts(low, high)
        )

    def _cuts(self, low: int, high: int) -> list[tuple[int, int]]:
        size = high - low
        parts = min(self.fan_out, size)
        edges = [low + size * i // parts for i in range(parts + 1)]
        return list(pairwise(edges))


def _name(low: int, high: int) -> str:
    return f"{PREFIX}/{low}-{high}"


def is_tree_node(name: str) -> bool:
    return name.startswith(PREFIX)


def _span(node: str) -> tuple[int, int]:
    low, _, high = node.rpartition("/")[2].partition("-")
    return int(low), int(high)


@dataclass
class Relay:
    """An inner node of a broadcast tree."""

    name: str
    tree: Tree

    def receive(self, message: ControlMessage) -> list[SendMessage]:
        return [
            SendMessage(message.forwarded(CONTROLLER, child))
            for child in self.tree.below(self.name)
        ]


class Gatherer:
    """An inner node of an aggregation tree: one message up for all that came from below."""

    def __init__(self, name: str, tree: Tree) -> None:
        self.name = name
        self._tree = tree
        self._below = frozenset(tree.below(name))
        self._heard: dict[tuple[str, int], dict[str, tuple[tuple[str, Payload], ...]]] = {}

    def receive(self, message: ControlMessage) -> list[SendMessage]:
        if message.source not in self._below:
            raise ProtocolError(f"{self.name} gathers from others, not from {message.source!r}")
        key = (message.delivery.operation, message.delivery.epoch)
        heard = self._heard.setdefault(key, {})
        heard[message.source] = message.bundle or ((message.source, message.payload),)
        if set(heard) != self._below:
            return []
        bundle = tuple(report for child in sorted(heard) for report in heard[child])
        up = message.forwarded(self.name, self._tree.above(self.name))
        return [SendMessage(replace(up, bundle=bundle))]

    def forget(self, operation: str) -> None:
        """The operation is over; reports of an earlier attempt are kept until then."""
        for key in [k for k in self._heard if k[0] == operation]:
            del self._heard[key]
