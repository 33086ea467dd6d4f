"""Token fair sharing (§5.4): throughput in proportion to granted tokens."""

from __future__ import annotations

from laxity.core.policies.api import Situation
from laxity.core.rules import Base, PriorityRule


class TokenFairSharing:
    """A message runs at the time its token is tagged with; without one, after everything else.

    Sources draw tags from a `laxity.core.tokens.TokenBucket`; downstream messages inherit them.
    When capacity is short the oldest tags of all jobs are served first, so all fall behind
    alike.
    """

    name = "token"
    needs_tokens = True

    def rule(self, situation: Situation) -> PriorityRule:
        return PriorityRule(Base.TOKEN)
