"""One query in the hands of an agent: takes it from what it is to what is wanted of it, a step at
a time, and never lets it run without its lease."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from laxity.core.errors import LaxityError
from laxity.fleet.checkpoint import Progress, read_progress
from laxity.fleet.engine import Engine, Guard, Prepared
from laxity.fleet.fencing import Fence, Lease
from laxity.fleet.handover import Knowledge, find, leave
from laxity.fleet.protocol import Observation, Order, Phase, Want
from laxity.fleet.refusals import (
    CheckpointNotSharedError,
    FencedError,
    LeaseHeldError,
    StaleOrderError,
    StoreAwayError,
)

_LOOK_EVERY = 0.5
_BACK_OFF = (0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class HostedSettings:
    ttl: float = 10.0
    stop_patience: float = 60.0
    """How long a batch may take to end before it is cut off; the target then runs it again."""


class Memory(Protocol):
    """What a node has learned of its queries."""

    def pack(self, query: str, now: float) -> Knowledge | None:
        """Of a query that leaves."""
        ...

    def unpack(self, query: str, knowledge: Knowledge, now: float) -> None:
        """Of one that comes."""
        ...


class Hosted:
    """Steps are taken by one thread at a time (`busy`); beats by the agent's keeper thread."""

    def __init__(
        self,
        engine: Engine,
        node: str,
        order: Order,
        settings: HostedSettings,
        memory: Memory | None = None,
    ) -> None:
        self._engine = engine
        self._node = node
        self._settings = settings
        self._memory = memory
        self._lock = threading.Lock()
        self._prepared: Prepared | None = None
        self._fence: Fence | None = None
        self._lease: Lease | None = None
        self._renewed = 0.0
        self._try_again = 0.0
        self._failures = 0
        self._lost_lease = False
        self._suspect = ""
        """Why the lease could not be renewed for so long that the query must not go on."""
        self._next_look = 0.0
        self.order = order
        self.busy = False
        self.gone = False
        """Dropped: the agent may forget it."""
        self.seen = Observation(
            order.query, Phase.PREPARING, order.number, order.pipeline, order.digest
        )

    # Orders.

    def follow(self, order: Order) -> None:
        with self._lock:
            if order.digest != self.order.digest or order.pipeline != self.order.pipeline:
                self._prepared = None  # taken up at the next start
            if order.number > self.order.number:
                self._try_again, self._failures = 0.0, 0
            self.order = order

    @property
    def wants_step(self) -> bool:
        """Is there anything to do that has not been found impossible a moment ago?"""
        want, phase = self.order.want, self.seen.phase
        if want in (Want.STOP, Want.DROP):
            return want is Want.DROP or phase is not Phase.STOPPED
        if self._lease is not None:
            changed = self.seen.number != self.order.number
            urgent = changed or self._lost_lease or bool(self._suspect)
            return urgent or time.monotonic() >= self._next_look
        if phase is Phase.REFUSED and self.order.number == self.seen.number:
            return False
        if want is Want.PREPARE:
            return phase is not Phase.PREPARED or self.seen.number != self.order.number
        if phase is Phase.FENCED and self.order.number <= self.seen.number:
            return False
        return time.monotonic() >= self._try_again

    def step(self) -> None:
        """One step. Whatever goes wrong is written into `seen`, never raised."""
        order = self.order
        try:
            if order.want in (Want.STOP, Want.DROP):
                self._stop(order)
            elif self._lease is not None:
                self._look()
            elif order.want is Want.PREPARE:
                self._prepare(order)
            else:
                self._run(order)
        except FencedError as error:
            self._abandon(Phase.FENCED, str(error))
        except StaleOrderError as error:
            self._show(Phase.FENCED, order, reason=str(error), newest_order=error.newest)
        except LeaseHeldError as error:
            self._later(Phase.WAITING, order, str(error), soon=True)
        except StoreAwayError as error:
            self._later(Phase.WAITING, order, str(error), soon=True)
        except LaxityError as error:
            self._show(Phase.REFUSED, order, reason=str(error))
        except Exception as error:
            self._later(Phase.FAILED, order, f"{type(error).__name__}: {error}")

    # Steps.

    def _prepare(self, order: Order) -> Prepared:
        if self._prepared is None:
            self._show(Phase.PREPARING, order)
            self._prepared = self._engine.prepare(order.pipeline, order.digest, order.query)
            self._fence = Fence(self._prepared.checkpoint, self._node, ttl=self._settings.ttl)
        checkpoint = self._prepared.checkpoint
        if order.want is Want.PREPARE and order.expect_token is not None:
            self._check_shared(order.expect_token, checkpoint)
        if order.want is Want.PREPARE:
            self._show(Phase.PREPARED, order, checkpoint=str(checkpoint))
        return self._prepared

    def _check_shared(self, token: str, checkpoint: Path) -> None:
        assert self._fence is not None
        lease = self._fence.read()
        if lease is None or lease.token != token:
            found = "nothing" if lease is None else f"another claim, by {lease.node}"
            raise CheckpointNotSharedError(
                f"{self._node} does not see the checkpoint of {self.order.query}: in {checkpoint} "
                f"it finds {found}; put checkpoints on a store all nodes mount at the same path "
                f"(laxity agent --checkpoints DIR)"
            )

    def _run(self, order: Order) -> None:
        prepared = self._prepare(order)
        fence = self._fence
        assert fence is not None
        lease = fence.acquire(order.number, expect=order.expect_token)
        try:
            progress = read_progress(prepared.checkpoint)
            wanted = Progress(order.expect_offsets, order.expect_commits)
            if not progress.reaches(wanted):
                raise CheckpointNotSharedError(
                    f"{self._node} sees {prepared.checkpoint} up to batch {progress.commits}, the "
                    f"source committed batch {wanted.commits}: the store does not show what was "
                    f"written; it must be consistent between nodes"
                )
            self._show(
                Phase.STARTING,
                order,
                epoch=lease.epoch,
                token=lease.token,
                checkpoint=str(prepared.checkpoint),
                offsets=progress.offsets,
                commits=progress.commits,
            )
            self._renewed, self._lost_lease, self._suspect = time.monotonic(), False, ""
            self._lease = lease  # from here on the keeper beats in it
            known = find(fence.folder)
            if self._memory is not None and known is not None:
                self._memory.unpack(order.query, known, time.time())
            self._engine.start(
                order.query, Guard(fence.path(lease.epoch), fence.path(lease.epoch + 1))
            )
        except BaseException:
            self._lease = None
            self._release(lease)
            raise
        self._show(Phase.RUNNING, order, started_at=time.time(), first_batch_at=None)

    def _release(self, lease: Lease) -> None:
        assert self._fence is not None
        with suppress(FencedError, StoreAwayError):  # then it lapses by itself
            self._fence.release(lease)

    def _look(self) -> None:
        """Does it still run, and may it?"""
        self._next_look = time.monotonic() + _LOOK_EVERY
        if self._lost_lease:
            raise FencedError("the lease was lost")
        if self._suspect:
            self._abandon(Phase.WAITING, f"suspended: {self._suspect}")
            return
        state = self._engine.state(self.order.query)
        if state.active:
            if self.seen.first_batch_at is None and state.first_batch_at is not None:
                self._show(Phase.RUNNING, self.order, first_batch_at=state.first_batch_at)
                self._failures = 0
            elif self.seen.number != self.order.number or self.seen.phase is not Phase.RUNNING:
                self._show(Phase.RUNNING, self.order)
            return
        lease, self._lease = self._lease, None
        assert lease is not None
        assert self._fence is not None
        self._fence.check(lease)  # it may have ended because another runs it
        self._release(lease)
        self._later(Phase.FAILED, self.order, state.error or "it ended by itself")

    def _stop(self, order: Order) -> None:
        lease, query = self._lease, order.query
        if lease is not None:
            self._show(Phase.STOPPING, order)
            if self._memory is not None and self._fence is not None:
                known = self._memory.pack(query, time.time())
                if known is not None:
                    leave(self._fence.folder, known)
            ended = self._engine.stop(query, self._settings.stop_patience)
            lease, self._lease = self._lease, None
            assert self._prepared is not None
            try:
                progress = read_progress(self._prepared.checkpoint)
            except StoreAwayError:
                progress = Progress(self.seen.offsets, self.seen.commits)
            if lease is not None:
                self._release(lease)
            self._show(
                Phase.STOPPED,
                order,
                stopped_at=ended,
                offsets=progress.offsets,
                commits=progress.commits,
            )
        elif self.seen.phase is not Phase.STOPPED:
            self._show(Phase.STOPPED, order)
        if order.want is Want.DROP:
            self._engine.forget(query)
            self.gone = True

    def _abandon(self, phase: Phase, reason: str) -> None:
        self._lease = None
        self._try_again = time.monotonic() + _LOOK_EVERY
        try:
            self._engine.abandon(self.order.query)
        except Exception as error:
            reason = f"{reason}; stopping it: {error}"
        self._show(phase, self.order, reason=reason)

    # The lease.

    def beat(self) -> None:
        """Renew the lease. Called a few times a time-to-live, by a thread that never blocks on
        the engine."""
        lease, fence = self._lease, self._fence
        if lease is None or fence is None:
            return
        try:
            renewed = fence.renew(lease)
        except FencedError:
            self._lost_lease = True
            return
        except StoreAwayError as error:
            if time.monotonic() - self._renewed > 0.7 * self._settings.ttl:
                self._suspect = str(error)  # before anybody else may think it lapsed
            return
        self._renewed = time.monotonic()
        if self._lease is lease:
            self._lease = renewed

    # What is seen.

    def _show(self, phase: Phase, order: Order, **more: object) -> None:
        with self._lock:
            base: dict[str, object] = {
                "phase": phase,
                "number": order.number,
                "reason": "",
                "newest_order": 0,
                "pipeline": order.pipeline,
                "digest": order.digest,
            }
            self.seen = replace(self.seen, **{**base, **more})  # type: ignore[arg-type]

    def _later(self, phase: Phase, order: Order, reason: str, *, soon: bool = False) -> None:
        self._failures += 1
        wait = 0.5 if soon else _BACK_OFF[min(self._failures, len(_BACK_OFF)) - 1]
        self._try_again = time.monotonic() + wait
        holder = None
        if phase is Phase.WAITING and self._fence is not None:
            try:
                lease = self._fence.read()
                holder = None if lease is None or lease.released else lease.node
            except StoreAwayError:
                pass
        restarts = self.seen.restarts + (phase is Phase.FAILED)
        self._show(phase, order, reason=reason, holder=holder, restarts=restarts)
