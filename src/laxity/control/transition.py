"""From G to G* without stopping: the meta-topology G′ = G ∪ G* ∪ E(V, V*), pruned (Chi §4.2.1).

Control messages travel along G′. Operators that are only in G retire when they have completed;
those only in G* start then. What is left when the last message has arrived is G*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import networkx as nx

from laxity.control.errors import InvalidOperationError
from laxity.control.graph import Dataflow
from laxity.control.messages import CONTROLLER

Dependencies = Mapping[str, frozenset[str]]
"""T⁻¹: for an operator of G*, the operators of G whose state its own is made of."""

_Node = tuple[str, bool]
"""An operator, and whether it is the one of G*."""


def state_dependencies(before: Dataflow, after: Dataflow) -> Dependencies:
    """T⁻¹ as it follows from key ranges: whose keys an operator now owns."""
    found: dict[str, frozenset[str]] = {}
    for name, vertex in after.vertices.items():
        old = before.stages.get(vertex.stage, ())
        found[name] = frozenset(v for v in old if before.vertices[v].keys & vertex.keys)
    return found


@dataclass(frozen=True)
class Transition:
    """A pruned meta-topology."""

    before: Dataflow
    after: Dataflow
    """G*, its operators named as they will be called: one that could not be merged with its
    namesake of G, because the graph would get a cycle, bears a new name."""

    edges: frozenset[tuple[str, str]]
    state_edges: frozenset[tuple[str, str]]
    """E(V, V*) between different operators: state is shipped along these."""

    unpruned_size: int
    """Operators of G ∪ G*, before pruning."""

    @classmethod
    def between(
        cls, before: Dataflow, after: Dataflow, dependencies: Dependencies | None = None
    ) -> Transition:
        depends = state_dependencies(before, after) if dependencies is None else dependencies
        _check_dependencies(before, after, depends)
        meta: nx.DiGraph[_Node] = nx.DiGraph()
        meta.add_nodes_from((v, False) for v in before.vertices)
        meta.add_nodes_from((v, True) for v in after.vertices)
        meta.add_edges_from(((u, False), (v, False)) for u, v in before.graph.edges)
        meta.add_edges_from(((u, True), (v, True)) for u, v in after.graph.edges)
        ships = [((v, False), (w, True)) for w, olds in depends.items() for v in olds]
        meta.add_edges_from(ships)
        merged: dict[_Node, _Node] = {}
        for name in _merge_order(before, after, depends):
            smaller = _merge(meta, (name, True), (name, False))
            if smaller is not None:
                meta, merged[name, True] = smaller, (name, False)
        names = {node: node[0] for node in meta}
        taken = {*before.vertices, *after.vertices}
        for name, is_new in meta:
            if is_new and name in before.vertices:
                names[name, True] = _fresh(name, taken)
        renamed = {v: names[merged.get((v, True), (v, True))] for v in after.vertices}
        state_edges = {
            (v, renamed[w]) for w, olds in depends.items() for v in olds if v != renamed[w]
        }
        return cls(
            before,
            _rename(after, renamed),
            frozenset((names[u], names[v]) for u, v in meta.edges),
            frozenset(state_edges),
            len(before.vertices) + len(after.vertices),
        )

    @classmethod
    def unchanged(cls, graph: Dataflow) -> Transition:
        """For operations that leave the graph as it is: G′ = G."""
        edges = frozenset(graph.graph.edges)
        return cls(graph, graph, edges, frozenset(), len(graph.vertices))

    @cached_property
    def graph(self) -> nx.DiGraph[str]:
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(self.before.vertices)
        graph.add_nodes_from(self.after.vertices)
        graph.add_edges_from(self.edges)
        return graph

    @cached_property
    def vertices(self) -> tuple[str, ...]:
        """Of G′, each after all those it waits for."""
        return tuple(nx.lexicographical_topological_sort(self.graph))

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """Where the controller sends its message: the sources of G and of G*."""
        return tuple(v for v in self.vertices if self._is_end(v, "sources"))

    @cached_property
    def reporters(self) -> tuple[str, ...]:
        """From whom the controller expects one: the sinks of G and of G*."""
        return tuple(v for v in self.vertices if self._is_end(v, "sinks"))

    @property
    def starting(self) -> tuple[str, ...]:
        return tuple(v for v in self.vertices if v not in self.before.vertices)

    @property
    def retiring(self) -> tuple[str, ...]:
        return tuple(v for v in self.vertices if v not in self.after.vertices)

    @cached_property
    def ships(self) -> frozenset[str]:
        """Operators that give state away: Src(E(V, V*))."""
        return frozenset(v for v, _ in self.state_edges)

    @cached_property
    def receives(self) -> frozenset[str]:
        """Operators that are given state: Dest(E(V, V*))."""
        return frozenset(w for _, w in self.state_edges)

    @cached_property
    def _inputs(self) -> Mapping[str, tuple[str, ...]]:
        return {v: tuple(sorted(self.graph.predecessors(v))) for v in self.graph}

    def inputs(self, vertex: str) -> tuple[str, ...]:
        return self._inputs[vertex] + ((CONTROLLER,) if vertex in self._roots else ())

    def outputs(self, vertex: str) -> tuple[str, ...]:
        ends = (CONTROLLER,) if vertex in self._reporters else ()
        return tuple(sorted(self.graph.successors(vertex))) + ends

    @cached_property
    def _roots(self) -> frozenset[str]:
        return frozenset(self.roots)

    @cached_property
    def _reporters(self) -> frozenset[str]:
        return frozenset(self.reporters)

    @cached_property
    def _ends(self) -> Mapping[str, frozenset[str]]:
        return {
            "sources": frozenset(self.before.sources) | frozenset(self.after.sources),
            "sinks": frozenset(self.before.sinks) | frozenset(self.after.sinks),
        }

    def _is_end(self, vertex: str, which: str) -> bool:
        return vertex in self._ends[which]


def _check_dependencies(before: Dataflow, after: Dataflow, depends: Dependencies) -> None:
    for new, olds in depends.items():
        after.vertex(new)
        for old in olds:
            before.vertex(old)
    if before.name != after.name:
        raise InvalidOperationError(
            f"a transition leads from a dataflow to itself, not from {before.name!r} to "
            f"{after.name!r}"
        )


def _merge_order(before: Dataflow, after: Dataflow, depends: Dependencies) -> list[str]:
    """State invariance first (operators whose state stays as it is), then the others: whoever
    comes first is more likely to be merged without a cycle."""
    both = [v for v in before.vertices if v in after.vertices]
    asked = {old for new, olds in depends.items() for old in olds if old != new}
    untouched = [v for v in both if v not in asked and depends.get(v, frozenset()) <= {v}]
    return untouched + [v for v in both if v not in untouched]


def _merge(meta: nx.DiGraph[_Node], new: _Node, old: _Node) -> nx.DiGraph[_Node] | None:
    """G′ with two operators in one, or None if that would close a cycle."""
    smaller = nx.relabel_nodes(meta, {new: old}, copy=True)
    smaller.remove_edges_from([(old, old)])
    return smaller if nx.is_directed_acyclic_graph(smaller) else None


def _fresh(name: str, taken: set[str]) -> str:
    number = 2
    while f"{name}~{number}" in taken:
        number += 1
    taken.add(f"{name}~{number}")
    return f"{name}~{number}"


def _rename(graph: Dataflow, names: Mapping[str, str]) -> Dataflow:
    return replace(
        graph,
        vertices={names[v.name]: replace(v, name=names[v.name]) for v in graph.vertices.values()},
        special_routes={
            (names[sender], stage): tuple(
                replace(route, to=tuple(names[t] for t in route.to)) for route in routes
            )
            for (sender, stage), routes in graph.special_routes.items()
        },
    )
