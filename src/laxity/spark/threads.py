"""Operating-system priorities for the threads behind queries, in the driver's own process.

Each query's batches are planned by a thread of its own, and in local mode its tasks run in a lane
of threads that only urgent, or only lax, tasks use. So a thread's priority is set once, not for
every task: lax ones are made nice, and the kernel does the rest.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from laxity.spark.wire import ThreadSeen


@dataclass(frozen=True, slots=True)
class Shifts:
    """Nice levels added to a thread's own. One is a factor of 1.25 in CPU share."""

    urgent: int
    lax_task: int
    lax_stream: int
    """Milder for threads that plan: threads they start inherit it, and may come to serve
    others."""


RAISING = Shifts(urgent=-5, lax_task=5, lax_stream=2)
"""With the right to raise: about a tenth of the CPU for a lax task beside an urgent one, and not
much less than other processes of the host have."""
LOWERING = Shifts(urgent=0, lax_task=10, lax_stream=5)
"""Without it, only lax threads can be moved."""


def may_raise() -> bool:
    """Has this process the right to raise priorities? Tried on the calling thread."""
    own = threading.get_native_id()
    nice = os.getpriority(os.PRIO_PROCESS, own)
    try:
        os.setpriority(os.PRIO_PROCESS, own, max(-20, nice - 1))
        os.setpriority(os.PRIO_PROCESS, own, nice)
    except PermissionError:
        return False
    return True


class ThreadPriorities:
    """Applies priorities to announced threads; `restore` puts back what it found."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._shifts = RAISING if may_raise() else LOWERING
        if self._shifts is LOWERING:
            tell(
                "no right to raise thread priorities (CAP_SYS_NICE, or a limit set with "
                "ulimit -e): threads of lax queries are made nice, urgent ones are not raised"
            )
        self._original: dict[int, int] = {}
        self._current: dict[int, int] = {}
        self._stream_threads: dict[str, int] = {}

    def apply(self, seen: Iterable[ThreadSeen], lax_queries: Mapping[str, bool]) -> None:
        """`lax_queries` says of each query that runs whether it can wait."""
        shifts = self._shifts
        for thread in seen:
            if thread.id:
                self._stream_threads[thread.id] = thread.tid
            else:
                self._shift(thread.tid, shifts.lax_task if thread.lax else shifts.urgent)
        for query in [q for q in self._stream_threads if q not in lax_queries]:
            self._forget(self._stream_threads.pop(query))
        contested = len(set(lax_queries.values())) > 1
        for query, tid in self._stream_threads.items():
            by = shifts.lax_stream if lax_queries[query] else shifts.urgent
            self._shift(tid, by if contested else 0)

    def _shift(self, tid: int, by: int) -> None:
        """Move a thread from the priority it came with."""
        try:
            if tid not in self._original:
                self._original[tid] = os.getpriority(os.PRIO_PROCESS, tid)
            nice = max(-20, min(19, self._original[tid] + by))
            current = self._current.get(tid, self._original[tid])
            if nice == current or (nice < current and self._shifts is LOWERING):
                return
            os.setpriority(os.PRIO_PROCESS, tid, nice)
            self._current[tid] = nice
        except ProcessLookupError:
            self._forget(tid)
        except OSError as error:
            self._forget(tid)
            self._tell(f"thread priorities cannot be set here: {error}")

    def _forget(self, tid: int) -> None:
        self._original.pop(tid, None)
        self._current.pop(tid, None)

    def restore(self) -> None:
        for tid in list(self._current):
            self._shift(tid, 0)
        self._stream_threads.clear()
