"""A server in a thread of its own: started, asked for its address, stopped."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterable
from types import TracebackType

import uvicorn

from laxity.core.errors import LaxityError
from laxity.server.access import Access
from laxity.server.api import build_api
from laxity.server.front import Front
from laxity.server.service import Service
from laxity.server.sinks import Sink
from laxity.server.watch import Watch

log = logging.getLogger("laxity")

DEFAULT_PORT = 8642


class AddressError(LaxityError, ValueError):
    """An address that cannot be listened on."""


def parse_address(text: str) -> tuple[str, int]:
    """`8642`, `:8642`, `0.0.0.0:8642`, `[::1]:8642` or a host alone."""
    host, port = text, str(DEFAULT_PORT)
    if text.isdecimal():
        host, port = "127.0.0.1", text
    elif text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.lstrip(":") or port
    elif text.count(":") == 1:
        host, port = text.split(":")
    host = host or "127.0.0.1"
    if not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise AddressError(f"{text!r} is not an address: write HOST:PORT, such as 127.0.0.1:8642")
    return host, int(port)


class Door:
    """An address that is listened on, and who may come in. It can be opened long before there is
    something to serve: what is wrong with it is said at once."""

    def __init__(self, address: str, token: str | None) -> None:
        host, port = parse_address(address)
        self.access = Access.of(host, token)
        self.socket = _listen(host, port)

    def close(self) -> None:
        self.socket.close()


class Server:
    """REST, metrics and dashboard for one service."""

    def __init__(
        self,
        service: Service,
        address: str | Door = f"127.0.0.1:{DEFAULT_PORT}",
        *,
        token: str | None = None,
        dashboard: bool = True,
        period: float = 1.0,
        sinks: Iterable[Sink] = (),
    ) -> None:
        door = address if isinstance(address, Door) else Door(address, token)
        self.access = door.access
        self.watch = Watch(service, period=period, sinks=sinks)
        pages = None
        policy = None
        if dashboard:
            from laxity.server.dashboard import build_dashboard

            pages, policy = build_dashboard(period)
        self.front = Front(self.watch, self.access, build_api(self.watch), pages)
        if policy is not None:
            self.front.allow_scripts(policy)
        self._socket = door.socket
        self._port = int(self._socket.getsockname()[1])
        config = uvicorn.Config(
            self.front,
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=2,
            limit_concurrency=2000,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="laxity-server", daemon=True)

    def _run(self) -> None:
        # Signals are the program's business, not a thread's.
        self._server.capture_signals = contextlib.nullcontext  # type: ignore[assignment,method-assign]
        self._server.run(sockets=[self._socket])

    def start(self) -> Server:
        self.watch.start()
        self._thread.start()
        until = time.monotonic() + 20.0
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > until:
                self.stop()
                raise AddressError(f"the server did not start at {self.url}; see the log")
            time.sleep(0.01)
        return self

    def stop(self) -> None:
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(5.0)
        self._socket.close()
        self.watch.stop()

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        host = self.access.host
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.port}"

    @property
    def private_url(self) -> str:
        """With the token behind the hash, which browsers keep to themselves."""
        return f"{self.url}/#token={self.access.token}"

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        found = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise AddressError(f"{host} is not an address of this machine") from error
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(1024)
    except OSError as error:
        found.close()
        raise AddressError(
            f"cannot listen on {host}:{port}: {error.strerror}; "
            f"choose another address, or port 0 for any that is free"
        ) from error
    return found
