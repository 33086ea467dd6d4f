"""What a run shows itself through: dashboard, API and metrics at an address, events in a file or at
a webhook. They are opened before Spark is started, so that an address in use or a folder that
cannot be written is said at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from laxity.core.errors import LaxityError
from laxity.server.service import Service
from laxity.spark.run_settings import RunSettings

if TYPE_CHECKING:
    from laxity.server.serving import Door
    from laxity.server.sinks import Sink


class MissingServerError(LaxityError, ImportError):
    """The packages of the server are an extra."""

    __str__ = Exception.__str__


class Outlets:
    def __init__(self, door: Door | None, sinks: list[Sink], period: float) -> None:
        self._door = door
        self._sinks = sinks
        self._period = period
        self._stops = [] if door is None else [door.close]
        self._stops += [sink.close for sink in sinks]

    def open_to(self, service: Service) -> list[str]:
        """Start to show a service; returns what there is to say about it."""
        if self._door is not None:
            from laxity.server.serving import Server

            server = Server(service, self._door, period=self._period, sinks=self._sinks).start()
            self._stops = [server.watch.look, server.stop]  # a last look, or the end is not told
            page = server.url if server.access.given else server.private_url
            return [f"dashboard   {page}", f"metrics     {server.url}/metrics"]
        if self._sinks:
            from laxity.server.watch import Watch

            watch = Watch(service, period=self._period, sinks=self._sinks)
            watch.start()
            self._stops = [watch.look, watch.stop]
        return []

    def close(self) -> None:
        stops, self._stops = self._stops, []
        for stop in stops:
            stop()


@contextmanager
def open_outlets(settings: RunSettings) -> Iterator[Outlets]:
    outlets = _open(settings)
    try:
        yield outlets
    finally:
        outlets.close()


def _open(settings: RunSettings) -> Outlets:
    wanted = settings.serve or settings.events_file is not None or settings.webhook is not None
    if not wanted:
        return Outlets(None, [], settings.period)
    try:
        from laxity.server.serving import Door
        from laxity.server.sinks import JsonLines, Webhook
    except ImportError as error:
        raise MissingServerError(
            f"dashboard and events need {error.name}: pip install 'laxity[server]', "
            f"or use --no-server and no events"
        ) from error
    door = Door(settings.address, settings.token) if settings.serve else None
    sinks: list[Sink] = []
    try:
        if settings.events_file is not None:
            sinks.append(JsonLines(settings.events_file))
        if settings.webhook is not None:
            sinks.append(Webhook(settings.webhook))
    except LaxityError:
        if door is not None:
            door.close()
        raise
    return Outlets(door, sinks, settings.period)
