"""The one order of all operations on a dataflow, whoever sends them; kept in a durable store.

All controllers of a dataflow share its ledger. It gives out order numbers, refuses a second
exclusive operation, and remembers every plan, so that an operation is never sent in two versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

from laxity.control.draft import Plan
from laxity.control.errors import (
    InvalidOperationError,
    NoCheckpointError,
    OperationInProgressError,
)
from laxity.control.graph import Dataflow, Document
from laxity.control.operation import ControlOperation
from laxity.control.store import MemoryStore, Store


class Status(Enum):
    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Entry:
    """One operation in the history of a dataflow: who changed what, when, and what came of it."""

    id: str
    order: int
    """Changes when the operation is inserted again after a rollback."""

    attempt: int
    controller: str
    by: str
    name: str
    arguments: Mapping[str, Any]
    exclusive: bool
    status: Status
    started_at: float
    ended_at: float | None = None
    result: Any = None
    changes: bool = False
    """Whether it does anything that a rollback undoes."""

    def as_document(self) -> Document:
        return {**asdict(self), "status": self.status.value}

    @classmethod
    def from_document(cls, document: Document) -> Entry:
        return cls(**{**document, "status": Status(document["status"])})


@dataclass(frozen=True)
class SavedCheckpoint:
    """A consistent copy of a whole dataflow."""

    order: int
    graph: Dataflow
    snapshots: Mapping[str, Any]
    at: float


@dataclass(frozen=True)
class Rollback:
    """What the engine must do: start this graph from these snapshots. The controllers insert the
    lost operations again by themselves (`DataflowController.recover`)."""

    checkpoint: SavedCheckpoint
    epoch: int
    next_order: int
    lost: tuple[Entry, ...]


class Ledger:
    """Every method is one transaction on the store."""

    def __init__(self, graph: Dataflow, store: Store | None = None) -> None:
        """Of a dataflow that starts as `graph`, or has been changed since: then the store knows."""
        self.dataflow = graph.name
        self._store: Store = store if store is not None else MemoryStore()
        with self._store.transaction():
            if self._store.get("heads", self.dataflow) is None:
                self._set_head(
                    {
                        "next_order": 1,
                        "count": 0,
                        "epoch": 0,
                        "running": [],
                        "exclusive": None,
                        "checkpoint": 0,
                        "graph": graph.as_document(),
                    }
                )
                self._put_checkpoint(SavedCheckpoint(0, graph, {}, 0.0))

    @property
    def graph(self) -> Dataflow:
        """The dataflow as it is once all operations sent so far have completed."""
        return Dataflow.from_document(self._head()["graph"])

    @property
    def epoch(self) -> int:
        return int(self._head()["epoch"])

    @property
    def next_order(self) -> int:
        return int(self._head()["next_order"])

    def settled_before(self) -> int:
        head = self._head()
        orders = [self.entry(operation).order for operation in head["running"]]
        return min(orders, default=head["next_order"])

    def exclusive_running(self) -> str | None:
        """The exclusive operation in progress, if one is."""
        return self._head()["exclusive"]  # type: ignore[no-any-return]

    def admit(
        self, controller: str, operation: ControlOperation, plan: Plan, now: float, by: str = ""
    ) -> Entry:
        """Give an operation its place in the order."""
        with self._store.transaction():
            head = self._head()
            if operation.exclusive and head["exclusive"] is not None:
                running = self.entry(head["exclusive"])
                raise OperationInProgressError(
                    f"{running.name!r} ({running.id}) is in progress on {self.dataflow!r}; wait "
                    f"for it, or submit with queue=True"
                )
            if plan.before != Dataflow.from_document(head["graph"]):
                raise InvalidOperationError(
                    f"{self.dataflow!r} has changed since {operation.name!r} was planned; plan anew"
                )
            head["count"] += 1
            changes = plan.before != plan.after or any(
                c.instructions for c in plan.configurations.values()
            )
            entry = Entry(
                f"{self.dataflow}#{head['count']}",
                head["next_order"],
                1,
                controller,
                by or controller,
                operation.name,
                operation.arguments(),
                operation.exclusive,
                Status.RUNNING,
                now,
                changes=changes,
            )
            head["next_order"] += 1
            head["running"].append(entry.id)
            head["graph"] = plan.after.as_document()
            if entry.exclusive:
                head["exclusive"] = entry.id
            self._set_head(head)
            self._put(entry)
            self._store.put("plans", entry.id, plan.as_document())
        return entry

    def restart(self, operation: str) -> Entry:
        """One more attempt."""
        with self._store.transaction():
            entry = self.entry(operation)
            entry = replace(entry, attempt=entry.attempt + 1)
            self._put(entry)
        return entry

    def complete(
        self, operation: str, now: float, result: Any, snapshots: Mapping[str, Any] | None = None
    ) -> Entry:
        with self._store.transaction():
            head = self._head()
            entry = self.entry(operation)
            entry = replace(entry, status=Status.COMPLETED, ended_at=now, result=result)
            self._put(entry)
            head["running"].remove(operation)
            if head["exclusive"] == operation:
                head["exclusive"] = None
            if snapshots is not None:
                graph = self.plan(operation).after
                self._put_checkpoint(SavedCheckpoint(entry.order, graph, snapshots, now))
                head["checkpoint"] = entry.order
            self._set_head(head)
        return entry

    def cancel(self, operation: str, now: float) -> Entry:
        """Give up an operation that is under way and changes nothing."""
        with self._store.transaction():
            head = self._head()
            entry = self.entry(operation)
            if entry.status is not Status.RUNNING:
                raise InvalidOperationError(f"{operation} is {entry.status.value} already")
            if entry.changes:
                raise InvalidOperationError(
                    f"{operation} ({entry.name!r}) changes operators, and some may have changed "
                    f"already; roll back to a checkpoint instead"
                )
            entry = replace(entry, status=Status.CANCELLED, ended_at=now)
            self._put(entry)
            head["running"].remove(operation)
            if head["exclusive"] == operation:
                head["exclusive"] = None
            self._set_head(head)
        return entry

    def entry(self, operation: str) -> Entry:
        document = self._store.get("operations", self._key(operation))
        if document is None:
            raise InvalidOperationError(f"{self.dataflow!r} has had no operation {operation!r}")
        return Entry.from_document(document)

    def plan(self, operation: str) -> Plan:
        return Plan.from_document(self._store.get("plans", operation) or {})

    def running(self) -> tuple[Entry, ...]:
        found = [self.entry(operation) for operation in self._head()["running"]]
        return tuple(sorted(found, key=lambda entry: entry.order))

    def history(self) -> tuple[Entry, ...]:
        rows = self._store.items("operations", f"{self.dataflow}#")
        return tuple(Entry.from_document(document) for _, document in rows)

    def checkpoint(self, order: int | None = None) -> SavedCheckpoint:
        """The last one, or that of a given order; order 0 is the beginning."""
        wanted = self._head()["checkpoint"] if order is None else order
        document = self._store.get("checkpoints", f"{self.dataflow}#{wanted:012d}")
        if document is None:
            raise NoCheckpointError(
                f"{self.dataflow!r} has no checkpoint {wanted}; it has "
                f"{', '.join(str(c) for c in self.checkpoints())}"
            )
        graph = Dataflow.from_document(document["graph"])
        return SavedCheckpoint(wanted, graph, document["snapshots"], document["at"])

    def checkpoints(self) -> tuple[int, ...]:
        rows = self._store.items("checkpoints", f"{self.dataflow}#")
        return tuple(int(key.rpartition("#")[2]) for key, _ in rows)

    def queue(self, controller: str) -> list[Document]:
        """Operations that wait until no exclusive one is in progress."""
        return self._store.get("queues", f"{self.dataflow}#{controller}") or []

    def set_queue(self, controller: str, waiting: list[Document]) -> None:
        with self._store.transaction():
            self._store.put("queues", f"{self.dataflow}#{controller}", waiting)

    def roll_back(self) -> Rollback:
        """Back to the last checkpoint. What was under way, and what has changed the dataflow
        since, is lost there: it runs again, in the same order and with the same plans."""
        with self._store.transaction():
            head = self._head()
            saved = self.checkpoint()
            head["epoch"] += 1
            first = head["next_order"]
            again = self._lost(saved.order, head["running"])
            for entry in self.running():
                if entry.order < saved.order:
                    # The checkpoint's barrier came behind it everywhere: all of it is in the
                    # snapshots, only its reports had not been heard.
                    self._put(replace(entry, status=Status.COMPLETED, ended_at=saved.at))
            lost = []
            for entry in again:
                lost.append(
                    replace(
                        entry,
                        order=head["next_order"],
                        attempt=entry.attempt + 1,
                        status=Status.RUNNING,
                        ended_at=None,
                    )
                )
                head["next_order"] += 1
                self._put(lost[-1])
            head["running"] = [entry.id for entry in lost]
            exclusive = [entry.id for entry in lost if entry.exclusive]
            head["exclusive"] = exclusive[-1] if exclusive else None
            self._set_head(head)
        return Rollback(saved, head["epoch"], first, tuple(lost))

    def _lost(self, since: int, running: Iterable[str]) -> list[Entry]:
        under_way = set(running)
        found = [
            entry
            for entry in self.history()
            if entry.order > since and (entry.changes or entry.id in under_way)
        ]
        return sorted(found, key=lambda entry: entry.order)

    def _head(self) -> Document:
        document: Document = self._store.get("heads", self.dataflow) or {}
        return document

    def _set_head(self, head: Document) -> None:
        self._store.put("heads", self.dataflow, head)

    def _key(self, operation: str) -> str:
        dataflow, _, number = operation.rpartition("#")
        return f"{dataflow}#{int(number) if number.isdigit() else 0:012d}"

    def _put(self, entry: Entry) -> None:
        self._store.put("operations", self._key(entry.id), entry.as_document())

    def _put_checkpoint(self, saved: SavedCheckpoint) -> None:
        self._store.put(
            "checkpoints",
            f"{self.dataflow}#{saved.order:012d}",
            {
                "graph": saved.graph.as_document(),
                "snapshots": dict(saved.snapshots),
                "at": saved.at,
            },
        )
