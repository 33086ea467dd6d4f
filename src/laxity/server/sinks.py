"""Where events go beside the API: a file of JSON lines, a webhook."""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Protocol

from laxity.core.errors import LaxityError
from laxity.server.events import Event
from laxity.server.views import plain

log = logging.getLogger("laxity")


class SinkError(LaxityError, ValueError):
    """A file or address that events cannot go to."""


class Sink(Protocol):
    def send(self, event: Event) -> None:
        """Must not block: it is called where snapshots are taken."""
        ...

    def close(self) -> None: ...


def event_line(event: Event) -> str:
    return json.dumps(plain(event), ensure_ascii=False, allow_nan=False)


class JsonLines:
    """One event a line, appended and flushed: `tail -f` shows them as they come."""

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise SinkError(f"cannot write events to {path}: {error.strerror}") from error
        self._failed = False

    def send(self, event: Event) -> None:
        try:
            self._file.write(event_line(event) + "\n")
            self._file.flush()
        except OSError as error:  # a full disk must not stop what is being watched
            if not self._failed:
                self._failed = True
                log.warning("events cannot be written any more: %s", error.strerror)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()


class Webhook:
    """Posts each event as JSON, in order, from a thread of its own.

    An endpoint that is down is tried again with growing pauses; what it could not take by then
    is dropped and counted, oldest first, so that memory stays bounded.
    """

    def __init__(
        self, url: str, *, timeout: float = 5.0, tries: int = 5, pause: float = 0.5, room: int = 500
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SinkError(f"a webhook is an http or https address, got {url!r}")
        self._url = url
        self._timeout = timeout
        self._tries = tries
        self._pause = pause
        self._waiting: queue.Queue[Event | None] = queue.Queue(maxsize=room)
        self._closing = threading.Event()
        self.sent = 0
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="laxity-webhook", daemon=True)
        self._thread.start()

    def send(self, event: Event) -> None:
        while True:
            try:
                self._waiting.put_nowait(event)
                return
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self._waiting.get_nowait()
                    self.dropped += 1

    def close(self, wait: float = 2.0) -> None:
        """Give what waits a moment to leave."""
        until = time.monotonic() + wait
        while not self._waiting.empty() and time.monotonic() < until:
            time.sleep(0.02)
        self._closing.set()
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(wait)

    def _run(self) -> None:
        while not self._closing.is_set():
            event = self._waiting.get()
            if event is None:
                return
            if self._deliver(event_line(event).encode()):
                self.sent += 1
            else:
                self.dropped += 1
                if self.dropped == 1:
                    log.warning("the webhook took no event in %d tries; going on", self._tries)

    def _deliver(self, body: bytes) -> bool:
        for attempt in range(self._tries):
            if attempt and self._closing.wait(self._pause * 2 ** (attempt - 1)):
                return False
            request = urllib.request.Request(
                self._url, data=body, headers={"Content-Type": "application/json"}, method="POST"
            )
            try:
                with urllib.request.urlopen(request, timeout=self._timeout):
                    return True
            except urllib.error.HTTPError as error:
                error.close()
                if 400 <= error.code < 500 and error.code not in (408, 429):
                    return False  # it will not like it better the next time
            except OSError:
                pass
        return False
