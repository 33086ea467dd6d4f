"""Looking for a batch size that meets a bound on latency (Chi's figure 11)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TuningPhase:
    """A size that was tried, and what it did."""

    size: int
    latency: float
    kept_up: bool
    verdict: str
    """cannot keep up, fits, too late, or settled."""


@dataclass
class BatchSizeSearch:
    """Larger batches cost less a row and make rows wait longer: double the size until the bound is
    broken, then go back to the largest that fits. One too late from the beginning is halved."""

    bound: float
    size: int
    largest: int = 2**40
    settled: bool = False
    fits: bool = False
    """Whether the size that was settled on meets the bound."""
    phases: list[TuningPhase] = field(default_factory=list)
    _good: int = 0
    _late: int | None = None
    _short: int = 0

    def observe(self, latency: float, kept_up: bool) -> int:
        """What a phase with the present size did; returns the size of the next."""
        tried, good = self.size, kept_up and latency <= self.bound
        if self.settled:
            verdict = "settled" if good else "settled, and no longer fits"
        elif good:
            verdict = "fits"
            self._good = max(self._good, tried)
            self._go_to(tried * 2)
        elif not kept_up:
            verdict = "cannot keep up"
            self._short = max(self._short, tried)
            self._go_to(tried * 2)
        else:
            verdict = "too late"
            self._late = tried if self._late is None else min(self._late, tried)
            self._go_to(tried // 2)
        self.phases.append(TuningPhase(tried, latency, kept_up, verdict))
        return self.size

    def _go_to(self, wanted: int) -> None:
        """Unless that is known not to fit, or nothing is left to try."""
        late = self._late is not None and wanted >= self._late
        known = late or wanted <= max(self._short, self._good) or wanted > self.largest
        if not known and wanted >= 1:
            self.size = wanted
            return
        self.settled, self.fits = True, self._good > 0
        # Where nothing fits, to fall behind is worse than to be late.
        self.size = self._good or self._late or self.size
