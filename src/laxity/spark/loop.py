"""The thread that ticks: report in, decisions out, a few times a second.

If it dies or stalls nothing stops: decisions go stale in the JVM and Spark schedules on its own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from laxity.clock import Clock

log = logging.getLogger("laxity")


class Loop:
    """Calls `tick(now)` every `period` seconds in a daemon thread until stopped."""

    def __init__(self, tick: Callable[[float], None], period: float, clock: Clock) -> None:
        self._tick = tick
        self._period = period
        self._clock = clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="laxity-loop", daemon=True)
        self._failing = False
        self.cpu_seconds = 0.0
        self.ticks = 0
        self.last_success = clock.now()

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._step()
            self._stop.wait(self._period)

    def _step(self) -> None:
        before = time.thread_time()
        try:
            self._tick(self._clock.now())
            self.last_success = self._clock.now()
            if self._failing:
                self._failing = False
                log.warning("Laxity's loop has recovered")
        except Exception as error:
            if not self._failing and not self._stop.is_set():
                self._failing = True
                log.warning(
                    "Laxity's loop failed (%s: %s); Spark schedules on its own until it recovers",
                    type(error).__name__,
                    error,
                    exc_info=log.isEnabledFor(logging.DEBUG),
                )
        self.cpu_seconds += time.thread_time() - before
        self.ticks += 1
