"""Errors of the simulator."""

from __future__ import annotations

from laxity.core.errors import LaxityError


class InvalidSimulationError(LaxityError, ValueError):
    """A cluster, dataflow or source that cannot be simulated."""
