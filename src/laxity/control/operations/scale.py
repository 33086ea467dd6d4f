"""Scale a stage out or in: more or fewer operators, the keys shared anew by consistent hashing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from laxity.control.errors import InvalidOperationError
from laxity.control.graph import Dataflow, Vertex
from laxity.control.keys import NO_KEY, KeyRange, take_over
from laxity.control.operations.reconfigure import Reconfiguration


@dataclass(frozen=True)
class ScaleTo(Reconfiguration):
    """Out: newcomers take keys from those who are there, who give to nobody else. In: those
    named last leave, and give to those who stay. Either way state moves in one direction only,
    so old and new operators can be one and the meta-topology stays small."""

    stage: str
    operators: int
    ranges: dict[str, list[list[int]]] | None = None
    """Who shall own which positions, where consistent hashing is not wanted."""

    name = "scale"

    def target(self, graph: Dataflow) -> Dataflow:
        members = graph.stage(self.stage)
        if self.operators < 1:
            raise InvalidOperationError(
                f"stage {self.stage!r} needs at least one operator, not {self.operators}"
            )
        for sender, stage in graph.special_routes:
            if self.stage in (stage, graph.vertices[sender].stage):
                raise InvalidOperationError(
                    f"stage {self.stage!r} has routes of its own since a skew repair; its state "
                    f"is spread and cannot be cut by key"
                )
        staying = [v.name for v in members[: self.operators]]
        joining, serial = graph.fresh_names(self.stage, max(self.operators - len(staying), 0))
        if self.ranges is None:
            owners = {v.name: v.keys for v in members}
            after = take_over(owners, [*staying, *joining])
        else:
            after = {
                name: KeyRange(tuple((low, high) for low, high in intervals))
                for name, intervals in self.ranges.items()
            }
            if len(after) != self.operators:
                raise InvalidOperationError(f"{self.operators} operators need as many ranges")
        by_name = {v.name: v for v in members}
        model = Vertex("", self.stage, NO_KEY, members[0].function, members[0].parameters)
        return replace(graph, serial=serial if joining else graph.serial).with_stage(
            self.stage,
            [replace(by_name.get(n, model), name=n, keys=keys) for n, keys in after.items()],
        )
