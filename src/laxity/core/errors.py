"""Every error Laxity raises on purpose derives from `LaxityError`.

A message names the offending value and says what would be accepted, so that it can be shown to
a user as it stands. Packages outside the core derive their own from these.
"""

from __future__ import annotations


class LaxityError(Exception):
    """Base of all errors a caller of Laxity is expected to handle."""


class InvalidDurationError(LaxityError, ValueError):
    """A duration that cannot be read, or that is out of range where it is used."""


class InvalidWindowError(LaxityError, ValueError):
    """A window whose size, slide or origin make no sense together."""


class InvalidJobError(LaxityError, ValueError):
    """A dataflow that is not a DAG of known, distinct stages."""


class InvalidCostError(LaxityError, ValueError):
    """A cost that is negative or not a number."""


class UnknownJobError(LaxityError, KeyError):
    """A job name nobody has registered."""

    __str__ = Exception.__str__  # KeyError would show the message in quotes


class UnknownOperatorError(LaxityError, KeyError):
    """An operator, or a stage, that its job does not have."""

    __str__ = Exception.__str__


class UnknownPolicyError(LaxityError, KeyError):
    """A policy name with no entry point behind it."""

    __str__ = Exception.__str__


class InvalidRuleError(LaxityError, ValueError):
    """A priority rule that no evaluator could give a meaning to."""


class InvalidTraceError(LaxityError, ValueError):
    """A trace that cannot be read back, or that does not replay to the same decisions."""


class SchedulingError(LaxityError, RuntimeError):
    """The scheduler was told something that cannot have happened (such as a completion of
    work it never started)."""
