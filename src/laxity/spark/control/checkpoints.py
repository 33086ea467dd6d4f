"""Operations on the checkpoint of a query: divide its state anew, copy it, go back."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from laxity.core.errors import LaxityError
from laxity.spark.bridge import cause
from laxity.spark.control.errors import CheckpointError, RepartitionError, UnfitOperationError
from laxity.spark.control.operation import SparkOperation

if TYPE_CHECKING:
    from laxity.spark.control.files import CheckpointFiles
    from laxity.spark.control.query import QueryControl

_ROCKSDB = "RocksDBStateStoreProvider"
_REMEMBERS_BATCHES = ("FileStreamSink", "DeltaSink")
"""Sinks that skip a batch whose number they have seen: after a rollback they would lose rows."""


@dataclass(frozen=True)
class Scale(SparkOperation):
    """Divide the state of a stateful query into so many partitions: stop at the boundary, let
    Spark rewrite the state as a batch of its own, start again."""

    name: ClassVar[str] = "spark-scale"
    exclusive: ClassVar[bool] = True
    restarts: ClassVar[bool] = True

    partitions: int

    def check(self, query: QueryControl) -> None:
        if type(self.partitions) is not int or self.partitions < 1:
            raise RepartitionError(
                f"partitions is a whole number from 1 on, got {self.partitions!r}"
            )
        if not hasattr(query.spark, "_streamingCheckpointManager"):
            raise UnfitOperationError(
                f"Spark {query.spark.version} cannot divide state anew; 4.2 is the first that can"
            )
        query.check_restartable()
        if not query.stateful:
            raise RepartitionError(
                f"query {query.name!r} has no state, or has not finished a batch yet; only a "
                f"stateful query has partitions of state"
            )
        last = query.files.committed()[-1]
        provider = query.files.provider(last)
        if provider != _ROCKSDB:
            # Tried on 4.3.0: Spark has begun a batch of its own by the time it finds out, and
            # refuses to start the query until that is finished, which it never can be.
            raise RepartitionError(
                f"query {query.name!r} keeps its state in a {provider or 'store of its own'}, and "
                f"Spark divides only state in RocksDB anew; set spark.sql.streaming.stateStore."
                f"providerClass to org.apache.spark.sql.execution.streaming.state.{_ROCKSDB} "
                f"before the query first starts"
            )
        if query.files.partitions(last) == self.partitions:
            raise RepartitionError(
                f"the state of query {query.name!r} has {self.partitions} partitions already"
            )
        _ask_spark(query, last)

    def at_boundary(self, query: QueryControl, batch: int) -> dict[str, Any]:
        before = query.files.partitions(batch - 1)
        started = time.monotonic()

        def divide(files: CheckpointFiles) -> None:
            try:
                manager = query.spark._streamingCheckpointManager
                manager.repartition(files.root, self.partitions)
            except Exception as error:
                # A batch that Spark began and could not finish would keep the query from starting.
                files.truncate(batch - 1, f"scale-{batch}-failed")
                raise RepartitionError(
                    f"Spark cannot divide the state of {query.name!r} anew: {cause(error)}"
                ) from error

        query.restart_after(divide)
        pause = time.monotonic() - started
        back = {"operation": self.name, "arguments": {"partitions": before}}
        return {"partitions": [before, self.partitions], "pause": pause, "undo": back}


def _ask_spark(query: QueryControl, last: int) -> None:
    """Whether Spark can read all of this state for dividing it: found out before anything stops,
    by planning to read it."""
    stores = query.spark.read.format("state-metadata").load(query.checkpoint)
    for store in stores.select("operatorId", "stateStoreName").distinct().collect():
        reader = query.spark.read.format("statestore").option("batchId", last)
        reader = reader.option("operatorId", store[0]).option("storeName", store[1])
        try:
            reader.option("_readAllColumnFamilies", "true").load(query.checkpoint)
        except Exception as error:
            raise RepartitionError(
                f"Spark cannot divide the state of {query.name!r} anew: {cause(error)}"
            ) from error


@dataclass(frozen=True)
class Savepoint(SparkOperation):
    """Copy the checkpoint while the query stands, as of the last finished batch or an earlier one.
    The copy has a query id of its own, so that a query can run from it beside this one."""

    name: ClassVar[str] = "spark-savepoint"

    path: str
    batch: int | None = None
    values: dict[str, str | None] = field(default_factory=dict)
    functions: dict[str, str | None] = field(default_factory=dict)
    """Variables and functions of the copy, where they differ."""

    def check(self, query: QueryControl) -> None:
        if query.files_at(self.path).exists:
            raise UnfitOperationError(f"{self.path} exists; a savepoint needs a new folder")
        if self.batch is not None:
            query.files.check_goes_back(self.batch)

    def at_boundary(self, query: QueryControl, batch: int) -> dict[str, Any]:
        started = time.monotonic()
        query.files.copy_to(self.path)
        pause = time.monotonic() - started
        last = batch - 1 if self.batch is None else self.batch
        copy = query.files_at(self.path)
        if last < batch - 1:
            copy.truncate(last, "later")
        if self.values or self.functions:
            copy.write_values(last + 1, self.values, self.functions)
        return {"path": self.path, "last": last, "id": copy.rename(), "pause": pause}


@dataclass(frozen=True)
class Rollback(SparkOperation):
    """Go back to the end of a batch: state, progress, variables. What the query did since is kept
    aside in its checkpoint, and done again."""

    name: ClassVar[str] = "spark-rollback"
    exclusive: ClassVar[bool] = True
    restarts: ClassVar[bool] = True

    batch: int
    values: dict[str, str | None] = field(default_factory=dict)
    functions: dict[str, str | None] = field(default_factory=dict)

    def check(self, query: QueryControl) -> None:
        query.check_restartable()
        query.files.check_goes_back(self.batch)
        sink = query.sink
        if sink in _REMEMBERS_BATCHES:
            raise UnfitOperationError(
                f"query {query.name!r} writes to a {sink}, which skips batches whose number it "
                f"has seen; replay into another sink instead: replay({self.batch}, writer, …)"
            )
        if self.batch == query.files.committed()[-1] and not (self.values or self.functions):
            raise CheckpointError(
                f"batch {self.batch} is the last one query {query.name!r} has finished; there is "
                f"nothing to go back over"
            )

    def at_boundary(self, query: QueryControl, batch: int) -> dict[str, Any]:
        started = time.monotonic()
        aside = f"rolled-back/{batch}-{time.time_ns()}"

        def go_back(files: CheckpointFiles) -> None:
            files.truncate(self.batch, aside)
            if self.values or self.functions:
                files.write_values(self.batch + 1, self.values, self.functions)

        try:
            query.restart_after(go_back)
        except LaxityError:
            raise
        except Exception as error:
            query.restart_after(lambda files: files.restore(aside))
            raise CheckpointError(
                f"query {query.name!r} does not start from batch {self.batch}, and goes on where "
                f"it was: {cause(error)}"
            ) from error
        return {
            "from": batch - 1,
            "to": self.batch,
            "kept": f"laxity/{aside}",
            "pause": time.monotonic() - started,
        }
