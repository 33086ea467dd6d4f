"""`lx.control("name")`: change a running query between two of its batches."""

from __future__ import annotations

import getpass
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from laxity.control.controller import DataflowController
from laxity.control.errors import OperationInProgressError
from laxity.control.graph import Dataflow
from laxity.control.ledger import Entry, Ledger
from laxity.control.messages import CONTROLLER
from laxity.control.processor import ControlProcessor, SendMessage
from laxity.core.durations import parse_duration, parse_target
from laxity.plugins import load_policy
from laxity.spark.control import jvm
from laxity.spark.control.change import SETTINGS, Change
from laxity.spark.control.checkpoints import Rollback, Savepoint, Scale
from laxity.spark.control.errors import (
    BoundaryTimeoutError,
    NothingToUndoError,
    OperationFailedError,
    UnfitOperationError,
    UnknownVariableError,
)
from laxity.spark.control.files import CheckpointFiles
from laxity.spark.control.operation import QueryHost, SparkOperation
from laxity.spark.control.variables import as_sql, check_value

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from laxity.spark.query import Query
    from laxity.spark.session import Laxity

_LEASE = 30.0
"""Seconds after which a query goes on by itself, should nobody let it go."""
_LONG_LEASE = 1800.0
"""The same for operations that stop the query: it does not stand there any more."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A variable (with its default as SQL) or a function that a query's plan names."""

    name: str
    type: str
    default: str | None


