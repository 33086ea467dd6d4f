"""Policies that know no deadlines, for comparison."""

from __future__ import annotations

from laxity.core.policies.api import Situation
from laxity.core.rules import Base, PriorityRule


class ShortestJobFirst:
    """ddl_M = C_oM: whatever is done soonest (§4.2.2)."""

    name = "sjf"
    needs_tokens = False

    def rule(self, situation: Situation) -> PriorityRule:
        return PriorityRule(Base.CONSTANT, situation.cost)


class FirstInFirstOut:
    """Everything is equal, and ties go by arrival: on Spark, exactly its own FIFO order."""

    name = "fifo"
    needs_tokens = False

    def rule(self, situation: Situation) -> PriorityRule:
        return PriorityRule(Base.CONSTANT, 0.0)
