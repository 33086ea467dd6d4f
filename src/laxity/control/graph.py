"""A dataflow G(V, E): operators with a state, a function and properties, and the routes between.

Edges are not kept: they follow from the routes, so a graph cannot say one thing and route another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import networkx as nx

from laxity.control.errors import InvalidDataflowError, UnknownVertexError
from laxity.control.keys import EVERY_KEY, POSITIONERS, KeyRange, Positioner, even_ranges

Document = dict[str, Any]
"""What JSON can hold: durable and sendable."""


@dataclass(frozen=True, slots=True)
class Vertex:
    """One operator: the stage it works for, the keys it owns, its function and its parameters
    (the paper's s_v, f_v and p_v; the state itself lives in the engine)."""

    name: str
    stage: str
    keys: KeyRange = EVERY_KEY
    function: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Route:
    """Tuples with these keys go to all of `to`, or each to one of them."""

    keys: KeyRange
    to: tuple[str, ...]
    to_all: bool = False


Link = tuple[str, str]
"""From one stage to another."""


@dataclass(frozen=True)
class Dataflow:
    """A validated DAG of operators. Immutable: a control operation leads to another one."""

    name: str
    vertices: Mapping[str, Vertex]
    links: tuple[Link, ...]
    special_routes: Mapping[tuple[str, str], tuple[Route, ...]] = field(default_factory=dict)
    """(operator, stage it sends to) → routes, where they are not simply "to the key's owner"."""
    positions: str = "hashed"
    serial: int = 0
    """Numbers below this have been given to operators: a name is never used twice, because its
    first bearer may still be on its way out."""

    def __post_init__(self) -> None:
        if not self.vertices:
            raise InvalidDataflowError(f"dataflow {self.name!r} has no operators")
        if self.positions not in POSITIONERS:
            raise InvalidDataflowError(
                f"keys are placed by {' or '.join(POSITIONERS)}, not by {self.positions!r}"
            )
        for name, vertex in self.vertices.items():
            if name != vertex.name or not name:
                raise InvalidDataflowError(f"operator {vertex.name!r} is filed under {name!r}")
        for link in self.links:
            for stage in link:
                if stage not in self.stages:
                    raise InvalidDataflowError(
                        f"dataflow {self.name!r} links the unknown stage {stage!r}; "
                        f"its stages are {', '.join(self.stages)}"
                    )
        stages = nx.DiGraph(self.links)
        if not nx.is_directed_acyclic_graph(stages):
            path = " → ".join(str(edge[0]) for edge in nx.find_cycle(stages))
            raise InvalidDataflowError(f"dataflow {self.name!r} has a cycle: {path}")
        for key in self.special_routes:
            self._check_routes(*key)
        for source, stage in self.links:
            if source in self.stages:
                self._check_owners(stage)

    def _check_owners(self, stage: str) -> None:
        """Default routes go to a key's owner: owners must cover the space once, unless every way
        into the stage has routes of its own."""
        senders = [v for s, t in self.links if t == stage for v in self.stages[s]]
        if all((sender, stage) in self.special_routes for sender in senders):
            return
        owned = 0
        union = KeyRange()
        for name in self.stages[stage]:
            owned += self.vertices[name].keys.width
            union = union | self.vertices[name].keys
        if union != EVERY_KEY or owned != EVERY_KEY.width:
            raise InvalidDataflowError(
                f"the operators of stage {stage!r} must own every key once: tuples would be "
                + ("lost" if union != EVERY_KEY else "processed twice")
            )

    def _check_routes(self, sender: str, stage: str) -> None:
        self.vertex(sender)
        if (self.vertices[sender].stage, stage) not in self.links:
            raise InvalidDataflowError(f"{sender!r} has routes to {stage!r}, but no link to it")
        covered = KeyRange()
        width = 0
        for route in self.special_routes[sender, stage]:
            covered, width = covered | route.keys, width + route.keys.width
            if not route.to:
                raise InvalidDataflowError(f"a route of {sender!r} to {stage!r} leads nowhere")
            for target in route.to:
                if self.vertex(target).stage != stage:
                    raise InvalidDataflowError(f"{target!r} is not an operator of {stage!r}")
        if covered != EVERY_KEY or width != EVERY_KEY.width:
            raise InvalidDataflowError(f"routes of {sender!r} to {stage!r} must cover keys once")

    @classmethod
    def of(
        cls,
        name: str,
        stages: Mapping[str, int | Sequence[Vertex]],
        links: Iterable[Link],
        *,
        functions: Mapping[str, str] | None = None,
        parameters: Mapping[str, Mapping[str, Any]] | None = None,
        positions: str = "hashed",
    ) -> Dataflow:
        """A dataflow from its stages: a number of operators each (named `stage-0`, `stage-1`, …,
        the key space cut evenly), or the operators themselves."""
        vertices: dict[str, Vertex] = {}
        for stage, members in stages.items():
            if isinstance(members, int):
                if members < 1:
                    raise InvalidDataflowError(f"stage {stage!r} needs at least one operator")
                members = [
                    Vertex(
                        f"{stage}-{i}",
                        stage,
                        keys,
                        (functions or {}).get(stage, stage),
                        dict((parameters or {}).get(stage, {})),
                    )
                    for i, keys in enumerate(even_ranges(members))
                ]
            for vertex in members:
                if vertex.name in vertices:
                    raise InvalidDataflowError(f"two operators are named {vertex.name!r}")
                vertices[vertex.name] = vertex
        return cls(name, vertices, tuple(dict.fromkeys(links)), positions=positions)

    @cached_property
    def stages(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for vertex in self.vertices.values():
            found.setdefault(vertex.stage, []).append(vertex.name)
        return {stage: tuple(names) for stage, names in found.items()}

    @cached_property
    def graph(self) -> nx.DiGraph[str]:
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(self.vertices)
        for name in self.vertices:
            for routes in self.routes(name).values():
                graph.add_edges_from((name, target) for route in routes for target in route.to)
        return graph

    @cached_property
    def sources(self) -> tuple[str, ...]:
        return tuple(v for v in self.vertices if not self.graph.in_degree(v))

    @cached_property
    def sinks(self) -> tuple[str, ...]:
        return tuple(v for v in self.vertices if not self.graph.out_degree(v))

    @property
    def position(self) -> Positioner:
        return POSITIONERS[self.positions]

    def vertex(self, name: str) -> Vertex:
        try:
            return self.vertices[name]
        except KeyError:
            raise UnknownVertexError(
                f"dataflow {self.name!r} has no operator {name!r}; "
                f"it has {', '.join(list(self.vertices)[:20])}"
            ) from None

    def stage(self, name: str) -> tuple[Vertex, ...]:
        """The operators of a stage."""
        if name not in self.stages:
            raise UnknownVertexError(
                f"dataflow {self.name!r} has no stage {name!r}; it has {', '.join(self.stages)}"
            )
        return tuple(self.vertices[v] for v in self.stages[name])

    def routes(self, name: str) -> dict[str, tuple[Route, ...]]:
        """An operator's routing table: for each stage downstream, where which keys go."""
        tables: dict[str, tuple[Route, ...]] = {}
        for source, target in self.links:
            if source != self.vertex(name).stage:
                continue
            special = self.special_routes.get((name, target))
            tables[target] = special or tuple(
                Route(vertex.keys, (vertex.name,)) for vertex in self.stage(target) if vertex.keys
            )
        return tables

    def fresh_names(self, stage: str, number: int) -> tuple[list[str], int]:
        """Names for new operators of a stage, and the serial number of the graph that has them."""
        start = max(self.serial, *(len(members) for members in self.stages.values()))
        names: list[str] = []
        while len(names) < number:
            if f"{stage}-{start}" not in self.vertices:
                names.append(f"{stage}-{start}")
            start += 1
        return names, start

    def with_stage(self, stage: str, members: Iterable[Vertex]) -> Dataflow:
        """The same dataflow with other operators in one stage."""
        kept = [v for v in self.vertices.values() if v.stage != stage]
        everyone = {v.name: v for v in (*kept, *members)}
        order = sorted(everyone.values(), key=lambda v: list(self.stages).index(v.stage))
        return replace(self, vertices={v.name: v for v in order})

    def with_parameters(self, values: Mapping[str, Mapping[str, Any]]) -> Dataflow:
        """The same dataflow with some operators' parameters changed."""
        changed = {
            name: replace(v, parameters={**v.parameters, **values[name]}) if name in values else v
            for name, v in self.vertices.items()
        }
        return replace(self, vertices=changed)

    def as_document(self) -> Document:
        return {
            "name": self.name,
            "positions": self.positions,
            "serial": self.serial,
            "vertices": [
                {
                    "name": v.name,
                    "stage": v.stage,
                    "keys": v.keys.intervals,
                    "function": v.function,
                    "parameters": dict(v.parameters),
                }
                for v in self.vertices.values()
            ],
            "links": self.links,
            "special_routes": [
                [sender, stage, [route_document(route) for route in routes]]
                for (sender, stage), routes in self.special_routes.items()
            ],
        }

    @classmethod
    def from_document(cls, document: Document) -> Dataflow:
        vertices = [
            Vertex(v["name"], v["stage"], read_range(v["keys"]), v["function"], v["parameters"])
            for v in document["vertices"]
        ]
        return cls(
            document["name"],
            {v.name: v for v in vertices},
            tuple((a, b) for a, b in document["links"]),
            {
                (sender, stage): tuple(read_route(route) for route in routes)
                for sender, stage, routes in document["special_routes"]
            },
            document["positions"],
            document["serial"],
        )


def read_range(intervals: Iterable[Sequence[int]]) -> KeyRange:
    return KeyRange(tuple((low, high) for low, high in intervals))


def route_document(route: Route) -> Document:
    return {"keys": route.keys.intervals, "to": route.to, "to_all": route.to_all}


def read_route(document: Document) -> Route:
    return Route(read_range(document["keys"]), tuple(document["to"]), document["to_all"])
