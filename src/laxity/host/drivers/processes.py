"""Finding an engine's processes, cheaply enough to do it every period."""

from __future__ import annotations

import re

from laxity.host import procfs


class ProcessFinder:
    """Processes whose command line matches. A command line is read only when its process is new:
    twice, since a process seen between fork and exec still shows its parent's."""

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern)
        self._looks: dict[int, int] = {}
        self._found: set[int] = set()

    def find(self) -> list[int]:
        present = set(procfs.processes())
        self._looks = {pid: n for pid, n in self._looks.items() if pid in present}
        self._found &= present
        for pid in present:
            looks = self._looks.get(pid, 0)
            if looks < 2:
                self._looks[pid] = looks + 1
                if self._pattern.search(procfs.command_line(pid)):
                    self._found.add(pid)
                else:
                    self._found.discard(pid)
        return sorted(self._found)
