"""Small dataflows for tests."""

from __future__ import annotations

from typing import Any

from laxity.core.jobs import Job, Stage
from laxity.core.windows import Window
from laxity.sim import Cluster, Dataflow, SourceSpec, StageCost

ONE_WORKER = Cluster(nodes=1, workers=1, dispatch=0.0, switch=0.0, network_delay=0.0)


def chain(
    name: str = "job",
    *,
    target: float = 1.0,
    sources: int = 2,
    cost: float = 0.001,
    noise: float = 0.0,
    window: float | None = 1.0,
    **source: Any,
) -> Dataflow:
    """Sources, then a windowed (or regular) sum of one operator."""
    spec = SourceSpec(**({"interval": 0.25, "delay": 0.0, "jitter": 0.0} | source))
    last = Stage("sum", 1, Window.tumbling(window) if window else None)
    stages = [Stage("scan", sources), last]
    costs = {stage.name: StageCost(fixed=cost, noise=noise) for stage in stages}
    return Dataflow(Job.of(name, target, stages), costs, {"scan": (spec,) * sources})
