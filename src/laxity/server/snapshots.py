"""The same bytes for everybody: what a client asks for is made at most once a period.

However many clients look, the service is asked once, the answer written as JSON once and
compressed once. A page that nobody asks for costs nothing.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from laxity.clock import Clock
from laxity.server.views import plain

_MOST_PAGES = 512
"""Pages kept at a time: names come from clients, memory must not."""


@dataclass(frozen=True, slots=True)
class Page:
    """An answer as it is sent."""

    body: bytes
    packed: bytes
    tag: bytes
    made: float

    @classmethod
    def of(cls, body: bytes, made: float) -> Page:
        tag = b'"' + blake2b(body, digest_size=9).hexdigest().encode() + b'"'
        return cls(body, gzip.compress(body, compresslevel=1, mtime=0), tag, made)


def as_json(value: Any) -> bytes:
    text = json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", errors="replace")


class Pages:
    """Answers by key, each made anew when older than the period and asked for."""

    def __init__(self, clock: Clock, period: float) -> None:
        self._clock = clock
        self._period = period
        self._pages: OrderedDict[str, Page] = OrderedDict()
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = {}
        self.made = 0

    def fresh(self, key: str) -> Page | None:
        """The page if it needs no making: what every client but one a period gets."""
        page = self._pages.get(key)
        if page is not None and self._clock.now() - page.made < self._period:
            return page
        return None

    def get(self, key: str, make: Callable[[], bytes]) -> Page:
        """The page, made by the first who asks while the others wait for it."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        try:
            with making:
                page = self.fresh(key)
                if page is None:
                    now = self._clock.now()
                    page = Page.of(make(), now)
                    self._keep(key, page)
                return page
        finally:
            with self._lock:
                if not making.locked():
                    self._making.pop(key, None)

    def _keep(self, key: str, page: Page) -> None:
        with self._lock:
            self._pages[key] = page
            self._pages.move_to_end(key)
            self.made += 1
            while len(self._pages) > _MOST_PAGES:
                self._pages.popitem(last=False)

    def forget(self) -> None:
        """After a change: what is shown next must show it."""
        with self._lock:
            self._pages.clear()
