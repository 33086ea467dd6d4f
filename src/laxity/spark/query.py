"""A streaming query with a target: everything PySpark's has, and what Laxity knows of it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from laxity.core.durations import Duration, format_duration
from laxity.spark.batches import Phase, names
from laxity.spark.latency import LatencySummary, Result

if TYPE_CHECKING:
    from laxity.spark.session import Laxity


class Query:
    """What `lx.start` returns. Attributes it has not are PySpark's `StreamingQuery`'s."""

    def __init__(self, laxity: Laxity, name: str, query_id: str, streaming_query: Any) -> None:
        self._laxity = laxity
        self._name = name
        self._id = query_id
        self._query = streaming_query

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._query, attribute)

    def __repr__(self) -> str:
        return f"<laxity query {self._name!r}: {self.latency()}>"

    @property
    def streaming_query(self) -> Any:
        """PySpark's own object."""
        return self._query

    @property
    def target(self) -> float | None:
        return self._laxity.model(self._id).target

    def set_target(self, target: Duration | None) -> None:
        self._laxity.set_target(self._id, target)

    def pause(self) -> None:
        self._laxity.pause(self._id)

    def resume(self) -> None:
        self._laxity.resume(self._id)

    def plan(self) -> str:
        return self._laxity.plan(self._id)

    def latency(self) -> LatencySummary:
        """Percentiles and the share of targets met, over the sliding period."""
        model = self._laxity.model(self._id)
        return model.log.summary(self._laxity.now(), model.target, model.progress.error())

    def results(self) -> list[Result]:
        """The results of the sliding period, oldest first."""
        return self._laxity.model(self._id).log.recent(self._laxity.now())

    def explain(self) -> str:
        """Why missed results were missed: where their time went, and behind whom."""
        model = self._laxity.model(self._id)
        results = self.results()
        return explain_misses(model.name, results, self._laxity.names(), model.target)


def explain_misses(
    name: str, results: list[Result], known: dict[str, str], target: float | None
) -> str:
    if target is None:
        return f"{name} has no target: nothing can be missed. Set one with set_target()."
    if not results:
        return f"{name} has emitted no results lately: nothing was missed."
    missed = [r for r in results if not r.met]
    if not missed:
        count = "its only result" if len(results) == 1 else f"all {len(results)} results"
        return f"{name} met its target of {format_duration(target)} in {count}."
    phases: dict[Phase, float] = defaultdict(float)
    behind: dict[str, float] = defaultdict(float)
    for result in missed:
        for phase, seconds in result.phases.items():
            phases[phase] += seconds / len(missed)
        for who, seconds in result.behind.items():
            behind[who] += seconds / len(missed)
    late = sum(r.latency for r in missed) / len(missed)
    count = f"{len(missed)} of {len(results)} results"
    wanted = format_duration(missed[-1].target or target)  # the one that held then
    took = format_duration(late)
    lines = [f"{name} missed its target of {wanted} in {count}; those took {took} on average:"]
    for phase in sorted(phases, key=lambda p: -phases[p]):
        if phases[phase] < 0.001:
            continue
        line = f"  {format_duration(phases[phase]):>7}  {phase.value}"
        if phase is Phase.WAITING and behind:
            blame = names(behind, known)
            worst = sorted(blame, key=lambda w: -blame[w])[:3]
            line += " behind " + ", ".join(f"{w} ({format_duration(blame[w])})" for w in worst)
        lines.append(line)
    return "\n".join(lines)
