"""Operating-system priorities for the threads behind queries, in the driver's own process.

Each query's batches are planned by a thread of its own, and in local mode its tasks run in a lane
of threads that only urgent, or only lax, tasks use. So a thread's priority is set once, not for
every task: lax ones are made nice, and the kernel does the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from laxity.spark.wire import ThreadSeen

LAX_TASK_NICE = 10
LAX_STREAM_NICE = 5
"""Milder for threads that plan: threads they start inherit it, and may come to serve others."""
URGENT_NICE = -5
"""Where we have the right. One level is a factor of 1.25 in CPU share."""


class ThreadPriorities:
    """Applies priorities to announced threads; `restore` puts back what it found."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._original: dict[int, int] = {}
        self._current: dict[int, int] = {}
        self._stream_threads: dict[str, int] = {}
        self._may_raise = True

    def apply(self, seen: Iterable[ThreadSeen], lax_queries: Mapping[str, bool]) -> None:
        """`lax_queries` says of each query that runs whether it can wait."""
        for thread in seen:
            if thread.id:
                self._stream_threads[thread.id] = thread.tid
            else:
                self._shift(thread.tid, LAX_TASK_NICE if thread.lax else URGENT_NICE)
        for query in [q for q in self._stream_threads if q not in lax_queries]:
            self._forget(self._stream_threads.pop(query))
        contested = len(set(lax_queries.values())) > 1
        for query, tid in self._stream_threads.items():
            lax = LAX_STREAM_NICE if lax_queries[query] else URGENT_NICE
            self._shift(tid, lax if contested else 0)

    def _shift(self, tid: int, by: int) -> None:
        """Move a thread from the priority it came with."""
        try:
            if tid not in self._original:
                self._original[tid] = os.getpriority(os.PRIO_PROCESS, tid)
            nice = max(-20, min(19, self._original[tid] + by))
            current = self._current.get(tid, self._original[tid])
            if nice == current or (nice < current and not self._may_raise):
                return
            os.setpriority(os.PRIO_PROCESS, tid, nice)
            self._current[tid] = nice
        except ProcessLookupError:
            self._forget(tid)
        except PermissionError:
            self._may_raise = False
            self._tell(
                "no right to raise thread priorities (CAP_SYS_NICE, or a limit set with "
                "ulimit -e): lax threads are made nice, urgent ones are not raised"
            )
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
