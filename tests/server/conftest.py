"""A scripted service behind a real server."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the server needs: pip install 'laxity[server]'")

from laxity.server.serving import Server
from laxity.server.testing import ScriptedQuery, ScriptedService

TOKEN = "a-token-of-some-length"


@dataclass
class Answer:
    status: int
    headers: Message
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Plain HTTP, with the token unless told otherwise."""

    def __init__(self, url: str, token: str | None = TOKEN) -> None:
        self.url = url
        self.token = token

    def __call__(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        data = (
            body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        )
        request = urllib.request.Request(self.url + path, data=data, method=method)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return Answer(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read())

    def get(self, path: str, **headers: str) -> Answer:
        return self("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})


def scripted() -> ScriptedService:
    service = ScriptedService(
        ScriptedQuery("alerts", "ads", target=0.8),
        ScriptedQuery("bulk", "reports", target=7200.0),
        ScriptedQuery("copy", "reports"),
    )
    now = time.time()
    for second in range(60):
        service.queries["alerts"].emit(now - 60 + second, 1.2 if second % 3 == 0 else 0.3)
        service.queries["bulk"].emit(now - 60 + second, 4.0)
    return service


@pytest.fixture
def service() -> ScriptedService:
    return scripted()


@pytest.fixture
def server(service: ScriptedService) -> Iterator[Server]:
    with Server(service, "127.0.0.1:0", token=TOKEN, dashboard=False, period=0.2) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Client:
    return Client(server.url)
