"""What a batch costs by its size: a fixed part and a part for each row.

Both matter apart: the fixed part is paid for every batch however small, so it says how many
batches are too many; the other says how much work may be left for the last one.
"""

from __future__ import annotations

from laxity.core.costs import check_cost


class CostLine:
    """Least squares over measurements whose weight fades, each by `fade` with the next.

    Neither part is ever negative. While all sizes are alike the two cannot be told apart, and all
    counts as fixed: nothing is promised from making batches smaller.
    """

    __slots__ = ("_n", "_x", "_xx", "_xy", "_y", "count", "fade")

    def __init__(self, *, fade: float = 0.95) -> None:
        self.fade = fade
        self.count = 0
        self._n = self._x = self._y = self._xx = self._xy = 0.0

    def update(self, rows: float, cost: float) -> None:
        check_cost(cost)
        self.count += 1
        fade = self.fade
        self._n = fade * self._n + 1.0
        self._x = fade * self._x + rows
        self._y = fade * self._y + cost
        self._xx = fade * self._xx + rows * rows
        self._xy = fade * self._xy + rows * cost

    @property
    def per_row(self) -> float:
        return self._parts()[1]

    @property
    def fixed(self) -> float:
        return self._parts()[0]

    def __call__(self, rows: float) -> float:
        fixed, per_row = self._parts()
        return fixed + per_row * rows

    def _parts(self) -> tuple[float, float]:
        if self._n == 0.0:
            return 0.0, 0.0
        mean_x, mean_y = self._x / self._n, self._y / self._n
        spread = self._xx / self._n - mean_x * mean_x
        if spread <= (0.05 * mean_x) ** 2:
            return mean_y, 0.0
        slope = (self._xy / self._n - mean_x * mean_y) / spread
        slope = min(max(0.0, slope), mean_y / mean_x if mean_x > 0 else 0.0)
        return mean_y - slope * mean_x, slope
