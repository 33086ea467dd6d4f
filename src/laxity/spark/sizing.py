"""How much a lax query may read at a time, so that none of its tasks outlasts the quantum.

Proportional control on the longest task of each batch: a batch of n rows whose longest task took
t seconds suggests n · quantum / t. Three things outrank the quantum: the user's own limit (kept by
the hook); the fixed cost of a batch, which must not become most of it; and keeping up. A query
that falls behind gets larger batches, which cost less a row, up to many quanta.
"""

from __future__ import annotations

from dataclasses import dataclass

_MOST_CHANGE = 2.0
"""Within one step a size at most doubles or halves: one odd batch must not swing it."""
_MOST_QUANTA = 20
"""How long tasks may get where that is the price of keeping up."""


@dataclass
class BatchSizer:
    """`limit` is rows or files a batch; 0 while none of ours is in force."""

    quantum: float
    unit: str | None
    limit: int = 0
    _since_lifted: int = 0

    def after_batch(
        self,
        *,
        rows: int,
        longest_task: float,
        backlog: bool,
        constrained: bool,
        worthwhile: int = 0,
    ) -> int | None:
        """The limit from the next batch on, or None if it stays.

        `constrained` says whether anybody urgent is there to make room for; `worthwhile` is the
        size below which batches mostly pay their fixed cost.
        """
        if self.unit is None or rows <= 0:
            return None
        before = self.limit
        if not constrained:
            self.limit = self._relax()
        else:
            self.limit = self._towards_quantum(rows, longest_task, backlog)
            if self.limit and self.unit == "rows":
                self.limit = max(self.limit, worthwhile)
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
        quantum = self.quantum * (_MOST_QUANTA if backlog else 1)
        ratio = quantum / max(longest_task, 1e-3)
        binding = backlog or rows >= current
        if ratio >= 1.0 and not binding:
            return self.limit  # short tasks, and not for want of rows
        if ratio < 1.0 and not binding and self.unit == "rows":
            current = rows  # the limit was too high to matter
        change = min(_MOST_CHANGE, max(1 / _MOST_CHANGE, ratio))
        return max(1, int(current * change))

    def _initial(self, rows: int) -> int:
        """Files are not counted in Spark's report; start generously and let control do it."""
        return rows if self.unit == "rows" else 64
