"""Settings of single threads: nice values, and real-time round robin."""

from __future__ import annotations

import os
from collections.abc import Mapping

from laxity.host.entities import Thread
from laxity.host.journal import Entry
from laxity.host.normalise import Scale, Spacing, discretise
from laxity.host.schedule import SinglePrioritySchedule
from laxity.host.translators.api import (
    Change,
    Format,
    Normalisation,
    Tools,
    is_denied,
    is_gone,
    normalise,
)


class NiceTranslator:
    """A nice value for each thread. Without the right to raise priorities it lowers the lax from
    where they are, leaves the urgent alone, and says so once."""

    name = "nice"
    format = Format.SINGLE

    def __init__(
        self,
        tools: Tools,
        *,
        normalisation: Normalisation = Normalisation.AUTO,
        urgent: int = -20,
        lax: int = 19,
    ) -> None:
        self._tools = tools
        self._how = normalisation
        self._given: dict[Thread, int] = {}
        allowed = tools.kernel.most_urgent_nice()
        best = min(lax, max(urgent, min(allowed, 0)))
        self.scale = Scale(lax=lax, urgent=best, neutral=min(max(0, best), lax))
        self.one_way = allowed > 0
        """What is lowered cannot be raised again, not even to where it was."""

    def unavailable(self) -> str | None:
        return None

    def apply(self, schedule: SinglePrioritySchedule) -> list[Change]:
        if self.one_way:
            self._tools.notices.report(
                "nice-one-way",
                "no right to raise priorities (needs root, CAP_SYS_NICE or RLIMIT_NICE): lax "
                "threads are lowered, urgent ones stay as they are, and a lowered thread stays "
                "lowered until it ends",
            )
        return self.set(self.values(schedule))

    def values(self, schedule: SinglePrioritySchedule) -> dict[Thread, int]:
        return discretise(
            normalise(
                schedule.priorities, self.scale, schedule.spacing, self._how, logarithmic=True
            )
        )

    def set(self, wanted: Mapping[Thread, int]) -> list[Change]:
        tools = self._tools
        left = [thread for thread in self._given if thread not in wanted]
        if left:
            tools.journal.release(tools.owner, left, ("nice",))
            for thread in left:
                del self._given[thread]
        changes = []
        for thread, value in wanted.items():
            if self._given.get(thread) == value:
                continue
            try:
                if self._set_one(thread, value):
                    changes.append(Change(f"nice of {thread.name or thread.tid}", str(value)))
            except OSError as error:
                if is_denied(error):
                    tools.notices.report(
                        "nice-denied",
                        f"not allowed to set nice {value} on thread {thread.tid} of process "
                        f"{thread.pid}; run as root or as the owner of that process",
                    )
                elif not is_gone(error):
                    raise
        return changes

    def _set_one(self, thread: Thread, value: int) -> bool:
        tools = self._tools
        current = tools.kernel.nice(thread.tid)
        if self.one_way and value < current:
            value = current
        if thread not in self._given and not tools.kernel.is_alive(thread):
            return False  # the tid may be a stranger's by now
        if current != value:
            tools.journal.remember_nice(tools.owner, thread, value)
            tools.kernel.set_nice(thread.tid, value)
        self._given[thread] = value
        return current != value

    def release(self) -> None:
        self._given.clear()
        self._tools.journal.restore(self._tools.owner)
        self._tools.notices.over("nice-one-way")


class RoundRobinTranslator:
    """SCHED_RR priorities: the urgent run whenever they can, ahead of every ordinary thread of
    the machine. The range is kept low, below the kernel's own real-time threads."""

    name = "rr"
    format = Format.SINGLE

    def __init__(
        self,
        tools: Tools,
        *,
        normalisation: Normalisation = Normalisation.AUTO,
        urgent: int = 40,
        lax: int = 1,
    ) -> None:
        self._tools = tools
        self._how = normalisation
        self._given: dict[Thread, int] = {}
        self.scale = Scale(lax=lax, urgent=urgent, neutral=lax)

    def unavailable(self) -> str | None:
        if self._tools.kernel.most_urgent_nice() > -20:
            return "real-time scheduling needs root or CAP_SYS_NICE"
        return None

    def apply(self, schedule: SinglePrioritySchedule) -> list[Change]:
        tools = self._tools
        how = self._how
        if how in (Normalisation.AUTO, Normalisation.EXACT):
            # Real-time priorities are an order, not a share: their ratios mean nothing.
            linear = schedule.spacing is Spacing.LINEAR
            how = Normalisation.MIN_MAX if linear else Normalisation.LOG_MIN_MAX
        wanted = discretise(
            normalise(schedule.priorities, self.scale, schedule.spacing, how, logarithmic=False)
        )
        left = [thread for thread in self._given if thread not in wanted]
        tools.journal.release(tools.owner, left, ("scheduler",))
        for thread in left:
            del self._given[thread]
        changes = []
        for thread, value in wanted.items():
            if self._given.get(thread) == value:
                continue
            try:
                if thread not in self._given:
                    if not tools.kernel.is_alive(thread):
                        continue
                    self._remember(thread)
                tools.kernel.set_scheduler(thread.tid, os.SCHED_RR, value)
            except OSError as error:
                if is_denied(error):
                    tools.notices.report(
                        "rr-denied",
                        f"not allowed to give thread {thread.tid} real-time priority {value}: "
                        f"run as root; in a v1 cpu cgroup set its cpu.rt_runtime_us",
                    )
                elif not is_gone(error):
                    raise
                continue
            self._given[thread] = value
            changes.append(Change(f"SCHED_RR of {thread.name or thread.tid}", str(value)))
        return changes

    def _remember(self, thread: Thread) -> None:
        was = list(self._tools.kernel.scheduler(thread.tid))
        entry = Entry(
            "scheduler", self._tools.owner, thread.pid, thread.tid, thread.started, was=was
        )
        self._tools.journal.remember(entry)

    def release(self) -> None:
        self._given.clear()
        self._tools.journal.restore(self._tools.owner)
