"""What can go wrong when attaching to Spark, each with the way out."""

from __future__ import annotations

from laxity.core.errors import LaxityError


class SparkConnectError(LaxityError, TypeError):
    """A Spark Connect session: its driver is elsewhere, out of reach of the hooks."""


class UnsupportedSparkError(LaxityError, RuntimeError):
    """A Spark version whose insides Laxity has not been tested with."""


class HookError(LaxityError, RuntimeError):
    """A hook could not be put into this Spark."""


class AlreadyAttachedError(LaxityError, RuntimeError):
    """One Laxity to a Spark application."""


class NotAttachedError(LaxityError, RuntimeError):
    """The handle was detached, or its session stopped."""


class UnknownQueryError(LaxityError, KeyError):
    """No query of that name is known."""

    __str__ = Exception.__str__


class DuplicateQueryError(LaxityError, ValueError):
    """Query names are unique within a session."""


class NotAWriterError(LaxityError, TypeError):
    """Something else than a DataStreamWriter was given to start."""


class InvalidCapError(LaxityError, ValueError):
    """A cap that is neither a number of slots nor a share of them."""


class InvalidSettingError(LaxityError, ValueError):
    """An option of `attach` with a value it cannot have."""
