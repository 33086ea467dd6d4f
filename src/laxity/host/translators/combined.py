"""Two dimensions at once: groups compete for the CPU, threads inside a group for its part."""

from __future__ import annotations

from laxity.host.entities import Thread
from laxity.host.schedule import NestedSchedule, SinglePrioritySchedule
from laxity.host.translators.api import Change, Format
from laxity.host.translators.groups import GroupTranslator
from laxity.host.translators.threads import NiceTranslator


class CombinedTranslator:
    """A nice value counts only among the threads of one control group, so each group uses the
    whole range for itself (§5.3)."""

    format = Format.NESTED

    def __init__(self, groups: GroupTranslator, inside: NiceTranslator) -> None:
        self._groups = groups
        self._inside = inside
        self.name = f"{groups.name}+{inside.name}"

    def unavailable(self) -> str | None:
        return self._groups.unavailable() or self._inside.unavailable()

    def apply(self, schedule: NestedSchedule) -> list[Change]:
        changes = self._groups.apply(schedule.groups)
        values: dict[Thread, int] = {}
        for group in schedule.groups.groups.values():
            part = {
                thread: priority
                for thread, priority in schedule.inside.priorities.items()
                if thread in group.threads
            }
            values |= self._inside.values(SinglePrioritySchedule(part, schedule.inside.spacing))
        return changes + self._inside.set(values)

    def release(self) -> None:
        self._inside.release()
        self._groups.release()
