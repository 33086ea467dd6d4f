"""Leader and metadata through ZooKeeper, where there is one (`pip install 'laxity[zookeeper]'`)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from laxity.fleet.refusals import OrchestratorUnreachableError, StoreAwayError

if TYPE_CHECKING:
    from kazoo.client import KazooClient
    from kazoo.recipe.lock import Lock

ROOT = "/laxity/fleet"


def connect(hosts: str, *, timeout: float = 10.0) -> KazooClient:
    try:
        from kazoo.client import KazooClient
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError as error:
        raise StoreAwayError(
            "ZooKeeper needs the kazoo library: pip install 'laxity[zookeeper]'"
        ) from error
    session = KazooClient(hosts=hosts, timeout=timeout)
    try:
        session.start(timeout=timeout)
    except KazooTimeoutError as error:
        session.close()
        raise StoreAwayError(
            f"no ZooKeeper answers at {hosts} within {timeout:.0f} s; check the address, or leave "
            f"--zookeeper out to keep everything in the state folder"
        ) from error
    return session


class ZooKeeperStore:
    """The document as one node, the number of the rule as another; both are written in one
    transaction, so a ruler that was succeeded cannot save."""

    def __init__(self, session: KazooClient, root: str = ROOT) -> None:
        self._session = session
        self._document, self._term_path = f"{root}/document", f"{root}/term"
        self._term_version: int | None = None
        with _answering(session):
            for path in (self._document, self._term_path):
                session.ensure_path(path)

    def begin_term(self) -> int:
        with _answering(self._session):
            while True:
                data, stat = self._session.get(self._term_path)
                term = int(data or b"0") + 1
                done = self._session.transaction()
                done.set_data(self._term_path, str(term).encode(), version=stat.version)
                if not isinstance(done.commit()[0], Exception):
                    self._term_version = stat.version + 1
                    return term

    def load(self) -> dict[str, Any] | None:
        with _answering(self._session):
            data, _ = self._session.get(self._document)
        return json.loads(data) if data else None

    def save(self, document: dict[str, Any]) -> None:
        if self._term_version is None:
            raise StoreAwayError("no rule has begun that could save the fleet's state")
        with _answering(self._session):
            writing = self._session.transaction()
            writing.check(self._term_path, version=self._term_version)
            writing.set_data(self._document, json.dumps(document).encode())
            results = writing.commit()
        if any(isinstance(r, Exception) for r in results):
            raise StoreAwayError("another orchestrator has taken over in ZooKeeper")

    def close(self) -> None:
        self._session.stop()
        self._session.close()


@contextmanager
def _answering(session: KazooClient) -> Iterator[None]:
    """Requests to a ZooKeeper that answers now; kazoo would wait for one that does not."""
    from kazoo.exceptions import KazooException

    if not session.connected:
        raise StoreAwayError("ZooKeeper does not answer now")
    try:
        yield
    except KazooException as error:
        raise StoreAwayError(f"ZooKeeper does not take the fleet's state: {error!r}") from error


class ZooKeeperElection:
    """ZooKeeper's lock recipe. A session that is suspended neither leads nor has lost."""

    def __init__(self, session: KazooClient, root: str = ROOT) -> None:
        from kazoo.protocol.states import KazooState

        self._session = session
        self._address, self._election = f"{root}/leader", f"{root}/election"
        self._lock: Lock | None = None
        self._connected = True
        self._lost = False

        def heard(state: str) -> None:
            self._connected = state == KazooState.CONNECTED
            self._lost |= state == KazooState.LOST

        session.add_listener(heard)

    def win(self, url: str, stop: threading.Event) -> bool:
        from kazoo.exceptions import KazooException, LockTimeout, NoNodeError

        lock = self._session.Lock(self._election)  # one that was held when a session ended is void
        while not stop.is_set():
            self._lost = False
            try:
                if not lock.acquire(timeout=0.5):
                    continue
                with suppress(NoNodeError):
                    self._session.delete(self._address)  # of a session that has not expired yet
                self._session.create(self._address, url.encode(), ephemeral=True, makepath=True)
                self._lock = lock
                return True
            except LockTimeout:
                continue
            except KazooException:
                stop.wait(0.5)
                lock = self._session.Lock(self._election)
        return False

    @property
    def leads(self) -> bool:
        return self._connected and not self._lost and self._lock is not None

    @property
    def lost(self) -> bool:
        return self._lost

    def resign(self) -> None:
        from kazoo.exceptions import KazooException

        lock, self._lock = self._lock, None
        if lock is None or not self._session.connected:
            return  # the session takes both with it
        with suppress(KazooException):
            if not self._lost:  # else the address there is another's
                self._session.delete(self._address)
            lock.release()


class ZooKeeperLocator:
    """Asks ZooKeeper who leads."""

    def __init__(self, hosts: str, token: str, root: str = ROOT) -> None:
        self._session = connect(hosts)
        self._address = f"{root}/leader"
        self._token = token

    def url(self) -> str:
        from kazoo.exceptions import NoNodeError

        try:
            with _answering(self._session):
                data, _ = self._session.get(self._address)
        except StoreAwayError as error:
            if isinstance(error.__cause__, NoNodeError):
                raise OrchestratorUnreachableError(
                    f"ZooKeeper knows no orchestrator at {self._address}; start one with: laxity "
                    f"fleet start --zookeeper …"
                ) from error
            raise OrchestratorUnreachableError(str(error)) from error
        return str(data.decode())

    @property
    def token(self) -> str:
        return self._token
