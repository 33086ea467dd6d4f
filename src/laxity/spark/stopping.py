"""How a run is told to end, from its first moment on."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopping:
    """SIGTERM and SIGINT end a run; the second one does not wait for batches."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.hurry = threading.Event()
        self.signal = ""

    @contextmanager
    def on_signals(self) -> Iterator[Stopping]:
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        self.listen()
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def listen(self) -> None:
        """Once more after a session has started: PySpark sets a handler of its own."""
        for number in _SIGNALS:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked.is_set():
            self.hurry.set()
        self.signal = signal.Signals(number).name
        self.asked.set()


class _Sparing:
    """Service managers and shells signal a whole group. A JVM that was forked while SIGTERM was
    ignored goes on ignoring it, so that it lives until its queries have been stopped; it ends with
    us in any case. Only the fork itself is done so: what arrives later is heard."""

    def __init__(self) -> None:
        self.wanted = False
        self._handler: Any = None
        os.register_at_fork(before=self._before, after_in_parent=self._after)

    def _concerned(self) -> bool:
        return self.wanted and threading.current_thread() is threading.main_thread()

    def _before(self) -> None:
        if self._concerned():
            self._handler = signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def _after(self) -> None:
        if self._concerned():
            signal.signal(signal.SIGTERM, self._handler)


_sparing: _Sparing | None = None


@contextmanager
def sparing_the_jvm() -> Iterator[None]:
    """Around the start of a session."""
    global _sparing
    _sparing = _sparing or _Sparing()
    _sparing.wanted = True
    try:
        yield
    finally:
        _sparing.wanted = False
