"""Reading /proc: processes, their threads, CPU time."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from laxity.host.entities import Thread

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ThreadStat:
    thread: Thread
    cpu_seconds: float
    parent: int


def _read(path: str) -> bytes:
    """A short file in one piece. Hundreds are read every period; file objects would cost twice."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, 1024)
    finally:
        os.close(file)


def thread_stat(pid: int, tid: int) -> ThreadStat | None:
    """None where the thread is gone, or only a corpse of it is left."""
    try:
        line = _read(f"/proc/{pid}/task/{tid}/stat").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in parentheses and may itself hold blanks and parentheses.
    opening, closing = line.index("("), line.rindex(")")
    fields = line[closing + 2 :].split()
    if fields[0] in "XZ":
        return None
    ticks = int(fields[11]) + int(fields[12])
    thread = Thread(pid, tid, int(fields[19]), line[opening + 1 : closing])
    return ThreadStat(thread, ticks / _TICKS_PER_SECOND, int(fields[1]))


def thread_ids(pid: int) -> list[int]:
    """None where the process is gone."""
    try:
        return [int(tid) for tid in os.listdir(f"/proc/{pid}/task")]
    except (FileNotFoundError, ProcessLookupError):
        return []


def threads_of(pid: int) -> list[ThreadStat]:
    found = (thread_stat(pid, tid) for tid in thread_ids(pid))
    return [stat for stat in found if stat is not None]


def cpu_seconds(thread: Thread) -> float | None:
    """CPU time with the scheduler's own precision (nanoseconds), where ticks would be too coarse
    for a cheap operator over one period."""
    try:
        return int(_read(f"/proc/{thread.pid}/task/{thread.tid}/schedstat").split()[0]) / 1e9
    except (OSError, IndexError, ValueError):
        stat = thread_stat(thread.pid, thread.tid)
        return stat.cpu_seconds if stat else None


def processes() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            yield int(name)


def command_line(pid: int) -> str:
    """Empty for kernel threads and for what has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def find_processes(pattern: str | re.Pattern[str]) -> list[int]:
    """Processes whose command line matches, this one excepted."""
    compiled = re.compile(pattern)
    own = os.getpid()
    return [p for p in processes() if p != own and compiled.search(command_line(p))]


def descendants(pid: int) -> list[int]:
    """Children and theirs, parents first."""
    children: dict[int, list[int]] = {}
    for other in processes():
        stat = thread_stat(other, other)
        if stat is not None:
            children.setdefault(stat.parent, []).append(other)
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def nearest_ancestor(pid: int, among: Collection[int]) -> int | None:
    """The closest of these processes that the process descends from, if any."""
    while pid and pid not in among:
        stat = thread_stat(pid, pid)
        pid = stat.parent if stat else 0
    return pid or None


_LISTENING = "0A"


def listens(pid: int, port: int) -> bool:
    """Whether the process serves this TCP port, in whichever network namespace it lives."""
    sockets = set()
    try:
        for table in ("tcp", "tcp6"):
            with open(f"/proc/{pid}/net/{table}") as file:
                for fields in map(str.split, file):
                    if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                        sockets.add(f"socket:[{fields[9]}]")
        opened = f"/proc/{pid}/fd"
        return bool(sockets) and any(
            _link(f"{opened}/{fd}") in sockets for fd in os.listdir(opened)
        )
    except OSError:
        return False


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""  # closed in between


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
