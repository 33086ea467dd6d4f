"""What a scheduler is told (past facts) and what it answers (imperatives).

Plain frozen data, so that a run is a list of them that can be saved, compared and replayed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from laxity.core.contexts import Message
from laxity.core.jobs import Job, OperatorId


@dataclass(frozen=True, slots=True)
class JobAdded:
    job: Job
    tokens: float | None = None
    """Tokens a second for each source, where the policy shares by tokens."""


@dataclass(frozen=True, slots=True)
class JobRemoved:
    job: str


@dataclass(frozen=True, slots=True)
class TargetChanged:
    job: str
    target: float


@dataclass(frozen=True, slots=True)
class EventsArrived:
    """A batch of input reached a source operator; see `SourceEvent` for the times. Where `since`
    is left out it is the progress this source reported last."""

    operator: OperatorId
    progress: float
    since: float = math.nan


@dataclass(frozen=True, slots=True)
class MessageCompleted:
    """A worker is done with its message. `emitted` names the operators its output goes to;
    empty if the operator was invoked but not triggered, or if it is a sink."""

    worker: int
    cost: float
    emitted: tuple[OperatorId, ...] = ()


Event = JobAdded | JobRemoved | TargetChanged | EventsArrived | MessageCompleted


@dataclass(frozen=True, slots=True)
class RunMessage:
    worker: int
    message: Message


@dataclass(frozen=True, slots=True)
class DropMessages:
    """Their job has left; handed back so that nothing vanishes silently."""

    messages: tuple[Message, ...]


Decision = RunMessage | DropMessages
