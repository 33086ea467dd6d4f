"""What actor systems such as Orleans do by default (§3, figure 4): the baseline.

Operators with messages take turns in the order they became ready; messages of an operator are
served in order of arrival. Used as the `queue` of a scheduler, whose quantum is then the length
of a turn. Priorities are taken and ignored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from laxity.core.errors import SchedulingError, UnknownOperatorError
from laxity.core.queue import Next

M = TypeVar("M")

_NO_PRIORITY = 0.0


class FairShareQueue(Generic[M]):
    def __init__(self) -> None:
        self._messages: dict[Hashable, deque[tuple[int, M]]] = {}
        self._groups: dict[Hashable, list[Hashable]] = {}
        self._turns: deque[Hashable] = deque()
        self._busy: set[Hashable] = set()
        self._pushed = 0

    def __len__(self) -> int:
        return sum(map(len, self._messages.values()))

    def add_operator(self, operator: Hashable, group: Hashable = None) -> None:
        if operator in self._messages:
            raise SchedulingError(f"operator {operator} is there already")
        self._messages[operator] = deque()
        self._groups.setdefault(group, []).append(operator)

    def remove_group(self, group: Hashable) -> list[M]:
        removed: list[tuple[int, M]] = []
        for operator in self._groups.pop(group, ()):
            removed += self._messages.pop(operator)
            self._busy.discard(operator)
            if operator in self._turns:
                self._turns.remove(operator)
        return [message for _, message in sorted(removed, key=lambda entry: entry[0])]

    def push(self, operator: Hashable, message: M, local: float, priority: float) -> None:
        waiting = self._messages.get(operator)
        if waiting is None:
            raise UnknownOperatorError(f"operator {operator} is not in the queue; add it first")
        if not waiting and operator not in self._busy:
            self._turns.append(operator)
        self._pushed += 1
        waiting.append((self._pushed, message))

    def pop(self) -> Next[M] | None:
        if not self._turns:
            return None
        operator = self._turns.popleft()
        self._busy.add(operator)
        return self.pop_from(operator)

    def pop_from(self, operator: Hashable) -> Next[M] | None:
        waiting = self._messages.get(operator)
        if not waiting:
            return None
        if operator not in self._busy:
            raise SchedulingError(f"operator {operator} is not running")
        return operator, waiting.popleft()[1], _NO_PRIORITY

    def release(self, operator: Hashable) -> None:
        if operator not in self._messages:
            return  # its group left while it ran
        if operator not in self._busy:
            raise SchedulingError(f"operator {operator} is not running")
        self._busy.remove(operator)
        if self._messages[operator]:
            self._turns.append(operator)

    def release_and_pop(self, operator: Hashable) -> Next[M] | None:
        self.release(operator)
        return self.pop()

    def pending(self, operator: Hashable) -> int:
        return len(self._messages.get(operator, ()))
