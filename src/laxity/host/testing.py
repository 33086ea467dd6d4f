"""For tests of this package and of drivers, policies and translators made elsewhere."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from typing import Any

from laxity.host.entities import Deployment, Thread
from laxity.host.errors import DriverError
from laxity.host.metrics import Snapshot, Values


class FakeKernel:
    """A machine in memory: threads with nice values, and a tree of control-group files.

    `fail[name] = OSError(...)` lets the method of that name raise; a callable there is asked
    with the arguments and may return an error or None.
    """

    def __init__(self, *threads: Thread, unified: bool = False, most_urgent_nice: int = -20):
        self.living = list(threads)
        self.nices = {t.tid: 0 for t in threads}
        self.schedulers = {t.tid: (0, 0) for t in threads}
        self.files: dict[str, str] = {}
        self.dirs: set[str] = set()
        self.where: dict[int, str] = {}
        self.children: dict[int, list[int]] = {}
        self.fail: dict[str, OSError | Callable[..., OSError | None]] = {}
        self.calls: list[tuple[Any, ...]] = []
        self._most_urgent = most_urgent_nice
        self.root = "/cg"
        self._unified = unified
        kind, options = ("cgroup2", "rw") if unified else ("cgroup", "rw,cpu")
        self.files["/proc/mounts"] = f"{kind} {self.root} {kind} {options} 0 0\n"
        self._new_dir(self.root)
        for thread in threads:
            self.where[thread.tid] = self.root

    def end(self, tid: int) -> None:
        self.living = [t for t in self.living if t.tid != tid]
        self.where.pop(tid, None)

    def birth(self, thread: Thread, parent: int) -> None:
        """A new thread inherits its maker's nice value and control group."""
        self.living.append(thread)
        self.nices[thread.tid] = self.nices[parent]
        self.schedulers[thread.tid] = (0, 0)
        self.where[thread.tid] = self.where[parent]

    def nice(self, tid: int) -> int:
        self._enter("nice", tid)
        return self.nices[tid]

    def set_nice(self, tid: int, value: int) -> None:
        self._enter("set_nice", tid, value)
        if value < self.nices[tid] and value < self._most_urgent:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        self.nices[tid] = value

    def scheduler(self, tid: int) -> tuple[int, int]:
        self._enter("scheduler", tid)
        return self.schedulers[tid]

    def set_scheduler(self, tid: int, policy: int, priority: int) -> None:
        self._enter("set_scheduler", tid, policy, priority)
        self.schedulers[tid] = (policy, priority)

    def most_urgent_nice(self) -> int:
        return self._most_urgent

    def is_alive(self, thread: Thread) -> bool:
        return thread in self.living

    def threads(self, pid: int) -> list[Thread]:
        return [t for t in self.living if t.pid == pid]

    def descendants(self, pid: int) -> list[int]:
        return self.children.get(pid, [])

    def read(self, path: str) -> str:
        self._raise_planned("read", path)
        folder, _, file = path.rpartition("/")
        if path.startswith("/proc/") and file == "cgroup":
            tid = int(folder.rpartition("/")[2])
            home = self.where.get(tid, self.root)
            relative = home[len(self.root) :] or "/"
            return f"0::{relative}\n" if self._unified else f"1:cpu:{relative}\n"
        if file in ("tasks", "cgroup.threads") and folder in self.dirs:
            return "\n".join(str(t) for t, d in self.where.items() if d == folder)
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self.files[path]

    def write(self, path: str, text: str) -> None:
        self._raise_planned("write", path, text)
        folder, _, file = path.rpartition("/")
        if folder not in self.dirs:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if file in ("tasks", "cgroup.threads"):
            self._check_thread(int(text))
            self.where[int(text)] = folder
        elif file == "cgroup.subtree_control":
            enabled = set(self.files[path].split())
            (enabled.add if text[0] == "+" else enabled.discard)(text[1:])
            self.files[path] = " ".join(sorted(enabled))
        else:
            self.files[path] = text

    def exists(self, path: str) -> bool:
        return path in self.dirs or path in self.files

    def is_writable(self, path: str) -> bool:
        planned = self.fail.get("is_writable")
        return planned is None

    def make_dir(self, path: str) -> None:
        self._raise_planned("make_dir", path)
        self._new_dir(path)

    def remove_dir(self, path: str) -> None:
        self._raise_planned("remove_dir", path)
        if any(d == path for d in self.where.values()) or self.list_dirs(path):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
        if path not in self.dirs:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self.dirs.discard(path)
        self.files = {f: t for f, t in self.files.items() if not f.startswith(path + "/")}

    def list_dirs(self, path: str) -> list[str]:
        return sorted(d[len(path) + 1 :] for d in self.dirs if d.rpartition("/")[0] == path)

    def _new_dir(self, path: str) -> None:
        self.dirs.add(path)
        if self._unified:
            self.files[f"{path}/cgroup.controllers"] = "cpu memory"
            self.files[f"{path}/cgroup.subtree_control"] = ""
            self.files[f"{path}/cgroup.type"] = "domain"
            self.files[f"{path}/cpu.weight"] = "100"
        else:
            self.files[f"{path}/cpu.shares"] = "1024"

    def _enter(self, name: str, tid: int, *rest: Any) -> None:
        self.calls.append((name, tid, *rest))
        self._raise_planned(name, tid, *rest)
        self._check_thread(tid)

    def _check_thread(self, tid: int) -> None:
        if not any(t.tid == tid for t in self.living):
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))

    def _raise_planned(self, name: str, *arguments: Any) -> None:
        planned = self.fail.get(name)
        error = planned(*arguments) if callable(planned) else planned
        if error is not None:
            raise error


class FakeDriver:
    """Says what it is told to say."""

    def __init__(self, deployment: Deployment, raw: Mapping[str, Values] | None = None) -> None:
        self.deployment = deployment
        self.raw: Mapping[str, Values] = raw or {}
        self.broken: Exception | None = None
        self.asked: list[frozenset[str]] = []
        self.closed = False

    @property
    def name(self) -> str:
        return self.deployment.engine

    @property
    def metrics(self) -> frozenset[str]:
        return frozenset(self.raw)

    def snapshot(self, now: float, wanted: frozenset[str]) -> Snapshot:
        self.asked.append(wanted)
        if self.broken is not None:
            raise DriverError(str(self.broken))
        return Snapshot(self.deployment, now, {name: self.raw[name] for name in wanted})

    def close(self) -> None:
        self.closed = True
