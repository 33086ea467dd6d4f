"""Two applications never run the same query: a lease in the query's own checkpoint folder.

Each time an application opens a checkpoint it claims the next *epoch*: it creates a file of that
number, which the file system lets exactly one process do. The file of the highest number is the
lease; its holder beats in it until it releases it. Whoever wants the next epoch must see the lease
released, or not beating for a whole time-to-live on his own clock (clocks are never compared), or
its process gone from this very machine.

A process that was paused wakes up believing it holds the lease. So whatever it commits is checked
against the folder at that moment (`Fence.check`, and the same two file tests inside the JVM): its
own epoch's file must be there, which also tells a store that has gone away, and the next epoch's
must not.

An order number travels with each claim. It is given out by the orchestrator and only grows, so an
old order that is still in somebody's hands cannot reopen what a newer one has opened.

The folder must be one every node sees with the same path and with atomic links or exclusive
creation: a local disk for agents on one machine, NFS and the like for several.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from laxity.fleet.refusals import FencedError, LeaseHeldError, StaleOrderError, StoreAwayError

FOLDER = "laxity-fence"
"""Beside `offsets` and `commits`; Spark leaves names it does not know alone."""

_KEPT = 64
"""Claims kept in the folder. A sleeper finds either its successor or its own file gone."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process, told apart from any other that ever had its number."""

    host: str
    """Machine, boot and process namespace."""
    pid: int
    born: str

    @classmethod
    def mine(cls) -> Process:
        return cls(_host(), os.getpid(), _born(os.getpid()) or "")

    @property
    def surely_gone(self) -> bool:
        """Only ever true on the machine it ran on."""
        return self.host == _host() and _born(self.pid) != self.born


def _host() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        boot, namespace = "", 0
    return f"{socket.gethostname()}/{boot}/{namespace}"


def _born(pid: int) -> str | None:
    """The process's start time in ticks; None if there is none, or only its zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


@dataclass(frozen=True, slots=True)
class Lease:
    epoch: int
    order: int
    node: str
    token: str
    """Made anew for each claim: two folders that happen to hold the same epoch differ in it."""
    process: Process
    beat: int = 0
    released: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Lease:
        data = json.loads(text)
        return cls(**{**data, "process": Process(**data["process"])})


class Fence:
    """The lease folder of one checkpoint, as one node sees it."""

    def __init__(
        self,
        checkpoint: Path,
        node: str,
        *,
        ttl: float = 10.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = checkpoint / FOLDER
        self._node = node
        self._ttl = ttl
        self._monotonic = monotonic
        self._watched: tuple[int, int] | None = None
        self._unchanged_since = 0.0

    def path(self, epoch: int) -> Path:
        return self.folder / f"{epoch:08}.json"

    def read(self) -> Lease | None:
        """The lease as it stands; None in a checkpoint nobody has opened yet."""
        try:
            epochs = self._epochs()
            return Lease.from_json(self.path(epochs[-1]).read_text()) if epochs else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreAwayError(f"cannot read the lease in {self.folder}: {error}") from error

    def _epochs(self) -> list[int]:
        return sorted(
            int(name[:8])
            for name in os.listdir(self.folder)
            if name[:8].isdigit() and len(name) == 13
        )

    def acquire(self, order: int, *, expect: str | None = None) -> Lease:
        """Claim the next epoch, or say why not: somebody holds it, the order is too old, the
        store is away. `expect` is the token of the claim before, where one is known: a folder
        without it is another folder."""
        last = self.read()
        if expect is not None and last is None:
            raise StoreAwayError(
                f"{self.folder} is empty, though the query has run: the checkpoint store is away, "
                f"or not mounted here"
            )
        if last is not None:
            if last.order > order:
                raise StaleOrderError(
                    f"order {order} is older than order {last.order}, under which {last.node} "
                    f"opened this checkpoint",
                    last.order,
                )
            if not self._lapsed(last):
                raise LeaseHeldError(
                    f"{last.node} holds epoch {last.epoch} and has not released it"
                )
        mine = Lease(
            (last.epoch if last else 0) + 1,
            order,
            self._node,
            secrets.token_hex(8),
            Process.mine(),
        )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._create(mine)
            self._forget_old(mine.epoch)
        except FileExistsError as error:
            raise LeaseHeldError(f"epoch {mine.epoch} has just been claimed by another") from error
        except OSError as error:
            raise StoreAwayError(f"cannot write the lease in {self.folder}: {error}") from error
        return mine

    def _lapsed(self, last: Lease) -> bool:
        if last.released or last.process.surely_gone or last.process == Process.mine():
            return True  # one of mine that I gave up, or there would be no asking
        now = self._monotonic()
        if self._watched != (last.epoch, last.beat):
            self._watched, self._unchanged_since = (last.epoch, last.beat), now
        return now - self._unchanged_since >= self._ttl

    def _create(self, lease: Lease) -> None:
        """All of the file or none of it, and only if nobody was first."""
        draft = self._draft(lease)
        try:
            os.link(draft, self.path(lease.epoch))
        finally:
            draft.unlink()

    def _draft(self, lease: Lease) -> Path:
        draft = self.folder / f".{lease.token}.{lease.beat}"
        with open(draft, "w") as file:
            file.write(lease.to_json())
            file.flush()
            os.fsync(file.fileno())
        return draft

    def _forget_old(self, epoch: int) -> None:
        for old in self._epochs():
            if old <= epoch - _KEPT:
                self.path(old).unlink(missing_ok=True)

    def check(self, lease: Lease) -> None:
        """Is it still mine? Raises `FencedError` if not, `StoreAwayError` if nobody can say."""
        try:
            if self.path(lease.epoch + 1).exists():
                raise FencedError(f"epoch {lease.epoch} was followed by another; stop")
            if not self.path(lease.epoch).exists():
                raise StoreAwayError(f"the lease {self.path(lease.epoch)} is not there")
        except OSError as error:
            if isinstance(error, StoreAwayError):
                raise
            raise StoreAwayError(f"cannot look at {self.folder}: {error}") from error

    def renew(self, lease: Lease) -> Lease:
        return self._rewrite(replace(lease, beat=lease.beat + 1))

    def release(self, lease: Lease) -> Lease:
        """The query has stopped and its last batch is in the logs: whoever is next need not
        wait."""
        return self._rewrite(replace(lease, beat=lease.beat + 1, released=True))

    def _rewrite(self, lease: Lease) -> Lease:
        self.check(lease)
        try:
            os.replace(self._draft(lease), self.path(lease.epoch))
        except OSError as error:
            raise StoreAwayError(f"cannot write the lease in {self.folder}: {error}") from error
        return lease
