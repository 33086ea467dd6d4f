"""The way to the orchestrator: find it, and talk JSON over HTTP to it."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from laxity.fleet import refusals
from laxity.fleet.protocol import PREFIX, Reply, Report
from laxity.fleet.refusals import (
    FleetError,
    NotAuthorisedError,
    OrchestratorUnreachableError,
    RefusedError,
)

TOKEN_FILE = "token"
LEADER_FILE = "leader.json"


class Locator(Protocol):
    """Where the orchestrator is now. Asked anew for every request: it may have moved."""

    def url(self) -> str: ...

    @property
    def token(self) -> str: ...


class FolderLocator:
    """A state folder on this machine (or on a shared store): the leader leaves its address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def url(self) -> str:
        try:
            return str(json.loads((self._folder / LEADER_FILE).read_text())["url"])
        except (OSError, ValueError, KeyError) as error:
            raise OrchestratorUnreachableError(
                f"no orchestrator has left its address in {self._folder}; start one with: "
                f"laxity fleet start --state-dir {self._folder}"
            ) from error

    @property
    def token(self) -> str:
        return read_token(self._folder / TOKEN_FILE)


class FixedLocator:
    """Addresses given by hand; whichever answered last is asked first."""

    def __init__(self, urls: list[str], token: str) -> None:
        self._urls = list(urls)
        self._token = token

    def url(self) -> str:
        self._urls.append(self._urls.pop(0))
        return self._urls[-1]

    @property
    def token(self) -> str:
        return self._token


def read_token(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise NotAuthorisedError(
            f"cannot read the fleet's token from {path}: {error.strerror}; it is made by "
            f"`laxity fleet start` and given to others with --token-file"
        ) from error


class Client:
    def __init__(self, locator: Locator, *, timeout: float = 10.0) -> None:
        self._locator = locator
        self._timeout = timeout

    # For agents.

    def report(self, report: Report) -> Reply:
        return Reply.from_wire(self._ask("POST", "/report", report.to_wire()))

    def orders(self, node: str, term: int, seen: int, wait: float) -> Reply:
        """Answered as soon as there are newer orders than `seen`, or after `wait` seconds."""
        where = "/orders?" + urlencode({"node": node, "term": term, "seen": seen, "wait": wait})
        return Reply.from_wire(self._ask("GET", where, timeout=wait + self._timeout))

    # For people.

    def fleet(self) -> dict[str, Any]:
        return self._ask("GET", "/fleet")

    def submit(self, pipeline: dict[str, Any]) -> dict[str, Any]:
        return self._ask("POST", "/submit", pipeline)

    def move(self, query: str, node: str) -> dict[str, Any]:
        return self._ask("POST", "/move", {"query": query, "node": node})

    def drain(self, node: str, *, on: bool = True) -> dict[str, Any]:
        return self._ask("POST", "/drain", {"node": node, "on": on})

    def retire(self, query: str) -> dict[str, Any]:
        return self._ask("POST", "/retire", {"query": query})

    def _ask(
        self, method: str, path: str, body: Any = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        url = self._locator.url()
        where = urlsplit(url)
        headers = {"Authorization": f"Bearer {self._locator.token}"}
        connection = http.client.HTTPConnection(
            where.hostname or "127.0.0.1", where.port, timeout=timeout or self._timeout
        )
        try:
            connection.request(
                method, PREFIX + path, None if body is None else json.dumps(body), headers
            )
            answer = connection.getresponse()
            data = json.loads(answer.read())
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise OrchestratorUnreachableError(
                f"the orchestrator at {url} does not answer: {error or type(error).__name__}"
            ) from error
        finally:
            connection.close()
        if answer.status != 200:
            raise _error(answer.status, data)
        return data  # type: ignore[no-any-return]


def _error(status: int, data: dict[str, Any]) -> FleetError:
    """The error the orchestrator raised, as if it had been raised here."""
    message = str(data.get("error", f"status {status}"))
    kind = getattr(refusals, str(data.get("type")), None)
    if isinstance(kind, type) and issubclass(kind, RefusedError):
        return kind(message)
    if status in (401, 403):
        return NotAuthorisedError(message)
    return OrchestratorUnreachableError(message)
