"""The machines of a simulation. One set of numbers serves every scheduler and every figure.

Why these (docs/simulator.md says more):
- `workers` 4: the paper's servers have 4 vCPUs, and Orleans starts a worker for each.
- `network_delay` 0.5 ms and `bandwidth` 1.5 Gbit/s: what its DS12-v2 machines are sold with.
- `dispatch` 20 us: taking a message from a queue, decoding and invoking an actor. Figure 12 of
  the paper saturates one thread with 300–350 no-op messages a second, which leaves milliseconds
  a message for all that Orleans does; we charge far less, and the same to everybody.
- `switch` 10 us: another operator on a worker finds caches cold; an OS context switch costs the
  same in the slot-based system.
- `quantum` 1 ms: the paper's re-scheduling grain.
- `mailbox` 2 messages: the credit of each channel, one being worked on and one waiting. A source
  without credit is held (back-pressure), and so are all sources of a job while an operator further
  down has more waiting than its channels' credit. The paper does not give this number, and it
  decides how far Orleans falls behind under overload, so it was *fitted*: of 2, 4, 8, 16 and 32
  the one that came closest to figures 8a and 8b. `laxity reproduce sensitivity` prints the rest.
- `time_slice` 3 ms: the kernel's fair scheduler with a few runnable threads a core.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from laxity.sim.errors import InvalidSimulationError


@dataclass(frozen=True, slots=True)
class Cluster:
    nodes: int = 8
    workers: int = 4
    network_delay: float = 0.0005
    bandwidth: float = 1.5e9 / 8
    """Bytes a second of each channel between two nodes."""
    dispatch: float = 20e-6
    switch: float = 10e-6
    quantum: float = 0.001
    mailbox: int = 2
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