class QueryControl:
    """One for each query; keeps the history of its operations."""

    def __init__(self, laxity: Laxity, name: str) -> None:
        self.laxity = laxity
        self.name = name
        self.spark = laxity._spark
        self.id: str = laxity.model(name).id
        self._turn = threading.Lock()
        self._undone: set[str] = set()
        self._batch_size = 0
        self._pace = 0.0
        ledger = Ledger(Dataflow.of(name, {"query": 1}, []))
        (vertex,) = ledger.graph.vertices
        self._host = QueryHost(self, vertex)
        self._controller = DataflowController("spark", ledger)
        self._processor = ControlProcessor(self._host)

    # What a user calls.

    def set(self, *, by: str = "", **values: Any) -> Entry:
        """Give variables values, and functions versions, all in the same batch."""
        return self.change(by=by, variables=values)

    def change(
        self, *, by: str = "", variables: Mapping[str, Any] | None = None, **settings: Any
    ) -> Entry:
        """Variables, functions and settings (target, batch_size, pace, paused, policy, caps), all
        at the same boundary. What does not fit is refused before anything changes."""
        values, functions = self._resolve(variables or {})
        return self.run(Change(values, functions, settings), by=by)

    def pause(self, *, by: str = "") -> Entry:
        return self.change(by=by, paused=True)

    def resume(self, *, by: str = "") -> Entry:
        return self.change(by=by, paused=False)

    def scale(self, partitions: int, *, by: str = "") -> Entry:
        """Change the number of state partitions; the result tells the pause."""
        return self.run(Scale(partitions), by=by)

    def savepoint(self, path: str, *, by: str = "") -> Entry:
        """A consistent copy of the checkpoint, from which another query can start."""
        return self.run(Savepoint(str(path)), by=by)

    def rollback(
        self, batch: int, *, by: str = "", variables: Mapping[str, Any] | None = None
    ) -> Entry:
        """Go back to the end of a batch, and go on from there; `variables` then differ."""
        return self.run(Rollback(batch, *self._resolve(variables or {})), by=by)

    def replay(
        self,
        batch: int,
        writer: DataStreamWriter,
        *,
        name: str,
        path: str,
        by: str = "",
        variables: Mapping[str, Any] | None = None,
        **start: Any,
    ) -> Query:
        """Start `writer`, the same query into another sink, from the end of a batch, beside this
        one: from a copy of the checkpoint at `path`. `start` are options of `lx.start`."""
        values, functions = self._resolve(variables or {})
        self.laxity.check_free(name)
        self.run(Savepoint(str(path), batch, values, functions), by=by)
        return self.laxity.start(writer.option("checkpointLocation", str(path)), name=name, **start)

    def undo(self, *, by: str = "") -> Entry:
        """Take back the last change that has not been taken back yet."""
        for entry in reversed(self.history()):
            if entry.name == Change.name and entry.id not in self._undone and _worked(entry):
                done = self.run(Change(**entry.result["before"]), by=by)
                self._undone |= {entry.id, done.id}
                return done
        raise NothingToUndoError(f"no change of query {self.name!r} is left to undo")

    def history(self) -> tuple[Entry, ...]:
        """Who changed what, when, and before which batch (`entry.result["batch"]`)."""
        return self._controller.ledger.history()

    def variables(self) -> dict[str, str]:
        """The variables and functions of the query, as they are, in SQL."""
        found = {m.name: m.default or "(first version)" for m in self._markers().values()}
        return found | {name: str(value) for name, value in self._chosen().items()}

    def run(
        self,
        operation: SparkOperation,
        *,
        by: str = "",
        timeout: float = 60.0,
        queue: bool = False,
    ) -> Entry:
        """Run an operation at the next boundary. Returns when the query has gone on."""
        if not self._turn.acquire(blocking=queue):
            raise OperationInProgressError(
                f"an operation is in progress on query {self.name!r}; wait for it, or pass "
                f"queue=True"
            )
        try:
            self._check_controllable()
            operation.check(self)
            return self._at_boundary(operation, by or getpass.getuser(), timeout)
        finally:
            self._turn.release()

    # The barrier.

    def _at_boundary(self, operation: SparkOperation, by: str, timeout: float) -> Entry:
        place = jvm.static(self.spark, "Boundary", "of", self.id)
        place.block(timeout + _LEASE)
        paused = self.laxity.model(self.id).paused
        if paused:  # it stands at the gate: behind the raised barrier it can be let through
            self.laxity._set_paused(self.id, False)
        try:
            batch = self._await(place, timeout)
            if paused:
                self.laxity.model(self.id).paused = True
            place.renew(_LONG_LEASE if operation.restarts else _LEASE)
            entry = self._deliver(operation, by, batch)
        except BaseException:
            if paused:
                self.laxity._set_paused(self.id, True)
            place.lower()
            raise
        self.laxity._tick(self.laxity.now())  # the gate learns of it before the query gets there
        in_time = bool(place.lower())
        failure, self._host.failure = self._host.failure, None
        if failure is not None:
            raise OperationFailedError(
                f"{operation.name} broke off on query {self.name!r}: {failure}"
            ) from failure
        if not in_time:
            raise BoundaryTimeoutError(
                f"{operation.name} took longer than {_LEASE:.0f} s; query {self.name!r} had gone on"
            )
        return entry

    def _await(self, place: Any, timeout: float) -> int:
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            batch = int(place.standing(200))
            if batch >= 0:
                return batch
            if not self.streaming_query.isActive:
                raise UnfitOperationError(f"query {self.name!r} has ended")
        raise BoundaryTimeoutError(
            f"query {self.name!r} did not finish its batch within {timeout:.0f} s; nothing was "
            f"changed. Try again with a longer timeout"
        )

    def _deliver(self, operation: SparkOperation, by: str, batch: int) -> Entry:
        now = self.laxity.now
        self._host.batch = batch
        submitted = self._controller.submit(operation, now(), by=by)
        assert submitted.entry is not None
        effects: list[Any] = list(submitted.effects)
        while effects:
            effect = effects.pop(0)
            if isinstance(effect, SendMessage):
                if effect.message.destination == CONTROLLER:
                    effects += self._controller.receive(effect.message, now())
                else:
                    effects += self._processor.receive(effect.message)
        return self._controller.ledger.entry(submitted.entry.id)

    def _check_controllable(self) -> None:
        model = self.laxity.model(self.id)
        if model.unmanaged:
            raise UnfitOperationError(
                f"query {self.name!r} has a {model.unmanaged}, which has no boundary to stop at; "
                f"only processing-time triggers have"
            )
        if not self.streaming_query.isActive:
            raise UnfitOperationError(f"query {self.name!r} has ended")

    # For operations.

    @property
    def streaming_query(self) -> Any:
        return self.laxity.streaming_query(self.name, self.id)

    @property
    def execution(self) -> Any:
        found = self.laxity._bridge.execution(self.id)
        if found is None:
            raise UnfitOperationError(f"query {self.name!r} has ended")
        return found

    @property
    def checkpoint(self) -> str:
        return str(self.execution.resolvedCheckpointRoot())

    def partitions(self) -> int | None:
        operators = (self.streaming_query.lastProgress or {}).get("stateOperators") or []
        return operators[0]["numShufflePartitions"] if operators else None

    def check_restartable(self) -> None:
        if not self.laxity.can_restart(self.name):
            raise UnfitOperationError(
                f"query {self.name!r} was not started with lx.start(), so Laxity cannot start it "
                f"again"
            )

    def restart_after(self, act: Callable[[CheckpointFiles], None]) -> None:
        """Stop the query, change its checkpoint, start it again, whatever became of the change."""
        files, paused = self.files, self.laxity.model(self.id).paused
        with self.laxity.restarting(self.name):
            self.streaming_query.stop()
            try:
                act(files)
            finally:
                self.laxity.restart(self.name)
                self.laxity.model(self.id).paused = paused

    @property
    def stateful(self) -> bool:
        return self.partitions() is not None

    @property
    def sink(self) -> str:
        """The class of its sink."""
        return str(self.execution.sink().getClass().getSimpleName())

    @property
    def files(self) -> CheckpointFiles:
        return self.files_at(self.checkpoint)

    def files_at(self, path: str) -> CheckpointFiles:
        return CheckpointFiles(self.spark, path)

    def setting(self, name: str) -> Any:
        model, controller = self.laxity.model(self.id), self.laxity._controller
        return {
            "target": model.target,
            "batch_size": self._batch_size,
            "pace": self._pace,
            "paused": model.paused,
            "policy": controller.policy.name,
            "caps": dict(controller.caps),
        }[name]

    def apply_setting(self, name: str, value: Any) -> None:
        model, controller = self.laxity.model(self.id), self.laxity._controller
        place = jvm.static(self.spark, "Boundary", "of", self.id)
        assert name in SETTINGS
        if name == "target":
            model.target = None if value is None else parse_target(value)
        elif name == "paused":
            model.paused = bool(value)
        elif name == "policy":
            controller.policy = load_policy(value)
        elif name == "caps":
            controller.caps = dict(value)
        elif name == "pace":
            self._pace = parse_duration(value)
            place.setPace(self._pace)
        else:
            self._batch_size = value
            place.setLimit(value)

    def chosen(self, names: Iterable[str]) -> dict[str, str | None]:
        now = self._chosen()
        return {name: now.get(name) for name in names}

    def choose(
        self,
        values: Mapping[str, str | None],
        functions: Mapping[str, str | None],
        batch: int,
    ) -> None:
        changes: dict[str, Any] = dict(functions)
        for name, sql in values.items():
            frame = None if sql is None else self.spark.range(1).selectExpr(f"{sql} AS value")
            changes[name] = None if frame is None else jvm.expression(self.spark, frame)
        jvm.choose(self.spark, self.execution, changes)
        jvm.static(self.spark, "Variables", "save", self.execution, batch)

    # Names and types.

    def _markers(self) -> dict[str, Marker]:
        text = str(jvm.static(self.spark, "Variables", "describe", self.execution))
        rows = (_fields(line) for line in text.splitlines())
        return {r["name"]: Marker(r["name"], r["type"], r.get("sql")) for r in rows}

    def _chosen(self) -> dict[str, str]:
        text = str(jvm.static(self.spark, "Variables", "current", self.execution))
        rows = (_fields(line) for line in text.splitlines())
        return {row["name"]: row.get("sql", row.get("label", "")) for row in rows}

    def _resolve(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        if not given:
            return {}, {}
        self._check_controllable()
        markers = self._markers()
        values: dict[str, Any] = {}
        functions: dict[str, Any] = {}
        for name, value in given.items():
            marker = markers.get(name)
            if marker is None:
                known = ", ".join(markers) or "none"
                raise UnknownVariableError(
                    f"query {self.name!r} has no variable {name!r}; it has: {known}"
                )
            if marker.default is None:
                functions[name] = value
            else:
                check_value(name, value, marker.type)
                values[name] = as_sql(self.spark, value, marker.type)
        return values, functions


def _fields(line: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in line.split("\t")[1:])
    return {key: unquote_plus(value) for key, _, value in pairs}


def _worked(entry: Entry) -> bool:
    return bool(entry.result) and "before" in entry.result
