"""What changed between two looks, as events: misses, overload, failure, recovery.

`Detector` is pure: overviews in, events out. Where they go is `sinks`.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from laxity.core.durations import format_duration
from laxity.server.views import Overview, QueryView

MISS_EVERY = 30.0
"""A query that goes on missing its target is told of once in so many seconds, with the count."""


class Kind(StrEnum):
    STARTED = "started"
    STOPPED = "stopped"
    MISSED = "missed"
    OVERLOADED = "overloaded"
    FAILED = "failed"
    RESTARTED = "restarted"
    RECOVERED = "recovered"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Event:
    number: int
    at: float
    kind: Kind
    query: str
    tenant: str
    message: str
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Known:
    view: QueryView
    missed_told: int
    """Missed results up to the last event about them."""
    results_told: int
    told_at: float = float("-inf")
    troubled: str = ""
    """The trouble it was last told to be in, until it recovers."""


class Detector:
    """Compares each overview with the one before."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._number = 0
        self._first = True

    def observe(self, now: Overview) -> list[Event]:
        found: list[Event] = []
        for query in now.queries:
            known = self._known.get(query.name)
            if known is None:
                self._known[query.name] = known = _Known(query, 0, 0)
                if query.state not in ("failed", "stopped"):
                    found.append(self._event(now.at, Kind.STARTED, query, _started(query)))
            elif query.totals.results < known.results_told or query.id != known.view.id:
                known.missed_told = known.results_told = 0  # it was started anew
            found += self._changes(now.at, known, query)
            known.view = query
        for name in self._known.keys() - {q.name for q in now.queries}:
            gone = self._known.pop(name).view
            if gone.state not in ("failed", "stopped"):
                found.append(self._event(now.at, Kind.STOPPED, gone, f"{name} has stopped"))
        return found

    def changed(self, at: float, query: str, tenant: str, message: str, **details: Any) -> Event:
        """Somebody changed something through the API."""
        self._number += 1
        return Event(self._number, at, Kind.CHANGED, query, tenant, message, details)

    def _changes(self, at: float, known: _Known, query: QueryView) -> Iterable[Event]:
        before = known.view
        if query.totals.restarts > before.totals.restarts:
            times = query.totals.restarts
            yield self._event(
                at, Kind.RESTARTED, query, f"{query.name} was started again", restarts=times
            )
        broken = query.state in ("failed", "restarting")
        if broken and known.troubled != "failed":
            known.troubled = "failed"
            yield self._event(
                at,
                Kind.FAILED,
                query,
                f"{query.name} failed: {first_line(query.error)}",
                error=first_line(query.error),
            )
        elif query.state == "failed" and before.state == "restarting":
            yield self._event(
                at,
                Kind.FAILED,
                query,
                f"{query.name} is given up: {first_line(query.error)}",
                error=first_line(query.error),
                given_up=True,
            )
        elif query.state == "stopped" and before.state not in ("stopped", "failed"):
            yield self._event(at, Kind.STOPPED, query, f"{query.name} has stopped")
        yield from self._misses(at, known, query)
        if not broken and query.overloaded and known.troubled == "":
            known.troubled = "overloaded"
            met = query.latency.met or 0.0
            yield self._event(
                at,
                Kind.OVERLOADED,
                query,
                f"{query.name} meets its target of {format_duration(query.target or 0.0)} "
                f"in {met:.0%} of its results",
                met=met,
                p99=query.latency.p99,
                behind=dict(query.behind),
            )
        working = query.state in ("running", "held", "idle")
        well_again = working and not query.overloaded and query.totals.batches > 0
        if known.troubled and well_again:
            was, known.troubled = known.troubled, ""
            yield self._event(at, Kind.RECOVERED, query, f"{query.name} has recovered", was=was)

    def _misses(self, at: float, known: _Known, query: QueryView) -> Iterable[Event]:
        totals = query.totals
        missed = totals.results - totals.met
        new = missed - known.missed_told
        if query.target is None or new <= 0 or at - known.told_at < MISS_EVERY:
            return
        of = totals.results - known.results_told
        known.missed_told, known.results_told, known.told_at = missed, totals.results, at
        yield self._event(
            at,
            Kind.MISSED,
            query,
            f"{query.name} missed its target of {format_duration(query.target)} "
            f"in {new} of {of} results",
            missed=new,
            of=of,
            target=query.target,
            p99=query.latency.p99,
            behind=dict(query.behind),
        )

    def _event(
        self, at: float, kind: Kind, query: QueryView, message: str, **details: Any
    ) -> Event:
        self._number += 1
        return Event(self._number, at, kind, query.name, query.tenant, message, details)


def _started(query: QueryView) -> str:
    if query.target is None:
        return f"{query.name} runs as best effort"
    return f"{query.name} runs with a target of {format_duration(query.target)}"


_PYTHON_ERROR = re.compile(r"(?!java\.|org\.|scala\.)[\w.]*(Error|Exception|Interrupt): ")


def first_line(text: str) -> str:
    """What a stranger may see of an error: what it says, without a trace."""
    lines = text.strip().splitlines() or ["for a reason Spark did not give"]
    # A user's function that failed is wrapped by Spark; what it said itself is the last of it.
    own = [line for line in lines if _PYTHON_ERROR.match(line)]
    line = own[-1] if own else lines[0]
    return line if len(line) <= 300 else line[:299] + "…"


class EventLog:
    """The last events, for whoever asks."""

    def __init__(self, keep: int = 1000) -> None:
        self._events: deque[Event] = deque(maxlen=keep)
        self._lock = threading.Lock()

    def add(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)

    def since(self, number: int = 0, limit: int = 100) -> list[Event]:
        """The last `limit` events after `number`, oldest first."""
        with self._lock:
            later = [e for e in self._events if e.number > number]
        return later[-limit:] if limit else []
