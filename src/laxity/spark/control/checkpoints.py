"""Operations on the checkpoint of a query: divide its state anew, copy it, go back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from laxity.spark.control.errors import RepartitionError, UnfitOperationError
from laxity.spark.control.operation import SparkOperation

if TYPE_CHECKING:
    from laxity.spark.control.query import QueryControl


@dataclass(frozen=True)
class Scale(SparkOperation):
    """Divide the state of a stateful query into so many partitions: stop at the boundary, let
    Spark rewrite the state as a batch of its own, start again."""

    name: ClassVar[str] = "spark-scale"
    exclusive: ClassVar[bool] = True

    partitions: int

    def check(self, query: QueryControl) -> None:
        if isinstance(self.partitions, bool) or self.partitions < 1:
            raise RepartitionError(f"partitions must be 1 or more, got {self.partitions!r}")
        if not hasattr(query.spark, "_streamingCheckpointManager"):
            raise UnfitOperationError(
                f"Spark {query.spark.version} cannot divide state anew; 4.2 is the first that can"
            )
        provider = query.spark.conf.get("spark.sql.streaming.stateStore.providerClass") or ""
        if "RocksDB" not in provider:
            # Tried on 4.3.0: with the default store Spark breaks off in the middle, and the
            # checkpoint can then not be started from.
            raise RepartitionError(
                "Spark divides state anew only in RocksDB; set spark.sql.streaming.stateStore."
                "providerClass to org.apache.spark.sql.execution.streaming.state."
                "RocksDBStateStoreProvider before the query first starts"
            )
        query.check_restartable()
        progress = query.streaming_query.lastProgress
        operators = (progress or {}).get("stateOperators") or []
        if not operators:
            raise RepartitionError(
                f"query {query.name!r} has no state, or has not finished a batch yet; only a "
                f"stateful query has partitions of state"
            )
        if operators[0]["numShufflePartitions"] == self.partitions:
            raise RepartitionError(
                f"the state of query {query.name!r} has {self.partitions} partitions already"
            )

    def at_boundary(self, query: QueryControl, batch: int) -> dict[str, Any]:
        before = query.partitions()
        started = time.monotonic()
        location = query.checkpoint
        query.streaming_query.stop()
        try:
            query.spark._streamingCheckpointManager.repartition(location, self.partitions)
        except Exception as error:
            reason = str(error).strip().splitlines()[0]
            raise RepartitionError(
                f"Spark cannot divide the state of {query.name!r} anew: {reason}"
            ) from error
        finally:
            query.restart()
        return {"partitions": [before, self.partitions], "pause": time.monotonic() - started}


@dataclass(frozen=True)
class Savepoint(SparkOperation):
    """Copy the checkpoint while the query stands: the copy is as of the last finished batch."""

    name: ClassVar[str] = "spark-savepoint"

    path: str

    def check(self, query: QueryControl) -> None:
        if query.exists(self.path):
            raise UnfitOperationError(f"{self.path} exists; a savepoint needs a new folder")

    def at_boundary(self, query: QueryControl, batch: int) -> dict[str, Any]:
        started = time.monotonic()
        query.copy_checkpoint(self.path)
        return {"path": self.path, "last": batch - 1, "pause": time.monotonic() - started}
