"""`lx.control("name")`: change a running query between two of its batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from laxity.control.ledger import Entry
from laxity.control.operation import operation_from
from laxity.control.tuning import TuningPhase
from laxity.core.durations import Duration, parse_duration, parse_target
from laxity.plugins import load_policy
from laxity.spark.control import jvm
from laxity.spark.control.barrier import Barrier
from laxity.spark.control.change import SETTINGS, Change
from laxity.spark.control.checkpoints import Rollback, Savepoint, Scale
from laxity.spark.control.errors import (
    NothingToUndoError,
    UnfitOperationError,
    UnknownVariableError,
)
from laxity.spark.control.files import CheckpointFiles
from laxity.spark.control.monitoring import (
    EVERY,
    HeavyKey,
    Monitor,
    Monitoring,
    await_monitoring,
    find_monitoring,
)
from laxity.spark.control.operation import SparkOperation
from laxity.spark.control.skew import JoinState, RepairSkew, hot_keys, ways_for
from laxity.spark.control.tuning import BATCHES, Tuned, tune
from laxity.spark.control.variables import as_sql, check_value

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from laxity.spark.query import Query
    from laxity.spark.session import Laxity


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
        self._barrier = Barrier(self)
        self._undone: set[str] = set()
        self._batch_size = 0
        self._pace = 0.0
        self.monitor_order = Monitor(0)
        self.repair_order = RepairSkew("none")

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

    def monitor(self, *, every: int = EVERY, columns: Iterable[str] = (), by: str = "") -> Entry:
        """Count keys in one of `every` batches, 0 to stop; `monitoring` tells what was found."""
        return self.run(Monitor(every, tuple(columns)), by=by)

    def monitoring(self) -> Monitoring | None:
        """Event-time progress, how many keys, the heaviest: of the last batch that counted."""
        return find_monitoring(self.streaming_query.recentProgress)

    def repair_skew(
        self,
        method: str = "auto",
        *,
        keys: Iterable[str] = (),
        ways: int | None = None,
        by: str = "",
        timeout: float = 60.0,
    ) -> Entry:
        """Spread the load of hot keys of a join with a table; `keys` are looked for in the data if
        none are given."""
        self.check_controllable()
        RepairSkew(method, ("?",)).check(self)
        chosen, partitions = tuple(keys), self.shuffle_partitions
        if method not in ("none", "broadcast") and not chosen:
            hot = hot_keys(self.find_heaviest(timeout), partitions)
            if not hot:
                raise UnfitOperationError(
                    f"query {self.name!r} has no hot key: none has more than a partition's fair "
                    f"share of {1 / partitions:.0%}"
                )
            chosen = tuple(key.key for key in hot)
            ways = ways_for(hot, partitions) if ways is None else ways
        return self.run(RepairSkew(method, chosen, partitions if ways is None else ways), by=by)

    def find_heaviest(self, timeout: float = 60.0) -> tuple[HeavyKey, ...]:
        """The heaviest keys of the next batch with data; the monitor goes on as it was."""
        before = self.monitor_order
        entry = self.run(Monitor(1, before.columns), by="laxity")
        try:
            return await_monitoring(self, int(entry.result["batch"]) - 1, timeout).heaviest
        finally:
            self.run(before, by="laxity")

    def tune(
        self,
        target: Duration,
        *,
        start: int | None = None,
        rate: float | None = None,
        batches: int = BATCHES,
        by: str = "",
        on_phase: Callable[[TuningPhase], None] | None = None,
        timeout: float = 300.0,
    ) -> Tuned:
        """Look for the largest batches that keep latency within `target`, from `start` rows on, at
        `rate` rows a second (as measured, if not given). Takes several batches for each size."""
        return tune(
            self,
            target,
            start=start,
            rate=rate,
            batches=batches,
            by=by,
            on_phase=on_phase,
            timeout=timeout,
        )

    def undo(self, *, by: str = "") -> Entry:
        """Take back the last change that has not been taken back yet."""
        for entry in reversed(self.history()):
            if entry.id in self._undone or not entry.result or "undo" not in entry.result:
                continue
            how = entry.result["undo"]
            operation = operation_from(how["operation"], how["arguments"])
            assert isinstance(operation, SparkOperation)
            done = self.run(operation, by=by)
            self._undone |= {entry.id, done.id}
            return done
        raise NothingToUndoError(f"no change of query {self.name!r} is left to undo")

    def history(self) -> tuple[Entry, ...]:
        """Who changed what, when, and before which batch (`entry.result["batch"]`)."""
        return self._barrier.history()

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
        return self._barrier.run(operation, by=by, timeout=timeout, queue=queue)

    def variable_types(self) -> dict[str, str]:
        """The Spark type of each variable of the query."""
        return {m.name: m.type for m in self._markers().values() if m.default is not None}

    # For operations.

    def check_controllable(self) -> None:
        model = self.laxity.model(self.id)
        if model.unmanaged:
            raise UnfitOperationError(
                f"query {self.name!r} has a {model.unmanaged}, which has no boundary to stop at; "
                f"only processing-time triggers have"
            )
        if not self.streaming_query.isActive:
            raise UnfitOperationError(f"query {self.name!r} has ended")

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

    def started(self) -> None:
        """It runs again: orders for its plans count in its new session too."""
        if self.monitor_order.every or self.repair_order.method != "none":
            jvm.static(self.spark, "Replan", "install", self.execution)

    def order_monitoring(self, order: Monitor) -> None:
        jvm.static(self.spark, "Replan", "install", self.execution)
        columns = jvm.array_list(self.spark, order.columns)
        jvm.static(self.spark, "Replan", "monitor", self.id, order.every, columns)
        self.monitor_order = order

    def order_repair(self, order: RepairSkew) -> None:
        jvm.static(self.spark, "Replan", "install", self.execution)
        keys = jvm.array_list(self.spark, order.keys)
        jvm.static(self.spark, "Replan", "repair", self.id, order.method, keys, order.ways)
        self.repair_order = order

    def join_state(self) -> JoinState:
        """How its last batch joined a stream with a table."""
        text = str(jvm.static(self.spark, "Skew", "describe", self.execution))
        row = _fields(text) if text else {}
        flags = {k: row.get(k) == "1" for k in ("shuffled", "broadcast", "streams", "aggregates")}
        return JoinState(**flags, table_bytes=int(row["bytes"]) if "bytes" in row else None)

    @property
    def shuffle_partitions(self) -> int:
        committed = self.files.committed()
        return self.files.partitions(committed[-1]) if committed else 0

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
        self.check_controllable()
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
