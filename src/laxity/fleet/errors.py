"""Errors of the fleet level."""

from __future__ import annotations

from laxity.core.errors import LaxityError


class InvalidRingError(LaxityError, ValueError):
    """A shape no prediction ring can have, or values and rings that do not fit together."""


class InvalidForecastError(LaxityError, ValueError):
    """A setting of a forecast, or an observation, that makes no sense."""


class InvalidFleetSettingsError(LaxityError, ValueError):
    """A setting of scores or decisions that is out of range."""


class UnknownNodeError(LaxityError, KeyError):
    """A node the fleet has no report of."""

    __str__ = Exception.__str__  # KeyError would show the message in quotes


class UnknownComputationError(LaxityError, KeyError):
    """A computation nobody has registered."""

    __str__ = Exception.__str__


class MissingForecastLibraryError(LaxityError, ImportError):
    """statsmodels is not installed."""
