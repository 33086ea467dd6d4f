"""Deadline-monotonic scheduling, as a policy anyone could have written.

The tighter a query's target, the higher its (fixed) priority: the classical choice of static
real-time systems. Unlike the deadline policies it never looks at time, so a query with a lax
target can starve under load; that is what Laxity's default avoids.
"""

from laxity.core.policies import Situation
from laxity.core.rules import Base, PriorityRule


class DeadlineMonotonic:
    name = "deadline-monotonic"
    needs_tokens = False

    def rule(self, situation: Situation) -> PriorityRule:
        return PriorityRule(Base.CONSTANT, situation.target)
