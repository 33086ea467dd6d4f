"""Settings of groups of threads: CPU shares or weights, and CPU quotas."""

from __future__ import annotations

import os
import re

from laxity.host.entities import Thread
from laxity.host.journal import Entry
from laxity.host.normalise import discretise
from laxity.host.schedule import GroupingSchedule
from laxity.host.translators.api import Change, Format, Normalisation, Tools, is_gone, normalise
from laxity.host.translators.hierarchy import Hierarchy

_SPAN = 8
"""The default range of weights: this many times lighter to this many times heavier than usual."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


class GroupTranslator:
    """A control group for each group of the schedule, below the cgroup its threads come from.

    The common root of the groups weighs as much as one ordinary thread on each core (fewer where
    it holds fewer): scheduled engines never crowd out the rest of the machine, the kernel's own
    workers among it.
    """

    format = Format.GROUPING

    def __init__(
        self,
        tools: Tools,
        hierarchy: Hierarchy | None,
        *,
        name: str = "shares",
        normalisation: Normalisation = Normalisation.AUTO,
        lax: int | None = None,
        urgent: int | None = None,
        cores: int | None = None,
        quota: bool = False,
    ) -> None:
        self.name = "quota" if quota else name
        self._tools = tools
        self._hierarchy = hierarchy
        self._how = normalisation
        self._range = (lax, urgent)
        self._cores = cores or os.cpu_count() or 1
        self._quota = quota
        self._root_name = f"laxity-{_UNSAFE.sub('_', tools.owner)}"
        self._homes: dict[int, str] = {}
        self._groups: dict[str, str] = {}
        """Path of a group → the setting it was last given."""
        self._roots: dict[str, int] = {}
        """Path of a common root → its weight."""
        self._places: dict[Thread, str] = {}

    def unavailable(self) -> str | None:
        if self._hierarchy is None:
            return "no control-group hierarchy with a cpu controller is mounted"
        own = Thread(os.getpid(), os.getpid(), 0)
        try:
            return self._hierarchy.unavailable(self._hierarchy.home(own))
        except OSError as error:
            return f"the control groups cannot be read: {error.strerror}"

    def apply(self, schedule: GroupingSchedule) -> list[Change]:
        settings = self._settings(schedule)
        changes: list[Change] = []
        try:
            wanted = self._make_groups(schedule, settings, changes)
            self._leave([t for t in self._places if t not in wanted])
            for thread, path in wanted.items():
                if self._places.get(thread) != path and self._place(thread, path):
                    changes.append(Change(f"cgroup of {thread.name or thread.tid}", path))
            self._drop_empty(set(wanted.values()))
        except OSError as error:
            # A full or read-only tree: what is set stays, the next period tries again.
            self._tools.notices.report(
                "cgroup-failed",
                f"control groups cannot be changed ({error.strerror}: {error.filename or ''}); "
                f"trying again every period",
            )
        else:
            self._tools.notices.over("cgroup-failed", "control groups can be changed again")
        return changes

    def _settings(self, schedule: GroupingSchedule) -> dict[str, float]:
        priorities = {gid: group.priority for gid, group in schedule.groups.items()}
        if self._quota:
            return self._quotas(priorities)
        assert self._hierarchy is not None
        scale = self._hierarchy.scale
        lax, urgent = self._range
        # Narrower than the kernel's range: a thread that is preempted while it holds a lock keeps
        # even the most urgent waiting until it runs again.
        narrow = type(scale)(
            lax=lax if lax is not None else max(scale.lax, scale.neutral / _SPAN),
            urgent=urgent if urgent is not None else min(scale.urgent, scale.neutral * _SPAN),
            neutral=scale.neutral,
        )
        scaled = normalise(priorities, narrow, schedule.spacing, self._how, logarithmic=False)
        return dict(discretise(scaled))

    def _quotas(self, priorities: dict[str, float]) -> dict[str, float]:
        """All cores, parted in the ratio of the priorities; none below a hundredth of a core."""
        floor = 0.01
        total = sum(max(p, 0.0) for p in priorities.values())
        if total <= 0:
            return dict.fromkeys(priorities, float(self._cores))
        return {g: max(floor, self._cores * max(p, 0.0) / total) for g, p in priorities.items()}

    def _make_groups(
        self, schedule: GroupingSchedule, settings: dict[str, float], changes: list[Change]
    ) -> dict[Thread, str]:
        wanted: dict[Thread, str] = {}
        self._make_roots(schedule)
        for gid, group in sorted(schedule.groups.items()):
            for thread in sorted(group.threads):
                home = self._home(thread)
                if home is None:
                    continue
                path = f"{home}/{self._root_name}/{_UNSAFE.sub('_', gid)}"
                if self._groups.get(path) != str(settings[gid]):
                    self._make_group(path, home, settings[gid])
                    changes.append(Change(f"{self.name} of {gid}", f"{settings[gid]:g}"))
                wanted[thread] = path
        return wanted

    def _make_group(self, path: str, home: str, setting: float) -> None:
        tools, hierarchy = self._tools, self._hierarchy
        assert hierarchy is not None
        if path not in self._groups:
            hierarchy.make_group(path, home, tools.journal, tools.owner)
        if self._quota:
            hierarchy.set_quota(path, setting)
        else:
            hierarchy.set_weight(path, int(setting))
        self._groups[path] = str(setting)

    def _make_roots(self, schedule: GroupingSchedule) -> None:
        tools, hierarchy = self._tools, self._hierarchy
        assert hierarchy is not None
        threads: dict[str, int] = {}
        for group in schedule.groups.values():
            for thread in group.threads:
                home = self._home(thread)
                if home is not None:
                    threads[home] = threads.get(home, 0) + 1
        for home, count in threads.items():
            root = f"{home}/{self._root_name}"
            heaviest = min(hierarchy.scale.urgent, self._cores * hierarchy.scale.neutral)
            weight = int(min(heaviest, count * hierarchy.scale.neutral))
            if root not in self._roots:
                hierarchy.make_group(root, home, tools.journal, tools.owner)
            if self._roots.get(root) != weight:
                hierarchy.set_weight(root, weight)
                self._roots[root] = weight

    def _home(self, thread: Thread) -> str | None:
        """Where the thread's process lives when it is first seen; its threads may be born inside
        a group of ours."""
        if thread.pid not in self._homes:
            assert self._hierarchy is not None
            try:
                home = self._hierarchy.home(Thread(thread.pid, thread.pid, 0))
            except OSError as error:
                if is_gone(error):
                    return None
                raise
            self._homes[thread.pid] = home.split(f"/{self._root_name}")[0]
        return self._homes[thread.pid]

    def _place(self, thread: Thread, path: str) -> bool:
        tools, hierarchy = self._tools, self._hierarchy
        assert hierarchy is not None
        if thread not in self._places:
            if not tools.kernel.is_alive(thread):
                return False
            entry = Entry(
                "cgroup",
                tools.owner,
                thread.pid,
                thread.tid,
                thread.started,
                was=f"{self._homes[thread.pid]}/{hierarchy.members_file}",
            )
            tools.journal.remember(entry)
        try:
            tools.kernel.write(f"{path}/{hierarchy.members_file}", str(thread.tid))
        except OSError as error:
            # A file that is missing is a group that somebody removed: not a thread that ended.
            if is_gone(error) and tools.kernel.exists(path):
                return False
            self._groups.pop(path, None)
            self._roots.clear()
            raise
        self._places[thread] = path
        return True

    def _leave(self, threads: list[Thread]) -> None:
        self._tools.journal.release(self._tools.owner, threads, ("cgroup",))
        for thread in threads:
            del self._places[thread]

    def _drop_empty(self, used: set[str]) -> None:
        """Groups of queries that have vanished. The journal keeps them until the end, which costs
        nothing; an empty directory does not matter to the kernel."""
        for path in [p for p in self._groups if p not in used]:
            try:
                self._tools.kernel.remove_dir(path)
            except OSError:
                continue
            del self._groups[path]

    def release(self) -> None:
        self._places.clear()
        self._groups.clear()
        self._roots.clear()
        self._homes.clear()
        self._tools.journal.restore(self._tools.owner)
