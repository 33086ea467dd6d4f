"""Scheduling contexts: what travels with messages so that the scheduler needs no state (§5.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from laxity.core.jobs import OperatorId
from laxity.core.rules import MINIMUM_PRIORITY


class PriorityContext(NamedTuple):
    """The paper's PC: (ID, PRI_local, PRI_global) and the fields our policies define.

    `progress` and `time` are p_MF and t_MF once converted; `token` is the tag of token fair
    sharing, inherited by everything downstream.
    """

    id: int
    local: float
    priority: float
    progress: float
    time: float
    target: float
    token: float = MINIMUM_PRIORITY


@dataclass(frozen=True, slots=True)
class ReplyContext:
    """The paper's RC: what a downstream operator reports back to the one that sent to it.

    `cost` is C_m, the cost of a message at the operator that replies; `path_cost` is C_path,
    the critical path behind it. `queueing` (seconds the message waited) and `pending` (messages
    still waiting there) are what the scheduler adds on the way (§5.2).
    """

    cost: float = 0.0
    path_cost: float = 0.0
    queueing: float = 0.0
    pending: int = 0


class Arrived(Protocol):
    """What a converter reads of an event; `SourceEvent` says what the fields mean. A back end
    whose own messages have them need not copy them into one."""

    @property
    def progress(self) -> float: ...
    @property
    def arrival(self) -> float: ...
    @property
    def since(self) -> float: ...


class SourceEvent(NamedTuple):
    """Input as a source operator sees it: e with its logical time p_e and arrival t_e.

    `since` is the progress the source had reached before; the event contributes to no window
    that was complete by then. NaN where the source has no logical time.
    """

    progress: float
    arrival: float
    since: float = math.nan


class Message(NamedTuple):
    """(o_M, (p_M, t_M)) with its context.

    `progress` p_M and `arrival` t_M are those of the last event that influenced the message;
    `since` is the progress seen before the first one. `sent` is when the message was given to the
    scheduler, from which its time in the queue is told.
    """

    operator: OperatorId
    progress: float
    arrival: float
    context: PriorityContext
    since: float = math.nan
    payload: object = None
    sent: float = math.nan


def latency(emitted: float, arrivals: list[float]) -> float:
    """§4.1: from the last arrival among the events that influenced a result to its emission."""
    if not arrivals:
        raise ValueError("a result that no event influenced has no latency")
    return emitted - max(arrivals)
