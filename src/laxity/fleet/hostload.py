"""A host's load from /proc: how saturated it is, and how much of that is not ours."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class HostLoad:
    cores: int
    load: float
    """Runnable tasks, averaged over a minute (the kernel's load average)."""
    busy: float
    """Cores in use by everybody, over the last interval."""
    own: float
    """Cores in use by the node."""
    external_cpu: float
    """Share of the used CPU that is not the node's own (0 when hardly anything is used)."""
    network: float
    """Bytes a second over all interfaces but loopback."""
    own_network: float = 0.0
    pressure: float = 0.0
    """Share of time in which some task waited for a CPU (PSI, ten seconds), where the kernel
    tells it."""

    def to_wire(self) -> dict[str, Any]:
        return asdict(self)


class HostMeter:
    """Differences between two readings; the first one has nothing to differ from."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._last: tuple[float, float, dict[int, float], int] | None = None

    def read(self, own: Iterable[int]) -> HostLoad:
        """Of the CPUs this process may run on: where several agents are bound to CPUs of their
        own, each has a host of its own."""
        allowed = os.sched_getaffinity(0)
        whole = len(allowed) == (os.cpu_count() or 1)
        cores = len(allowed)
        at = time.monotonic()
        busy, mine, network = self._busy(allowed), self._cpu(own), self._network()
        before, self._last = self._last, (at, busy, mine, network)
        load = float((self._proc / "loadavg").read_text().split()[0])
        if before is None or at <= before[0]:
            return HostLoad(cores, load, 0.0, 0.0, 0.0, 0.0, pressure=self._pressure())
        seconds = at - before[0]
        used = max(0.0, busy - before[1]) / seconds
        ours = sum(max(0.0, cpu - before[2].get(pid, 0.0)) for pid, cpu in mine.items()) / seconds
        ours = min(ours, used)
        external = 0.0 if used < 0.05 else 1.0 - ours / used
        moved = max(0, network - before[3]) / seconds
        if not whole:  # the kernel averages over all CPUs; of these, only their use is known
            load = used
        return HostLoad(cores, load, used, ours, external, moved, pressure=self._pressure())

    def _busy(self, cpus: set[int]) -> float:
        """CPU seconds of these CPUs that were not idle."""
        total = 0
        for line in (self._proc / "stat").read_text().splitlines():
            name, *counters = line.split()
            if name[3:].isdigit() and name.startswith("cpu") and int(name[3:]) in cpus:
                fields = [int(f) for f in counters[:8]]
                total += sum(fields) - fields[3] - fields[4]
        return total / _TICKS

    def _cpu(self, roots: Iterable[int]) -> dict[int, float]:
        """CPU seconds of these processes and all below them."""
        wanted = set(roots)
        parents: dict[int, int] = {}
        seconds: dict[int, float] = {}
        for entry in os.listdir(self._proc):
            if not entry.isdigit():
                continue
            try:
                text = (self._proc / entry / "stat").read_text()
            except OSError:
                continue  # it has just ended
            fields = text.rpartition(")")[2].split()
            parents[int(entry)] = int(fields[1])
            seconds[int(entry)] = (int(fields[11]) + int(fields[12])) / _TICKS
        return {pid: cpu for pid, cpu in seconds.items() if _below(pid, parents, wanted)}

    def _network(self) -> int:
        total = 0
        for line in (self._proc / "net" / "dev").read_text().splitlines()[2:]:
            name, _, counters = line.partition(":")
            fields = counters.split()
            if name.strip() != "lo":
                total += int(fields[0]) + int(fields[8])
        return total

    def _pressure(self) -> float:
        try:
            first = (self._proc / "pressure" / "cpu").read_text().split()
        except OSError:
            return 0.0
        return float(first[1].partition("=")[2]) / 100


def _below(pid: int, parents: dict[int, int], roots: set[int]) -> bool:
    for _ in range(64):
        if pid in roots:
            return True
        if pid not in parents or pid <= 1:
            return False
        pid = parents[pid]
    return False
