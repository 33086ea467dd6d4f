"""The one seam to the kernel: all that this package changes on the machine goes through here.

`LinuxKernel` does it, `DryKernel` only says what it would do, `testing.FakeKernel` keeps it in
memory and can be told to fail.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from typing import Protocol

from laxity.host import procfs
from laxity.host.entities import Thread

_CAP_SYS_NICE = 1 << 23
_RESET_ON_FORK = 0x40000000
"""Children of a real-time thread start as ordinary ones."""


class Kernel(Protocol):
    """Raises `OSError` like the calls behind it: ESRCH or ENOENT for what has ended, EPERM or
    EACCES for what is not allowed."""

    def nice(self, tid: int) -> int: ...
    def set_nice(self, tid: int, value: int) -> None: ...
    def scheduler(self, tid: int) -> tuple[int, int]: ...
    def set_scheduler(self, tid: int, policy: int, priority: int) -> None: ...
    def most_urgent_nice(self) -> int:
        """The lowest nice value this process may give; above 0 if it cannot even go back."""
        ...

    def is_alive(self, thread: Thread) -> bool: ...
    def threads(self, pid: int) -> list[Thread]: ...
    def descendants(self, pid: int) -> list[int]: ...
    def read(self, path: str) -> str: ...
    def write(self, path: str, text: str) -> None: ...
    def exists(self, path: str) -> bool: ...
    def is_writable(self, path: str) -> bool: ...
    def make_dir(self, path: str) -> None: ...
    def remove_dir(self, path: str) -> None: ...
    def list_dirs(self, path: str) -> list[str]: ...


class LinuxKernel:
    def nice(self, tid: int) -> int:
        return os.getpriority(os.PRIO_PROCESS, tid)

    def set_nice(self, tid: int, value: int) -> None:
        os.setpriority(os.PRIO_PROCESS, tid, value)

    def scheduler(self, tid: int) -> tuple[int, int]:
        policy = os.sched_getscheduler(tid) & ~_RESET_ON_FORK
        return policy, os.sched_getparam(tid).sched_priority

    def set_scheduler(self, tid: int, policy: int, priority: int) -> None:
        flags = _RESET_ON_FORK if policy in (os.SCHED_RR, os.SCHED_FIFO) else 0
        os.sched_setscheduler(tid, policy | flags, os.sched_param(priority))

    def most_urgent_nice(self) -> int:
        if os.geteuid() == 0 or _has_cap_sys_nice():
            return -20
        soft, _ = resource.getrlimit(resource.RLIMIT_NICE)
        return -20 if soft == resource.RLIM_INFINITY else max(-20, 20 - soft)

    def is_alive(self, thread: Thread) -> bool:
        stat = procfs.thread_stat(thread.pid, thread.tid)
        return stat is not None and stat.thread.started == thread.started

    def threads(self, pid: int) -> list[Thread]:
        return [stat.thread for stat in procfs.threads_of(pid)]

    def descendants(self, pid: int) -> list[int]:
        return procfs.descendants(pid)

    def read(self, path: str) -> str:
        with open(path) as file:
            return file.read()

    def write(self, path: str, text: str) -> None:
        # Unbuffered: the kernel's answer must arrive here, not at close.
        with open(path, "wb", buffering=0) as file:
            file.write(text.encode())

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_writable(self, path: str) -> bool:
        return os.access(path, os.W_OK)

    def make_dir(self, path: str) -> None:
        os.mkdir(path)

    def remove_dir(self, path: str) -> None:
        os.rmdir(path)

    def list_dirs(self, path: str) -> list[str]:
        try:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except FileNotFoundError:
            return []


def _has_cap_sys_nice() -> bool:
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) & _CAP_SYS_NICE)
    return False


class DryKernel:
    """Reads the real machine, changes nothing, and tells `say` what it would have changed.

    It remembers its own would-be changes, so that a second period says only what is new.
    """

    def __init__(self, real: Kernel, say: Callable[[str], None]) -> None:
        self._real = real
        self._say = say
        self._nice: dict[int, int] = {}
        self._schedulers: dict[int, tuple[int, int]] = {}
        self._files: dict[str, str] = {}
        self._dirs: set[str] = set()
        self.most_urgent_nice = real.most_urgent_nice
        self.is_alive = real.is_alive
        self.threads = real.threads
        self.descendants = real.descendants

    def nice(self, tid: int) -> int:
        return self._nice[tid] if tid in self._nice else self._real.nice(tid)

    def set_nice(self, tid: int, value: int) -> None:
        self._say(f"nice of thread {tid}: {self.nice(tid)} -> {value}")
        self._nice[tid] = value

    def scheduler(self, tid: int) -> tuple[int, int]:
        return self._schedulers.get(tid) or self._real.scheduler(tid)

    def set_scheduler(self, tid: int, policy: int, priority: int) -> None:
        self._say(f"scheduler of thread {tid}: {self.scheduler(tid)} -> {(policy, priority)}")
        self._schedulers[tid] = (policy, priority)

    def read(self, path: str) -> str:
        if path in self._files:
            return self._files[path]
        return "" if self._is_new(path) else self._real.read(path)

    def write(self, path: str, text: str) -> None:
        self._say(f"{path} <- {text.strip()}")
        self._files[path] = text

    def exists(self, path: str) -> bool:
        return path in self._dirs or path in self._files or self._real.exists(path)

    def is_writable(self, path: str) -> bool:
        return self._is_new(path) or self._real.is_writable(path)

    def make_dir(self, path: str) -> None:
        self._say(f"mkdir {path}")
        self._dirs.add(path)

    def remove_dir(self, path: str) -> None:
        self._say(f"rmdir {path}")
        self._dirs.discard(path)

    def list_dirs(self, path: str) -> list[str]:
        new = {d.rpartition("/")[2] for d in self._dirs if d.rpartition("/")[0] == path}
        return sorted({*self._real.list_dirs(path), *new})

    def _is_new(self, path: str) -> bool:
        return path.rpartition("/")[0] in self._dirs
