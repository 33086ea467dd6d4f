"""Another server as a `Service`: for `laxity top` and `laxity dashboard`. Standard library only."""

from __future__ import annotations

import http.client
import json
import types
import typing
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from laxity.core.errors import LaxityError
from laxity.server.control import Control, Operation
from laxity.server.service import NotFoundError, RefusedError, UnavailableError
from laxity.server.views import Overview, QueryDetail, Timeline

_OPERATION = 600.0
"""An operation waits for a boundary, and may read and write a query's whole state."""


class RemoteError(LaxityError, ValueError):
    """An address that is no Laxity's, or a token it does not take."""


def normal_address(text: str) -> str:
    """`8642`, `host:8642` or a whole address; without a path."""
    if text.isdecimal():
        text = f"127.0.0.1:{text}"
    if "://" not in text:
        text = f"http://{text}"
    parts = urllib.parse.urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RemoteError(f"{text!r} is not an address: write http://HOST:PORT")
    return f"{parts.scheme}://{parts.netloc}"


class RemoteService:
    def __init__(self, address: str, token: str | None = None, *, timeout: float = 5.0) -> None:
        self.address = normal_address(address)
        self._token = token
        self._timeout = timeout

    def overview(self) -> Overview:
        return typing.cast(Overview, revive(Overview, self._call("GET", "/overview")))

    def detail(self, name: str) -> QueryDetail:
        found = self._call("GET", f"/queries/{urllib.parse.quote(name, safe='')}")
        return typing.cast(QueryDetail, revive(QueryDetail, found))

    def timeline(self, seconds: float) -> Timeline:
        found = self._call("GET", f"/timeline?seconds={seconds:g}")
        return typing.cast(Timeline, revive(Timeline, found))

    def set_target(self, name: str, target: float | None) -> None:
        self._change_query(name, {"target": target})

    def set_paused(self, name: str, paused: bool) -> None:
        self._change_query(name, {"paused": paused})

    def _change_query(self, name: str, change: dict[str, Any]) -> None:
        self._call("PATCH", f"/queries/{urllib.parse.quote(name, safe='')}", change)

    def control(self, name: str) -> Control:
        return typing.cast(Control, revive(Control, self._call("GET", _control_path(name))))

    def operate(
        self, name: str, operation: str, arguments: Mapping[str, Any], by: str
    ) -> Operation:
        order = {"operation": operation, "arguments": dict(arguments), "by": by}
        found = self._call("POST", _control_path(name), order, timeout=_OPERATION)
        return typing.cast(Operation, revive(Operation, found))

    def set_cap(self, tenant: str, *, slots: int | None, share: float | None) -> None:
        path = f"/tenants/{urllib.parse.quote(tenant, safe='')}/cap"
        if slots is None and share is None:
            self._call("DELETE", path)
        else:
            self._call("PUT", path, {"share": share} if slots is None else {"slots": slots})

    def _call(
        self, method: str, path: str, body: object = None, *, timeout: float | None = None
    ) -> Any:
        request = urllib.request.Request(f"{self.address}/api/v1{path}", method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if self._token is not None:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=timeout or self._timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                reason = _reason(error)
            self._raise(error.code, reason)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or str(error)
            raise UnavailableError(f"{self.address} cannot be reached: {reason}") from error
        except ValueError as error:
            raise RemoteError(f"{self.address} answers, but it is not Laxity's server") from error

    def _raise(self, status: int, reason: str) -> None:
        if status == 401:
            raise RemoteError(f"{self.address}: {reason}; use --token-file FILE")
        if status == 404:
            raise NotFoundError(reason)
        if status >= 500:
            raise UnavailableError(reason)
        raise RefusedError(reason)


def _control_path(name: str) -> str:
    return f"/queries/{urllib.parse.quote(name, safe='')}/control"


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"status {error.code}"


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def revive(kind: Any, value: Any) -> Any:
    """A view from its JSON. Fields that a newer server added are left out."""
    if value is None:
        return None
    if is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(value, dict):
            raise ValueError("an object was expected")
        hints = _hints(kind)
        known = {f.name for f in fields(kind)} & value.keys()
        return kind(**{name: revive(hints[name], value[name]) for name in known})
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return revive(next(a for a in typing.get_args(kind) if a is not type(None)), value)
    if origin is tuple:
        return tuple(revive(typing.get_args(kind)[0], item) for item in value)
    if origin is Mapping:
        return dict(value)
    return value
