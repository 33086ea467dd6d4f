"""What the control plane refuses, and why. Everything here is raised before anything changes."""

from __future__ import annotations

from laxity.core.errors import LaxityError


class ControlError(LaxityError):
    """Base of the errors of the control plane."""


class InvalidDataflowError(ControlError, ValueError):
    """A dataflow graph that is not a DAG, or whose routes would lose or duplicate tuples."""


class InvalidKeyRangeError(ControlError, ValueError):
    """A key range that ends before it begins, or lies outside the key space."""


class InvalidOperationError(ControlError, ValueError):
    """A control operation whose arguments make no sense for the dataflow it is meant for."""


class UnknownOperationError(ControlError, KeyError):
    """An operation's name that no class has taken."""

    __str__ = Exception.__str__


class UnknownVertexError(ControlError, KeyError):
    """An operator, or a stage, that the dataflow does not have."""

    __str__ = Exception.__str__


class UnknownParameterError(ControlError, KeyError):
    """A parameter that the operator was not started with."""

    __str__ = Exception.__str__


class UnsupportedInstructionError(ControlError, TypeError):
    """The engine behind an operator cannot carry out an instruction."""


class UnsafeOperationError(ControlError, RuntimeError):
    """State was touched where a safe operation may not: elsewhere than in its complete handler,
    or it was to be moved without blocking."""


class OperationInProgressError(ControlError, RuntimeError):
    """A second exclusive operation while one runs on the same dataflow."""


class ProtocolError(ControlError, RuntimeError):
    """A control message that cannot have been sent, or a handler called out of turn."""


class NoCheckpointError(ControlError, RuntimeError):
    """A rollback with no checkpoint to go back to."""


class StoreError(ControlError, RuntimeError):
    """The durable store cannot be opened, read or written."""
