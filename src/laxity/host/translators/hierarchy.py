"""Control-group hierarchies, version 1 and 2, behind one face.

Groups are made below the cgroup a process already lives in (its *home*), so that whatever limits
a container or a service set keep holding:  <home>/laxity-<name>/<group>.

Version 2 wants threads of one process in one *threaded* subtree: the home becomes its root by
itself when a child is declared threaded, and returns to what it was when the last one goes.
"""

from __future__ import annotations

import os
from typing import Protocol

from laxity.host.entities import Thread
from laxity.host.journal import Entry, Journal
from laxity.host.kernel import Kernel
from laxity.host.normalise import CPU_SHARES, CPU_WEIGHT, Scale

QUOTA_PERIOD_US = 100_000
_MINIMUM_QUOTA_US = 1_000


class Hierarchy(Protocol):
    @property
    def scale(self) -> Scale: ...

    @property
    def members_file(self) -> str: ...

    def home(self, thread: Thread) -> str: ...
    def unavailable(self, home: str) -> str | None: ...
    def make_group(self, path: str, home: str, journal: Journal, owner: str) -> None: ...
    def set_weight(self, path: str, weight: int) -> None: ...
    def set_quota(self, path: str, cores: float) -> None: ...


class CgroupV1:
    scale = CPU_SHARES
    members_file = "tasks"

    def __init__(self, kernel: Kernel, mount: str) -> None:
        self._kernel = kernel
        self._mount = mount

    def home(self, thread: Thread) -> str:
        for line in self._kernel.read(f"/proc/{thread.pid}/task/{thread.tid}/cgroup").split("\n"):
            _, controllers, path = (*line.split(":", 2), "", "")[:3]
            if "cpu" in controllers.split(","):
                return (self._mount + path).rstrip("/")
        return self._mount

    def unavailable(self, home: str) -> str | None:
        return _not_writable(self._kernel, home, self.members_file)

    def make_group(self, path: str, home: str, journal: Journal, owner: str) -> None:
        was = [self.members_file, f"{home}/{self.members_file}"]
        journal.remember(Entry("directory", owner, path=path, was=was))
        if not self._kernel.exists(path):
            self._kernel.make_dir(path)

    def set_weight(self, path: str, weight: int) -> None:
        self._kernel.write(f"{path}/cpu.shares", str(weight))

    def set_quota(self, path: str, cores: float) -> None:
        quota = max(_MINIMUM_QUOTA_US, round(cores * QUOTA_PERIOD_US))
        self._kernel.write(f"{path}/cpu.cfs_period_us", str(QUOTA_PERIOD_US))
        self._kernel.write(f"{path}/cpu.cfs_quota_us", str(quota))


class CgroupV2:
    scale = CPU_WEIGHT
    members_file = "cgroup.threads"

    def __init__(self, kernel: Kernel, mount: str) -> None:
        self._kernel = kernel
        self._mount = mount

    def home(self, thread: Thread) -> str:
        for line in self._kernel.read(f"/proc/{thread.pid}/task/{thread.tid}/cgroup").split("\n"):
            if line.startswith("0::"):
                return (self._mount + line[3:]).rstrip("/")
        return self._mount

    def unavailable(self, home: str) -> str | None:
        if "cpu" not in self._kernel.read(f"{self._mount}/cgroup.controllers").split():
            return f"the cpu controller is not on the version 2 hierarchy at {self._mount}"
        return _not_writable(self._kernel, home, "cgroup.subtree_control")

    def make_group(self, path: str, home: str, journal: Journal, owner: str) -> None:
        above = path.rpartition("/")[0]
        was = [self.members_file, f"{home}/{self.members_file}"]
        journal.remember(Entry("directory", owner, path=path, was=was))
        if not self._kernel.exists(path):
            self._kernel.make_dir(path)
        if self._kernel.read(f"{path}/cgroup.type").strip() != "threaded":
            self._kernel.write(f"{path}/cgroup.type", "threaded")
        self._enable_cpu(above, journal, owner)

    def _enable_cpu(self, path: str, journal: Journal, owner: str) -> None:
        """From the top down, as far as it is not enabled already."""
        control = f"{path}/cgroup.subtree_control"
        if "cpu" in self._kernel.read(control).split():
            return
        if "cpu" not in self._kernel.read(f"{path}/cgroup.controllers").split():
            self._enable_cpu(path.rpartition("/")[0], journal, owner)
        journal.remember(Entry("file", owner, path=control, was="-cpu"))
        self._kernel.write(control, "+cpu")

    def set_weight(self, path: str, weight: int) -> None:
        self._kernel.write(f"{path}/cpu.weight", str(weight))

    def set_quota(self, path: str, cores: float) -> None:
        quota = max(_MINIMUM_QUOTA_US, round(cores * QUOTA_PERIOD_US))
        self._kernel.write(f"{path}/cpu.max", f"{quota} {QUOTA_PERIOD_US}")


def _not_writable(kernel: Kernel, home: str, file: str) -> str | None:
    if not kernel.is_writable(home) or not kernel.is_writable(f"{home}/{file}"):
        return f"the control groups at {home} are not writable for user {os.geteuid()}"
    return None


def find_hierarchy(kernel: Kernel) -> Hierarchy | None:
    """The hierarchy that has the cpu controller."""
    unified = None
    for line in kernel.read("/proc/mounts").split("\n"):
        fields = line.split()
        if len(fields) < 4:
            continue
        _, mount, kind, options = fields[:4]
        if kind == "cgroup" and "cpu" in options.split(","):
            return CgroupV1(kernel, mount)
        if kind == "cgroup2":
            unified = mount
    return CgroupV2(kernel, unified) if unified else None
