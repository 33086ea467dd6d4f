"""Repair skew in a join (figure 5a): helpers share the load of one overloaded operator."""

from __future__ import annotations

from dataclasses import dataclass, replace

from laxity.control.contexts import ControllerContext
from laxity.control.draft import Draft
from laxity.control.errors import InvalidOperationError
from laxity.control.graph import Dataflow, Route
from laxity.control.instructions import Instruction, MergeState, SpreadState
from laxity.control.keys import EVERY_KEY, NO_KEY, KeyRange
from laxity.control.operations.reconfigure import Reconfiguration
from laxity.control.transition import Transition


@dataclass(frozen=True)
class RepairSkew(Reconfiguration):
    """The heavy input's tuples for the hot operator's keys go each to one of {hot, helpers}; the
    light input's go to all of them. The hot operator spreads its tables in the same way: rows of
    the heavy input are dealt out, rows of the light one copied. Every pair still meets once."""

    hot: str
    """The overloaded operator."""

    helpers: int
    heavy: str
    """The stage whose load is shared; also the name of its table in the state."""

    light: str
    """The stage whose tuples are copied; also the name of its table."""

    keys: list[list[int]] | None = None
    """Only these positions of the hot operator's, where a few keys are to blame."""

    name = "repair-skew"

    def _check(self, graph: Dataflow) -> KeyRange:
        hot = graph.vertex(self.hot)
        if self.helpers < 1:
            raise InvalidOperationError(f"skew needs at least one helper, not {self.helpers}")
        for side in (self.heavy, self.light):
            if (side, hot.stage) not in graph.links:
                raise InvalidOperationError(
                    f"{side!r} does not feed {hot.stage!r}, as a join's side"
                )
        if self.heavy == self.light:
            raise InvalidOperationError("the heavy and the light side of a join must differ")
        if any(stage == hot.stage for _, stage in graph.special_routes):
            raise InvalidOperationError(f"the skew of {hot.stage!r} has been repaired already")
        wanted = KeyRange(tuple((a, b) for a, b in self.keys)) if self.keys else EVERY_KEY
        if not (shared := hot.keys & wanted):
            raise InvalidOperationError(f"{self.hot!r} does not own the keys that are to be shared")
        return shared

    def _helpers(self, graph: Dataflow) -> list[str]:
        return graph.fresh_names(graph.vertex(self.hot).stage, self.helpers)[0]

    def target(self, graph: Dataflow) -> Dataflow:
        shared = self._check(graph)
        hot = graph.vertex(self.hot)
        helpers = self._helpers(graph)
        among = (self.hot, *helpers)
        members = graph.stage(hot.stage)
        special = dict(graph.special_routes)
        for side in {source for source, stage in graph.links if stage == hot.stage}:
            to_all = side == self.light
            for sender in graph.stages[side]:
                usual = [Route(v.keys - shared, (v.name,)) for v in members]
                special[sender, hot.stage] = (
                    *(route for route in usual if route.keys),
                    Route(shared, among, to_all),
                )
        added = {
            name: replace(hot, name=name, keys=NO_KEY)  # routed to, but the owner stays
            for name in helpers
        }
        serial = graph.fresh_names(hot.stage, self.helpers)[1]
        vertices = {**graph.vertices, **added}
        return replace(graph, vertices=vertices, special_routes=special, serial=serial)

    def on_init_at_controller(self, ctx: ControllerContext) -> Draft:
        after = self.target(ctx.graph)
        depends = {v: frozenset({v}) for v in ctx.graph.vertices}
        depends |= {name: frozenset({self.hot}) for name in self._helpers(ctx.graph)}
        transition = ctx.transition(after, depends)
        draft = ctx.draft(transition)
        for vertex in transition.vertices:
            draft.configure(vertex, *self.instructions(transition, vertex))
        return draft

    def instructions(self, transition: Transition, vertex: str) -> list[Instruction]:
        among = (self.hot, *self._helpers(transition.before))
        shared = self._check(transition.before)
        found: list[Instruction] = []
        if vertex == self.hot:
            found.append(SpreadState(self.heavy, shared, among))
            found.append(SpreadState(self.light, shared, among, to_all=True))
        elif vertex in among:
            found.append(MergeState(shared))
        usual = super().instructions(transition, vertex)
        return found + [i for i in usual if not _moves(i)]


def _moves(instruction: Instruction) -> bool:
    return type(instruction).__name__ in {"SplitState", "MergeState"}
