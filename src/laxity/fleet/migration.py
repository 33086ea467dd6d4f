"""One move of a query (Neptune's figure 6, on a micro-batch engine's terms).

    prepare   the target imports, checks and warms up; the source runs on
    stop      the source finishes its batch, stops and releases the lease
    start     the target compares offsets and commits and resumes from the same checkpoint
    done      the source forgets it

Up to `stop` nothing has happened to the query, so any trouble ends the move there. From then on
the query must come up somewhere: on the target, else on the source again, else elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from laxity.fleet.checkpoint import Progress


class Step(StrEnum):
    PREPARE = "prepare"
    STOP = "stop"
    START = "start"
    DONE = "done"
    ENDED = "ended"
    """Given up; `why` says why, and the query stays or goes back."""


@dataclass
class Migration:
    query: str
    source: str
    target: str
    number: int
    """Order under which the target will run it."""
    by: str
    """user, drain or fleet."""
    began: float
    step: Step = Step.PREPARE
    why: str = ""
    stopped: Progress | None = None
    stopped_at: float | None = None
    started_at: float | None = None
    ended: float | None = None
    step_began: float = 0.0
    first_batch_at: float | None = None

    @property
    def pause(self) -> float | None:
        """From the end of its last batch on the source until it runs on the target."""
        if self.stopped_at is None or self.started_at is None:
            return None
        return max(0.0, self.started_at - self.stopped_at)

    @property
    def gap(self) -> float | None:
        """Until the first batch on the target is committed, where that is known."""
        if self.stopped_at is None or self.first_batch_at is None:
            return None
        return max(0.0, self.first_batch_at - self.stopped_at)

    def to_wire(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "source": self.source,
            "target": self.target,
            "number": self.number,
            "by": self.by,
            "began": self.began,
            "step": self.step.value,
            "why": self.why,
            "stopped": None
            if self.stopped is None
            else [self.stopped.offsets, self.stopped.commits],
            "stopped_at": self.stopped_at,
            "started_at": self.started_at,
            "first_batch_at": self.first_batch_at,
            "ended": self.ended,
            "pause": self.pause,
            "gap": self.gap,
        }

    @classmethod
    def from_wire(cls, data: dict[str, Any]) -> Migration:
        stopped = data["stopped"]
        return cls(
            query=data["query"],
            source=data["source"],
            target=data["target"],
            number=data["number"],
            by=data["by"],
            began=data["began"],
            step=Step(data["step"]),
            why=data["why"],
            stopped=None if stopped is None else Progress(*stopped),
            stopped_at=data["stopped_at"],
            started_at=data["started_at"],
            first_batch_at=data.get("first_batch_at"),
            ended=data["ended"],
            step_began=data["began"],
        )
