"""The barrier at a query's boundary: one operation at a time, delivered while the query stands."""

from __future__ import annotations

import getpass
import threading
import time
from typing import TYPE_CHECKING, Any

from laxity.control.controller import DataflowController
from laxity.control.errors import OperationInProgressError
from laxity.control.graph import Dataflow
from laxity.control.ledger import Entry, Ledger
from laxity.control.messages import CONTROLLER
from laxity.control.processor import ControlProcessor, SendMessage
from laxity.spark.control import jvm
from laxity.spark.control.errors import (
    BoundaryTimeoutError,
    OperationFailedError,
    UnfitOperationError,
)
from laxity.spark.control.operation import QueryHost, SparkOperation

if TYPE_CHECKING:
    from laxity.spark.control.query import QueryControl

_LEASE = 30.0
"""Seconds after which a query goes on by itself, should nobody let it go."""
_LONG_LEASE = 1800.0
"""The same for operations that stop the query: it does not stand there any more."""


class Barrier:
    """Delivers the control messages of a query, and keeps their history."""

    def __init__(self, query: QueryControl) -> None:
        self._query = query
        self._turn = threading.Lock()
        ledger = Ledger(Dataflow.of(query.name, {"query": 1}, []))
        (vertex,) = ledger.graph.vertices
        self._host = QueryHost(query, vertex)
        self._controller = DataflowController("spark", ledger)
        self._processor = ControlProcessor(self._host)

    def history(self) -> tuple[Entry, ...]:
        return self._controller.ledger.history()

    def run(
        self,
        operation: SparkOperation,
        *,
        by: str,
        timeout: float,
        queue: bool,
    ) -> Entry:
        if not self._turn.acquire(blocking=queue):
            raise OperationInProgressError(
                f"an operation is in progress on query {self._query.name!r}; wait for it, or pass "
                f"queue=True"
            )
        try:
            self._query.check_controllable()
            operation.check(self._query)
            return self._at_boundary(operation, by or getpass.getuser(), timeout)
        finally:
            self._turn.release()

    # The barrier.

    def _at_boundary(self, operation: SparkOperation, by: str, timeout: float) -> Entry:
        place = jvm.static(self._query.spark, "Boundary", "of", self._query.id)
        place.block(timeout + _LEASE)
        paused = self._query.laxity.model(self._query.id).paused
        if paused:  # it stands at the gate: behind the raised barrier it can be let through
            self._query.laxity._set_paused(self._query.id, False)
        try:
            batch = self._await(place, timeout)
            if paused:
                self._query.laxity.model(self._query.id).paused = True
            place.renew(_LONG_LEASE if operation.restarts else _LEASE)
            entry = self._deliver(operation, by, batch)
        except BaseException:
            if paused:
                self._query.laxity._set_paused(self._query.id, True)
            place.lower()
            raise
        self._query.laxity._tick(
            self._query.laxity.now()
        )  # the gate learns of it before the query gets there
        in_time = bool(place.lower())
        failure, self._host.failure = self._host.failure, None
        if failure is not None:
            raise OperationFailedError(
                f"{operation.name} broke off on query {self._query.name!r}: {failure}"
            ) from failure
        if not in_time:
            raise BoundaryTimeoutError(
                f"{operation.name} took longer than {_LEASE:.0f} s; query {self._query.name!r} "
                f"had gone on"
            )
        return entry

    def _await(self, place: Any, timeout: float) -> int:
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            batch = int(place.standing(200))
            if batch >= 0:
                return batch
            if not self._query.streaming_query.isActive:
                raise UnfitOperationError(f"query {self._query.name!r} has ended")
        raise BoundaryTimeoutError(
            f"query {self._query.name!r} did not finish its batch within {timeout:.0f} s; nothing "
            f"was changed. Try again with a longer timeout"
        )

    def _deliver(self, operation: SparkOperation, by: str, batch: int) -> Entry:
        now = self._query.laxity.now
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
