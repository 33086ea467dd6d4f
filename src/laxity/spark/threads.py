"""Which threads of the driver work for whom, as the host level wants to know it.

Each query's batches are planned by a thread of its own, and in local mode its tasks run in a lane
of threads that only urgent, or only lax, tasks use. So a thread's priority depends on nothing
that changes from task to task: the host level sets it once and the kernel does the rest.
"""

from __future__ import annotations

from collections.abc import Iterable

from laxity.spark.model import QueryModel
from laxity.spark.wire import ThreadSeen

URGENT_NICE, LAX_NICE = -5, 5
"""Ten levels are a factor of nine in CPU share. Not more: threads inherit the level of the one
that started them, and lax work should not fall far behind other processes of the host."""
HOST_PERIOD = 0.5

URGENT_TASKS, LAX_TASKS = "urgent tasks", "lax tasks"


class ThreadBook:
    """Thread ids by query, and by lane of task threads."""

    def __init__(self) -> None:
        self._streams: dict[str, int] = {}
        self._lanes: dict[bool, list[int]] = {False: [], True: []}

    def note(self, seen: Iterable[ThreadSeen]) -> None:
        for thread in seen:
            if thread.id:
                self._streams[thread.id] = thread.tid
            else:
                lane = self._lanes[thread.lax]
                lane.append(thread.tid)
                del lane[:-1000]  # ids of threads that ended are harmless, but need not pile up

    def feed(self, models: list[QueryModel]) -> dict[str, tuple[float, list[int]]]:
        """Laxity and threads of every query and lane; nothing while all queries are alike.

        A query's laxity is taken as its target: what is left of it changes with every batch, and
        priorities that changed with it would cost more than they bring.
        """
        urgent = [m.effective_target for m in models if m.is_urgent]
        lax = [m.effective_target for m in models if not m.is_urgent]
        if not urgent or not lax:
            return {}
        found: dict[str, tuple[float, list[int]]] = {
            m.name: (m.effective_target, [self._streams[m.id]])
            for m in models
            if m.id in self._streams
        }
        found[URGENT_TASKS] = min(urgent), self._lanes[False]
        found[LAX_TASKS] = max(lax), self._lanes[True]
        return found
