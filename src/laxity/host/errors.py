"""Errors of the host level."""

from __future__ import annotations

from laxity.core.errors import LaxityError


class HostError(LaxityError):
    """Base of the host level's errors."""


class MissingMetricError(HostError, KeyError):
    """A policy needs a metric that a driver neither gives nor lets be computed."""

    __str__ = Exception.__str__  # KeyError would show the message in quotes


class InvalidHostConfigError(HostError, ValueError):
    """A configuration that cannot be run."""


class InvalidScheduleError(HostError, ValueError):
    """A priority or a scale that no translator could give a meaning to."""


class DriverError(HostError, RuntimeError):
    """An engine that cannot be read now; the loop reports it once and tries again."""


class EngineTimeoutError(DriverError, TimeoutError):
    """An engine that did not answer within its period."""


class HostBusyError(HostError, RuntimeError):
    """Another host loop holds the journal of that name."""
