"""The orchestrator as a process: HTTP and JSON around `Orchestrator`, a clock and a store."""

from __future__ import annotations

import hmac
import json
import logging
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from laxity.core.errors import LaxityError
from laxity.fleet.election import Election
from laxity.fleet.orchestrator import Orchestrator, OrchestratorSettings
from laxity.fleet.protocol import PREFIX, Reply, Report
from laxity.fleet.refusals import NotAuthorisedError, RefusedError, StoreAwayError
from laxity.fleet.show import fleet_to_dict
from laxity.fleet.store import MetadataStore

log = logging.getLogger("laxity.fleet")

_TICK = 0.5
_LONGEST_WAIT = 30.0


class OrchestratorService:
    """Stands by until elected, then serves. `serve` blocks; `stop` ends it."""

    def __init__(
        self,
        store: MetadataStore,
        election: Election,
        token: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        settings: OrchestratorSettings | None = None,
        advise: Callable[[Orchestrator, float], None] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._election = election
        self._token = token
        self._settings = settings or OrchestratorSettings()
        self._advise = advise
        self._now = now
        self._stopped = threading.Event()
        self._changed = threading.Condition()
        """Held around everything that touches the mind; told when orders may have changed."""
        self._mind: Orchestrator | None = None
        self._term = 0
        self._server = ThreadingHTTPServer((host, port), _handler(self))
        self._server.daemon_threads = True
        bound = self._server.server_address
        self.url = f"http://{host}:{bound[1]}"

    def serve(self, ready: Callable[[str], None] = lambda _: None) -> None:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        try:
            while self._election.win(self.url, self._stopped):
                try:
                    self._begin()
                except StoreAwayError as error:
                    log.warning("elected, but %s; trying again", error)
                    self._election.resign()
                    self._stopped.wait(_TICK)
                    continue
                ready(self.url)
                self._rule()
        finally:
            self._stopped.set()
            with self._changed:
                self._changed.notify_all()
            self._server.shutdown()
            self._server.server_close()
            self._election.resign()
            self._store.close()

    def _begin(self) -> None:
        """With what the one before has saved; the rest is learned from the agents."""
        with self._changed:
            self._term = self._store.begin_term()
            self._mind = Orchestrator(self._settings, self._now(), self._store.load())

    def _rule(self) -> None:
        """Until stopped, or until another rules."""
        while not self._stopped.wait(_TICK):
            if self._election.lost:
                break
            if not self._election.leads:
                continue  # nobody can say; requests are turned away meanwhile
            with self._changed:
                mind, now = self._orchestrator(), self._now()
                mind.tick(now)
                if self._advise is not None and not mind.learning(now):
                    self._advise(mind, now)
                try:
                    self._keep()
                except StoreAwayError:
                    log.exception("the fleet's state could not be saved; it will be tried again")
        with self._changed:
            self._mind = None
        if self._stopped.is_set():
            return
        self._election.resign()

    def stop(self) -> None:
        self._stopped.set()

    def _keep(self) -> None:
        """Save before anybody acts on it, then wake those who wait for orders."""
        assert self._mind is not None
        if self._mind.changed:
            self._store.save(self._mind.save())
            self._mind.changed = False
        self._changed.notify_all()

    # Requests, each in a thread of the server's.

    def authorise(self, header: str | None) -> None:
        if not hmac.compare_digest((header or "").encode(), f"Bearer {self._token}".encode()):
            raise NotAuthorisedError("this fleet's token is needed: --token-file FILE")

    def get(self, path: str, query: dict[str, str]) -> dict[str, Any]:
        if path == "/fleet":
            with self._changed:
                return fleet_to_dict(self._orchestrator(), self._now(), self._term, self.url)
        if path == "/orders":
            return self._orders(
                query["node"], int(query["term"]), int(query["seen"]), float(query["wait"])
            ).to_wire()
        raise RefusedError(f"nothing is served at {path}")

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        with self._changed:
            mind, now = self._orchestrator(), self._now()
            if path == "/report":
                report = Report.from_wire(body)
                mind.hear(report, now)
                answer = mind.reply(report.node, self._term).to_wire()
            elif path == "/submit":
                mind.submit(
                    body["pipeline"], body["digest"], body["queries"], now, place=body.get("place")
                )
                answer = {}
            elif path == "/move":
                answer = mind.move(body["query"], body["node"], now).to_wire()
            elif path == "/drain":
                mind.drain(body["node"], now, on=bool(body.get("on", True)))
                answer = {}
            elif path == "/retire":
                mind.retire(body["query"], now)
                answer = {}
            else:
                raise RefusedError(f"nothing is served at {path}")
            self._keep()
            return answer

    def _orchestrator(self) -> Orchestrator:
        if self._mind is None or self._stopped.is_set() or not self._election.leads:
            raise StoreAwayError("this orchestrator does not lead")
        return self._mind

    def _orders(self, node: str, term: int, seen: int, wait: float) -> Reply:
        until = time.monotonic() + min(wait, _LONGEST_WAIT)
        with self._changed:
            while True:
                reply = self._orchestrator().reply(node, self._term)
                left = until - time.monotonic()
                if reply.version != seen or term != self._term or left <= 0:
                    self._keep()
                    return reply
                self._changed.wait(left)


def _handler(service: OrchestratorService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            where = urlsplit(self.path)
            query = {key: values[-1] for key, values in parse_qs(where.query).items()}
            self._answer(lambda path: service.get(path, query), where.path)

        def do_POST(self) -> None:
            def post(path: str) -> dict[str, Any]:
                length = int(self.headers.get("Content-Length") or 0)
                return service.post(path, json.loads(self.rfile.read(length) or b"{}"))

            self._answer(post, urlsplit(self.path).path)

        def _answer(self, work: Callable[[str], dict[str, Any]], path: str) -> None:
            try:
                if not path.startswith(PREFIX + "/"):
                    raise RefusedError(f"nothing is served at {path}")
                service.authorise(self.headers.get("Authorization"))
                status, data = 200, work(path.removeprefix(PREFIX))
            except NotAuthorisedError as error:
                status, data = 401, _told(error)
            except StoreAwayError as error:
                status, data = 503, _told(error)
            except LaxityError as error:
                status, data = 409, _told(error)
            except (KeyError, ValueError, TypeError) as error:
                status, data = 400, {"error": f"not understood: {error!r}", "type": "RefusedError"}
            text = json.dumps(data).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(text)
            except OSError:
                pass  # the caller has gone
            self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def _told(error: Exception) -> dict[str, Any]:
    return {"error": str(error), "type": type(error).__name__}
