"""The seam between what is shown and what runs: an attached Spark, or another server."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from laxity.core.errors import LaxityError
from laxity.server.views import Overview, QueryDetail, Timeline


class NotFoundError(LaxityError, LookupError):
    """No query or tenant of that name."""


class UnavailableError(LaxityError, RuntimeError):
    """What is served has stopped, or cannot be reached."""


class RefusedError(LaxityError, ValueError):
    """A change that makes no sense; the message says why."""


@runtime_checkable
class Service(Protocol):
    """Called from the server's threads; methods may block for moments, never for long."""

    def overview(self) -> Overview: ...

    def detail(self, name: str) -> QueryDetail:
        """One query by name or id; `NotFoundError` if there is none."""
        ...

    def timeline(self, seconds: float) -> Timeline:
        """What ran, and what waited, in the last `seconds`."""
        ...

    def set_target(self, name: str, target: float | None) -> None: ...

    def set_paused(self, name: str, paused: bool) -> None: ...

    def set_cap(self, tenant: str, *, slots: int | None, share: float | None) -> None:
        """At most so many tasks at a time, or a share of all cores; neither lifts the cap."""
        ...
