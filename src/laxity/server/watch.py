"""Looks at the service once a period, tells what changed, and keeps what clients are sent."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

from laxity.clock import Clock, SystemClock
from laxity.server.events import Detector, EventLog
from laxity.server.metrics import exposition
from laxity.server.service import Service, UnavailableError
from laxity.server.sinks import Sink
from laxity.server.snapshots import Page, Pages, as_json
from laxity.server.views import Overview

log = logging.getLogger("laxity")

OVERVIEW = "overview"


class Watch:
    """The one who asks the service. Everybody else is served from here."""

    def __init__(
        self,
        service: Service,
        *,
        period: float = 1.0,
        sinks: Iterable[Sink] = (),
        clock: Clock | None = None,
    ) -> None:
        self.service = service
        self.period = period
        self.events = EventLog()
        self._clock = clock or SystemClock()
        # A page lives a little shorter than the time between two looks, so that a client that
        # polls once a period never gets the same one twice for a hair's breadth.
        self.pages = Pages(self._clock, 0.9 * period)
        # What takes more work lives as long as a dashboard waits between two looks.
        self.heavy = Pages(self._clock, 1.9 * period)
        self._sinks = list(sinks)
        self._detector = Detector()
        self._telling = threading.Lock()
        self._latest: tuple[Overview, Page] | None = None
        self._lost = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="laxity-watch", daemon=True)

    def start(self) -> None:
        self.look()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(5.0)
        for sink in self._sinks:
            sink.close()

    def _run(self) -> None:
        while not self._stop.wait(self.period):
            self.look()

    def look(self) -> None:
        """Take a snapshot and tell what it shows."""
        try:
            overview = self.service.overview()
        except UnavailableError:
            self._latest = None
            return
        except Exception as error:  # what is watched may break; the watch goes on
            if not self._lost:
                self._lost = True
                log.warning("no snapshot could be taken: %s: %s", type(error).__name__, error)
            self._latest = None
            return
        self._lost = False
        self._latest = overview, Page.of(as_json(overview), self._clock.now())
        with self._telling:
            for event in self._detector.observe(overview):
                self.events.add(event)
                for sink in self._sinks:
                    sink.send(event)

    def overview(self) -> Overview:
        if self._latest is None:
            raise UnavailableError("what is served here has stopped or is not ready yet")
        return self._latest[0]

    def overview_page(self) -> Page | None:
        latest = self._latest
        return None if latest is None else latest[1]

    def metrics_page(self) -> Page:
        return self.pages.get("metrics", lambda: exposition(self.overview()))

    def detail_page(self, name: str) -> Page:
        return self.heavy.get(f"queries/{name}", lambda: as_json(self.service.detail(name)))

    def timeline_page(self, seconds: float) -> Page:
        key = f"timeline?seconds={seconds:g}"
        return self.heavy.get(key, lambda: as_json(self.service.timeline(seconds)))

    def events_page(self, since: int, limit: int) -> Page:
        key = f"events?since={since}&limit={limit}" if since else f"events?limit={limit}"
        return self.pages.get(key, lambda: as_json({"events": self.events.since(since, limit)}))

    def ready(self, asked: str) -> Page | None:
        """A page below /api/v1 that needs no making, by what its address says after that: what
        every client but one a period gets."""
        if asked == OVERVIEW:
            return self.overview_page()
        return self.heavy.fresh(asked) or self.pages.fresh(asked)

    def changed(self, query: str, tenant: str, message: str, **details: object) -> None:
        """Note a change, and let everybody see it at once."""
        with self._telling:
            event = self._detector.changed(self._clock.now(), query, tenant, message, **details)
            self.events.add(event)
            for sink in self._sinks:
                sink.send(event)
        self.pages.forget()
        self.heavy.forget()
        self.look()
