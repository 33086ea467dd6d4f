"""The threads of processes, looked at again every period."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from dataclasses import dataclass, replace

from laxity.host import procfs
from laxity.host.entities import Thread

_CLOSED = -1


@dataclass(slots=True)
class _Seen:
    """A thread with what was read of it, and the files that stay open for the next time."""

    thread: Thread
    comm: bytes
    comm_file: int = _CLOSED
    cpu_file: int = _CLOSED

    def close(self) -> None:
        for file in (self.comm_file, self.cpu_file):
            if file != _CLOSED:
                os.close(file)


class ThreadTable:
    """Files in /proc stay open: reading one again costs a sixth of opening it anew. An open file
    belongs to its thread, so that one which has ended is told from another with its id.

    Not for use by several threads at once.
    """

    def __init__(self, most_files: int | None = None) -> None:
        """`most_files` may stay open, by default a quarter of what the process may have; threads
        beyond that are opened each time."""
        if most_files is None:
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            most_files = 65_536 if soft == resource.RLIM_INFINITY else soft // 4
        self._spare = most_files
        self._seen: dict[int, dict[int, _Seen]] = {}

    def of(self, pid: int, tids: Iterable[int] | None = None) -> list[Thread]:
        """The process's living threads under their present names, or those with these ids; none
        where it is gone."""
        if tids is None:
            tids = procfs.thread_ids(pid)
        before = self._seen.pop(pid, {})
        now: dict[int, _Seen] = {}
        for tid in tids:
            seen = before.get(tid)
            if seen is None or not self._still_there(seen):
                seen = self._meet(pid, tid)
            else:
                del before[tid]
            if seen is not None:
                now[tid] = seen
        self._drop(before.values())
        if now:
            self._seen[pid] = now
        return [seen.thread for seen in now.values()]

    def cpu_seconds(self, thread: Thread) -> float | None:
        """CPU time so far; None where the thread has ended."""
        seen = self._seen.get(thread.pid, {}).get(thread.tid)
        if seen is None or seen.thread != thread:
            return procfs.cpu_seconds(thread)
        if seen.cpu_file == _CLOSED:
            seen.cpu_file = self._open(thread, "schedstat")
            if seen.cpu_file == _CLOSED:
                return procfs.cpu_seconds(thread)
        try:
            return int(os.pread(seen.cpu_file, 64, 0).split()[0]) / 1e9
        except (OSError, IndexError):
            return None

    def keep(self, pids: Iterable[int]) -> None:
        """Forget the threads of all other processes."""
        for pid in self._seen.keys() - set(pids):
            self._drop(self._seen.pop(pid).values())

    def close(self) -> None:
        self.keep(())

    def _still_there(self, seen: _Seen) -> bool:
        if seen.comm_file == _CLOSED:
            stat = procfs.thread_stat(seen.thread.pid, seen.thread.tid)
            if stat is None or stat.thread != seen.thread:
                return False
            seen.thread = stat.thread
            return True
        try:
            comm = os.pread(seen.comm_file, 64, 0)
        except OSError:
            return False
        if comm != seen.comm:
            seen.comm = comm
            seen.thread = replace(seen.thread, name=comm[:-1].decode(errors="replace"))
        return True

    def _meet(self, pid: int, tid: int) -> _Seen | None:
        stat = procfs.thread_stat(pid, tid)
        if stat is None:
            return None
        name = stat.thread.name.encode(errors="replace") + b"\n"
        seen = _Seen(stat.thread, name, self._open(stat.thread, "comm"))
        # The id may have passed to another thread between the two looks.
        again = procfs.thread_stat(pid, tid) if seen.comm_file != _CLOSED else stat
        if again is None or again.thread != stat.thread:
            self._drop([seen])
            return None
        return seen

    def _open(self, thread: Thread, file: str) -> int:
        if self._spare <= 0:
            return _CLOSED
        path = f"/proc/{thread.pid}/task/{thread.tid}/{file}"
        try:
            opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return _CLOSED
        self._spare -= 1
        return opened

    def _drop(self, gone: Iterable[_Seen]) -> None:
        for seen in gone:
            self._spare += (seen.comm_file != _CLOSED) + (seen.cpu_file != _CLOSED)
            seen.close()
