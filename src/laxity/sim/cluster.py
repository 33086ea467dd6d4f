"""The machines of a simulation. One set of numbers serves every scheduler and every figure.

Why these (docs/simulator.md says more):
- `nodes` 32 and `workers` 4: the paper's cluster; its servers have 4 vCPUs, and Orleans starts a
  worker for each.
- `network_delay` 0.5 ms and `bandwidth` 1.5 Gbit/s: what its DS12-v2 machines are sold with.
- `dispatch` 20 us: taking a message from a queue. What else Orleans does for a message is part of
  what a message costs (`workloads.COST`).
- `switch` 10 us: another operator on a worker finds caches cold; an OS context switch costs the
  same in the slot-based system.
- `quantum` 1 ms: the paper's re-scheduling grain.
- `mailbox` 1 message: the credit of each channel. A source sends its next batch when the last one
  has been acknowledged, and waits (back-pressure) while an operator further down its job has more
  waiting than its channels' credit. The paper does not give this number, and it decides how far
  Orleans and FIFO fall behind under overload. It is *fitted*: of 1, 2, 4, 8 and 32 the one closest
  to figures 8a and 8b. `laxity reproduce sensitivity` prints the rest.
- `time_slice` 3 ms: the kernel's fair scheduler with a few runnable threads a core.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from laxity.sim.errors import InvalidSimulationError


@dataclass(frozen=True, slots=True)
class Cluster:
    nodes: int = 32
    workers: int = 4
    network_delay: float = 0.0005
    bandwidth: float = 1.5e9 / 8
    """Bytes a second of each channel between two nodes."""
    dispatch: float = 20e-6
    switch: float = 10e-6
    quantum: float = 0.001
    mailbox: int = 1
    time_slice: float = 0.003

    def __post_init__(self) -> None:
        for name in ("nodes", "workers", "mailbox"):
            if getattr(self, name) < 1:
                raise InvalidSimulationError(
                    f"a cluster needs {name} of at least 1, got {getattr(self, name)!r}"
                )
        for name in ("network_delay", "dispatch", "switch", "quantum"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InvalidSimulationError(f"{name} must be seconds, not negative: got {value!r}")
        for name in ("bandwidth", "time_slice"):
            if not getattr(self, name) > 0:
                raise InvalidSimulationError(
                    f"{name} must be above zero, got {getattr(self, name)!r}"
                )

    @property
    def cores(self) -> int:
        return self.nodes * self.workers
