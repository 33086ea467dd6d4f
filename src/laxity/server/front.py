"""The door: every request passes here first.

It refuses what may not come in, answers what is ready-made without waking the framework (that is
what lets hundreds of clients look at next to no cost), and hands on the rest.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from laxity.server.access import Access, Refusal
from laxity.server.metrics import CONTENT_TYPE
from laxity.server.snapshots import Page
from laxity.server.watch import Watch

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LARGEST_BODY = 64 * 1024

_JSON = b"application/json"
_OPEN = ("/healthz",)
_DATA = ("/api", "/metrics")
"""Paths below these show or change something; all others are the dashboard's own files."""

_PAGES = "/api/v1/"
_WITH_QUERY = ("timeline", "events")

_TAKING = {
    ("PATCH", "/api/v1/queries", False),
    ("POST", "/api/v1/queries", True),
    ("PUT", "/api/v1/tenants", False),
}
"""(method, beginning of the path, whether it ends in /control) of what has a body."""

_FOR_DATA = [
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
"""What a page of data needs; what is below is for whatever a browser might show."""

_HARDENING = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]


class Front:
    def __init__(self, watch: Watch, access: Access, api: App, dashboard: App | None) -> None:
        self._watch = watch
        self._access = access
        self._api = api
        self._dashboard = dashboard
        self._content_policy: bytes | None = None

    def allow_scripts(self, policy: str) -> None:
        """The content security policy of HTML pages."""
        self._content_policy = policy.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._api(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        path: str = scope["path"]
        reading = scope["method"] in ("GET", "HEAD")
        data = path.startswith(_DATA)
        refusal = self._refusal(scope, path, reading=reading, data=data)
        if refusal is not None:
            await _refuse(send, refusal)
            return
        if reading and data:
            page = self._ready(path, scope["query_string"])
            if page is not None:
                await _send_page(scope, send, page, _content_type(path))
                return
        app = self._api if data or path in _OPEN or self._dashboard is None else self._dashboard
        await app(scope, _limited(receive), self._hardened(send))

    def _refusal(self, scope: Scope, path: str, *, reading: bool, data: bool) -> Refusal | None:
        if path in _OPEN and reading:
            return None
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        if not data:
            # The dashboard's page and scripts hold nothing of the service: it asks the API.
            if not reading:
                return Refusal(405, "only GET is answered here; changes go to /api")
            return self._access.refuse_host(headers)
        if reading:
            return self._access.refuse_reading(headers)
        refusal = self._access.refuse_changing(headers)
        if refusal is not None:
            return refusal
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            return Refusal(413, f"a body may have {LARGEST_BODY} bytes")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        takes_json = (scope["method"], path[:15], path.endswith("/control")) in _TAKING
        if takes_json and kind != "application/json":
            return Refusal(415, "send JSON: 'Content-Type: application/json'")
        return None

    def _ready(self, path: str, query: bytes) -> Page | None:
        """Pages that are made ahead, or were made in this period already. An address that is
        written in another way than the dashboard writes it takes the long way."""
        if path == "/metrics":
            return self._watch.pages.fresh("metrics")
        if path.startswith(_PAGES):
            asked = path[len(_PAGES) :]
            if not query:
                return self._watch.ready(asked)
            if asked in _WITH_QUERY:
                return self._watch.ready(f"{asked}?{query.decode('latin-1')}")
        return None

    def _hardened(self, send: Send) -> Send:
        async def wrapped(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", []), *_HARDENING]
                kind = dict(headers).get(b"content-type", b"")
                if kind.startswith(b"text/html") and self._content_policy is not None:
                    headers.append((b"content-security-policy", self._content_policy))
                message = {**message, "headers": headers}
            await send(message)

        return wrapped


def _content_type(path: str) -> bytes:
    return CONTENT_TYPE.encode() if path == "/metrics" else _JSON


async def _send_page(scope: Scope, send: Send, page: Page, kind: bytes) -> None:
    packed = False
    for name, value in scope["headers"]:
        if name == b"if-none-match" and value == page.tag:
            headers = [(b"etag", page.tag), (b"cache-control", b"no-cache")]
            await send({"type": "http.response.start", "status": 304, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        if name == b"accept-encoding" and b"gzip" in value:
            packed = True
    body = page.packed if packed else page.body
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"etag", page.tag),
        (b"cache-control", b"no-cache"),
        (b"vary", b"accept-encoding"),
        *_FOR_DATA,
    ]
    if packed:
        headers.append((b"content-encoding", b"gzip"))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


async def _refuse(send: Send, refusal: Refusal) -> None:
    body = json.dumps({"error": refusal.reason}).encode()
    headers = [
        (b"content-type", _JSON),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # whatever else the client meant to send is not read
        *_HARDENING,
    ]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="laxity"'))
    if refusal.status == 405:
        headers.append((b"allow", b"GET, HEAD"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _limited(receive: Receive) -> Receive:
    """A body without a length is counted as it comes; what is too long ends early."""
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > LARGEST_BODY:
            return {"type": "http.disconnect"}
        return message

    return counted
