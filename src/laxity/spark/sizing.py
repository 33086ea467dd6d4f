"""How much a lax query may read at a time, so that none of its tasks outlasts the quantum.

Proportional control on the longest task of each batch: a batch of n rows whose longest task took
t seconds suggests n · quantum / t. Two things outrank the quantum: the user's own limit (kept by
the hook), and keeping up, since a limit below the arrival rate would only build a backlog.
"""

from __future__ import annotations

from dataclasses import dataclass

_MOST_CHANGE = 2.0
"""Within one step a size at most doubles or halves: one odd batch must not swing it."""


@dataclass
class BatchSizer:
    """`limit` is rows or files a batch; 0 while none of ours is in force."""

    quantum: float
    unit: str | None
    limit: int = 0
    _since_lifted: int = 0

    def after_batch(
        self, *, rows: int, longest_task: float, backlog: bool, constrained: bool
    ) -> int | None:
        """The limit from the next batch on, or None if it stays.

        `constrained` says whether anybody urgent is there to make room for.
        """
        if self.unit is None or rows <= 0:
            return None
        before = self.limit
        if not constrained:
            self.limit = self._relax()
        else:
            self.limit = self._towards_quantum(rows, longest_task, backlog)
        return None if self.limit == before else self.limit

    def _relax(self) -> int:
        """Grow step by step and then let go, so that a backlog does not come in at one blow."""
        if self.limit == 0:
            return 0
        self._since_lifted += 1
        if self._since_lifted >= 6:
            return 0
        return int(self.limit * _MOST_CHANGE)

    def _towards_quantum(self, rows: int, longest_task: float, backlog: bool) -> int:
        self._since_lifted = 0
        current = self.limit or self._initial(rows)
        ratio = self.quantum / max(longest_task, 1e-3)
        if self.limit == 0 and ratio >= 1.0 and not backlog:
            return 0  # short tasks without any limit: nothing to do
        if ratio < 1.0 and backlog and self.limit:
            # It cannot keep up at this size; smaller batches would only cost more of them.
            ratio = max(ratio, 1.0)
        change = min(_MOST_CHANGE, max(1 / _MOST_CHANGE, ratio))
        return max(1, int(current * change))

    def _initial(self, rows: int) -> int:
        """Files are not counted in Spark's report; start generously and let control do it."""
        return rows if self.unit == "rows" else 64
