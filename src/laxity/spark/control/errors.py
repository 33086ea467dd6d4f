"""What control on Spark refuses. All but the last two are raised before anything has changed."""

from __future__ import annotations

from laxity.control.errors import ControlError


class UnknownVariableError(ControlError, KeyError):
    """The query's plan has no variable or function of that name."""

    __str__ = Exception.__str__


class VariableTypeError(ControlError, TypeError):
    """A value that the variable's type cannot hold."""


class UnfitOperationError(ControlError, RuntimeError):
    """An operation that this query, or this version of Spark, does not allow."""


class RepartitionError(ControlError, RuntimeError):
    """A checkpoint whose state cannot be divided anew."""


class CheckpointError(ControlError, ValueError):
    """A batch that a checkpoint does not go back to."""


class NothingToUndoError(ControlError, RuntimeError):
    """No change is left to take back."""


class BoundaryTimeoutError(ControlError, TimeoutError):
    """The query did not come to the end of its batch in time, or went on before the operation was
    through."""


class OperationFailedError(ControlError, RuntimeError):
    """An operation broke off at the boundary; its cause is chained."""
