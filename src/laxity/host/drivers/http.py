"""A small HTTP reader for loopback REST APIs: one kept-alive connection, hard limits."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from laxity.host.errors import DriverError, InvalidHostConfigError

_LARGEST_ANSWER = 32 * 1024 * 1024


class RestClient:
    """`timeout` bounds each wait for the server, `first` the one for its first answer, which a
    cold server may take seconds for; the loop's fetcher bounds the whole."""

    def __init__(self, url: str, timeout: float = 1.0, first: float = 0.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidHostConfigError(
                f"{url!r} is not an address of an engine; write http://host:port"
            )
        self.url = url.rstrip("/")
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self._base = parts.path.rstrip("/")
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else (http.client.HTTPConnection)
        )
        self._timeout = timeout
        self._connection = kind(parts.hostname, parts.port, timeout=max(timeout, first))

    def text(self, path: str = "") -> str:
        """A kept-alive connection may have been closed by the other side: tried once anew."""
        for attempt in (1, 2):
            reused = self._connection.sock is not None
            try:
                self._connection.request("GET", self._base + path)
                response = self._connection.getresponse()
                body = response.read(_LARGEST_ANSWER)
                self._be_patient_no_more()
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                if reused and attempt == 1 and not isinstance(error, TimeoutError):
                    continue
                raise DriverError(f"{self.url}{path}: {error or type(error).__name__}") from None
            if response.status != 200:
                self._connection.close()
                raise DriverError(f"{self.url}{path} answered {response.status} {response.reason}")
            return body.decode(errors="replace")
        raise AssertionError("unreachable")

    def _be_patient_no_more(self) -> None:
        self._connection.timeout = self._timeout
        if self._connection.sock is not None:
            self._connection.sock.settimeout(self._timeout)

    def json(self, path: str) -> Any:
        text = self.text(path)
        try:
            return json.loads(text)
        except ValueError:
            raise DriverError(f"{self.url}{path} did not answer with JSON") from None

    def close(self) -> None:
        self._connection.close()
