"""What an agent needs of whatever runs the queries. Spark is one (`laxity.spark.agent`); a small
file-to-file engine for tests is another (`laxity.fleet.testing`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query that could start at once."""

    query: str
    checkpoint: Path
    digest: str
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Guard:
    """The two files that say whether a commit may be made: own epoch's there, next one's not."""

    mine: Path
    next: Path


@dataclass(frozen=True, slots=True)
class RunState:
    active: bool
    error: str = ""
    first_batch_at: float | None = None
    """Wall clock at the first commit of this run."""


@dataclass(frozen=True, slots=True)
class Measures:
    """One query, over the last moments."""

    query: str
    rows_per_second: float
    seconds_per_row: float
    bytes_per_row: float
    target: float | None = None
    latency: float | None = None
    """Median, in seconds."""
    met: float | None = None
    """Share of recent results within the target."""
    results: int = 0
    batches: int = 0


class Engine(Protocol):
    """Methods may block; the agent calls them from threads of its own, one a query at a time."""

    name: str
    version: str
    cores: int

    def prepare(self, pipeline: str, digest: str, query: str) -> Prepared:
        """Import, check and warm up, while the query may run elsewhere: nothing is written.
        Raises a `LaxityError` that names the fix."""
        ...

    def start(self, query: str, guard: Guard) -> None: ...

    def stop(self, query: str, patience: float) -> float:
        """Let the batch end, for at most that long, and stop. When its last batch ended."""
        ...

    def abandon(self, query: str) -> None:
        """Stop now: the lease is gone."""
        ...

    def forget(self, query: str) -> None: ...

    def state(self, query: str) -> RunState: ...

    def measures(self) -> list[Measures]: ...

    def processes(self) -> list[int]:
        """Processes whose CPU counts as the node's own."""
        ...

    def close(self) -> None: ...


EngineFactory = Callable[[], Engine]
