"""Scheduling policies. Each compiles a stage's situation into a priority rule.

The ones here are found by name like anybody's, through the entry-point group
`laxity.policies`; see `laxity.plugins`.
"""

from laxity.core.policies.api import Policy, Situation
from laxity.core.policies.deadline import EarliestDeadlineFirst, LeastLaxityFirst
from laxity.core.policies.simple import FirstInFirstOut, ShortestJobFirst
from laxity.core.policies.token import TokenFairSharing

__all__ = [
    "EarliestDeadlineFirst",
    "FirstInFirstOut",
    "LeastLaxityFirst",
    "Policy",
    "ShortestJobFirst",
    "Situation",
    "TokenFairSharing",
]
