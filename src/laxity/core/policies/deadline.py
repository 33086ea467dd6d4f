"""The two policies that look at deadlines (§4.2)."""

from __future__ import annotations

from laxity.core.policies.api import Situation
from laxity.core.rules import PriorityRule


class LeastLaxityFirst:
    """ddl_M = t_MF + L − C_oM − C_path (equations 1 to 3): the latest moment to start."""

    name = "llf"
    needs_tokens = False

    def rule(self, situation: Situation) -> PriorityRule:
        return situation.due(situation.target - situation.cost - situation.path_cost)


class EarliestDeadlineFirst:
    """The deadline before the operator executes: LLF without C_oM."""

    name = "edf"
    needs_tokens = False

    def rule(self, situation: Situation) -> PriorityRule:
        return situation.due(situation.target - situation.path_cost)
