"""Scheduling policies: from metrics to priorities of operators. Higher runs first."""

from laxity.host.policies.api import HostPolicy, Level, View
from laxity.host.policies.builtin import (
    Constant,
    FirstComeFirstServed,
    HighestRate,
    LeastLaxity,
    QueueSize,
    Random,
    make_policy,
)

__all__ = [
    "Constant",
    "FirstComeFirstServed",
    "HighestRate",
    "HostPolicy",
    "LeastLaxity",
    "Level",
    "QueueSize",
    "Random",
    "View",
    "make_policy",
]
