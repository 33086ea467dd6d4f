"""What a policy is given and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from laxity.core.progress import ProgressLine
from laxity.core.rules import Base, PriorityRule
from laxity.core.windows import Window


@dataclass(frozen=True, slots=True)
class Situation:
    """All that is known of a stage when its rule is compiled.

    `window` is the window that a message here helps to complete, or None where it triggers at
    once; `line` is the progress map, or None while it is unknown. A policy needs both to
    extend a deadline.
    """

    target: float
    cost: float
    path_cost: float
    window: Window | None = None
    line: ProgressLine | None = None

    def due(self, offset: float) -> PriorityRule:
        """When the result's last event arrives, plus `offset`: the base of every policy that
        looks at deadlines. Frontier time where semantics are known (equation 3), the message's
        own arrival otherwise (equations 1 and 2)."""
        if self.line is None or self.window is None:
            return PriorityRule(Base.ARRIVAL, offset)
        window = self.window
        return PriorityRule(
            Base.FRONTIER, offset, window.slide, window.origin, window.delay, self.line
        )


@runtime_checkable
class Policy(Protocol):
    """A scheduling policy. Small on purpose: everything a scheduler asks of it is a rule."""

    @property
    def name(self) -> str: ...

    @property
    def needs_tokens(self) -> bool:
        """Should sources draw a token for each message?"""
        ...

    def rule(self, situation: Situation) -> PriorityRule: ...
