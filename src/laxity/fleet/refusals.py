"""What a running fleet refuses, each with the way out."""

from __future__ import annotations

from laxity.core.errors import LaxityError


class FleetError(LaxityError):
    """Base of the errors of a running fleet."""


class RefusedError(FleetError, ValueError):
    """A request that was refused before anything was touched."""


class NodeUnknownError(RefusedError, KeyError):
    """A node no agent has reported from."""

    __str__ = Exception.__str__  # KeyError would show the message in quotes


class QueryUnknownError(RefusedError, KeyError):
    """A query no pipeline of this fleet has."""

    __str__ = Exception.__str__


class VersionMismatchError(RefusedError):
    """Two applications whose checkpoints may not be readable to each other."""


class CheckpointNotSharedError(RefusedError):
    """The target does not see the checkpoint the source writes."""


class PreparationError(RefusedError):
    """The target cannot run the query as it was placed."""


class OrchestratorUnreachableError(FleetError, ConnectionError):
    """No orchestrator answers."""


class NotAuthorisedError(FleetError, PermissionError):
    """A request without this fleet's token."""


class StoreAwayError(FleetError, OSError):
    """The checkpoint store, or the fleet's own store, cannot be read or written now."""


class LeaseHeldError(FleetError, RuntimeError):
    """Another application runs the query, as far as its lease shows."""


class FencedError(FleetError, RuntimeError):
    """The lease is somebody else's by now: whatever this application still does, it must not
    commit."""


class StaleOrderError(FleetError, RuntimeError):
    """An order older than the one the checkpoint was last opened under."""

    def __init__(self, message: str, newest: int) -> None:
        super().__init__(message)
        self.newest = newest
