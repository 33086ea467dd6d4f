"""What agents and the orchestrator tell each other, as JSON over HTTP.

An agent reports what it *observes*; the orchestrator answers with what it *wants*, all of it, each
time. Nothing depends on a message having arrived: one that is lost is said again with the next.
A query that is not mentioned is left as it is, so an orchestrator that has forgotten everything
stops nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

PREFIX = "/v1"


class Want(StrEnum):
    PREPARE = "prepare"
    RUN = "run"
    STOP = "stop"
    """Finish the batch, stop, release the lease; stay ready to run again."""
    DROP = "drop"
    """As stop, and forget it."""


class Phase(StrEnum):
    PREPARING = "preparing"
    PREPARED = "prepared"
    REFUSED = "refused"
    WAITING = "waiting"
    """It should run, but its lease is held or the checkpoint store is away."""
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    """It ended by itself and will be tried again."""
    FENCED = "fenced"
    """Another application runs it by now; only a newer order brings it back here."""


class _Wire:
    def to_wire(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload,no-any-return]  # dataclasses only

    @classmethod
    def from_wire(cls, data: dict[str, Any]) -> Self:
        """Unknown fields are left out: a newer peer may say more."""
        known = {f.name for f in fields(cls)}  # type: ignore[arg-type]
        return cls(**{k: v for k, v in data.items() if k in known})


@dataclass(frozen=True, slots=True)
class Order(_Wire):
    """What one agent should do with one query."""

    query: str
    want: Want
    number: int
    """Grows with every decision about where the query lives; the newest wins."""
    pipeline: str
    digest: str
    expect_token: str | None = None
    """The lease the checkpoint must hold if it is the same folder; None before the first run."""
    expect_offsets: int = -1
    expect_commits: int = -1

    @classmethod
    def from_wire(cls, data: dict[str, Any]) -> Self:
        known = {f.name for f in fields(cls)}
        kept = {k: v for k, v in data.items() if k in known}
        kept["want"] = Want(kept["want"])
        return cls(**kept)


@dataclass(frozen=True, slots=True)
class Observation(_Wire):
    """What one agent sees of one query."""

    query: str
    phase: Phase
    number: int
    """Of the order it follows."""
    pipeline: str
    digest: str
    reason: str = ""
    epoch: int = 0
    token: str | None = None
    holder: str | None = None
    """Who holds the lease instead, if that is what it waits for."""
    newest_order: int = 0
    """Where the checkpoint has seen a newer order than this."""
    checkpoint: str = ""
    offsets: int = -1
    commits: int = -1
    stopped_at: float | None = None
    """When its last batch here ended, by the agent's wall clock."""
    started_at: float | None = None
    first_batch_at: float | None = None
    restarts: int = 0
    measures: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_wire(cls, data: dict[str, Any]) -> Self:
        known = {f.name for f in fields(cls)}
        kept = {k: v for k, v in data.items() if k in known}
        kept["phase"] = Phase(kept["phase"])
        return cls(**kept)


@dataclass(frozen=True, slots=True)
class Report(_Wire):
    """All an agent has to say."""

    node: str
    incarnation: str
    """Made anew when the agent starts: tells a restart from a silence."""
    seen: int
    """Version of the orders it follows; the orchestrator answers at once when it has newer."""
    queries: tuple[Observation, ...]
    engine: str = ""
    version: str = ""
    cores: int = 1
    host: dict[str, Any] = field(default_factory=dict)
    load: dict[str, Any] = field(default_factory=dict)
    """Rings, and a request to move where there is one."""
    leaving: bool = False

    @classmethod
    def from_wire(cls, data: dict[str, Any]) -> Self:
        known = {f.name for f in fields(cls)}
        kept = {k: v for k, v in data.items() if k in known}
        kept["queries"] = tuple(Observation.from_wire(q) for q in data.get("queries", ()))
        return cls(**kept)


@dataclass(frozen=True, slots=True)
class Reply(_Wire):
    term: int
    """Of the orchestrator's rule; agents do not listen to an older one than they have heard."""
    version: int
    orders: tuple[Order, ...]
    rejections: dict[str, float] = field(default_factory=dict)
    """Queries that asked to move and were refused, and when that was."""

    @classmethod
    def from_wire(cls, data: dict[str, Any]) -> Self:
        orders = tuple(Order.from_wire(o) for o in data.get("orders", ()))
        rejections = dict(data.get("rejections", {}))
        return cls(int(data["term"]), int(data["version"]), orders, rejections)
