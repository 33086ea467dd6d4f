"""What must be put back: written down before anything is changed.

One JSON line an entry, appended with a single unbuffered write: a process killed between two
instructions has either written an entry or not made the change. (No fsync: a machine that loses
power loses its nice values and cgroups too; entries of an earlier boot are dropped.) A lock file
beside it says whether its owner lives; `recover` takes over journals whose owner does not.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from laxity.host import procfs
from laxity.host.entities import Thread
from laxity.host.errors import HostBusyError
from laxity.host.kernel import Kernel

_SPARE_LINES = 2_000
"""Lines of threads that have left, before the file is written anew."""
_GONE = (errno.ESRCH, errno.ENOENT, errno.ENODEV)


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to undo. `kind` says how: nice, scheduler, cgroup (of a thread), directory,
    file, baseline (the nice value that new threads of a process should have had), used (a nice
    value that was given out)."""

    kind: str
    owner: str
    pid: int = 0
    tid: int = 0
    started: int = 0
    path: str = ""
    was: Any = None

    @property
    def thread(self) -> Thread:
        return Thread(self.pid, self.tid, self.started)

    def line(self) -> bytes:
        return _line({name: getattr(self, name) for name in self.__slots__})

    @property
    def key(self) -> tuple[str, str, int, int, int, str]:
        return (self.kind, self.owner, self.pid, self.tid, self.started, self.path)


@dataclass(slots=True)
class RestoreReport:
    restored: int = 0
    gone: int = 0
    failed: list[str] = field(default_factory=list)

    def __iadd__(self, other: RestoreReport) -> RestoreReport:
        self.restored += other.restored
        self.gone += other.gone
        self.failed += other.failed
        return self


def default_directory() -> Path:
    """Where journals and status files live: gone after a reboot, like what they describe."""
    if os.geteuid() == 0 and os.access("/run", os.W_OK):
        return Path("/run/laxity")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime or f"/tmp/laxity-{os.getuid()}", "laxity" if runtime else "")


class Journal:
    """Entries in memory and, where a directory is given, on disk (not for a dry run)."""

    def __init__(
        self,
        kernel: Kernel,
        directory: Path | None = None,
        name: str = "host",
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._kernel = kernel
        self._pause = pause
        self._entries: dict[tuple[Any, ...], Entry] = {}
        self._path = directory / f"{name}.journal" if directory else None
        self._file: int | None = None
        self._lines = 0
        self._lock: int | None = None
        if directory is not None and self._path is not None:
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._lock = _try_lock(self._path.with_suffix(".lock"))
            if self._lock is None:
                raise HostBusyError(
                    f"a host loop named {name!r} is running already (it holds {self._path}); "
                    f"stop it, or choose another name with --name"
                )
            self._load()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries.values())

    def remember(self, entry: Entry) -> None:
        """Must be called before the change. The first memory counts: later values are ours."""
        if entry.key in self._entries:
            return
        if self._path is not None:
            if self._file is None:
                self._open_anew(())
            assert self._file is not None
            os.write(self._file, entry.line())
            self._lines += 1
        self._entries[entry.key] = entry

    def find(self, kind: str, owner: str, thread: Thread) -> Entry | None:
        return self._entries.get((kind, owner, thread.pid, thread.tid, thread.started, ""))

    def remember_nice(self, owner: str, thread: Thread, give: int) -> None:
        """Before thread is given nice value `give`.

        A thread born after its process was first touched has inherited a value of ours, from the
        thread that made it: what it should have is the process's baseline.
        """
        self.remember(Entry("used", owner, path=str(give)))
        if self.find("nice", owner, thread) is not None:
            return
        baseline = self._baseline(owner, thread)
        current = self._kernel.nice(thread.tid)
        born_after = baseline.was[1] is not None and thread.started > baseline.was[1]
        inherited = born_after and ("used", owner, 0, 0, 0, str(current)) in self._entries
        was = baseline.was[0] if inherited else current
        self.remember(Entry("nice", owner, thread.pid, thread.tid, thread.started, was=was))

    def _baseline(self, owner: str, thread: Thread) -> Entry:
        key = ("baseline", owner, thread.pid, 0, 0, "")
        found = self._entries.get(key)
        if found is None:
            youngest = max((t.started for t in self._kernel.threads(thread.pid)), default=None)
            try:
                nice = self._kernel.nice(thread.pid)
            except OSError:
                nice = self._kernel.nice(thread.tid)
            found = Entry("baseline", owner, thread.pid, was=[nice, youngest])
            self.remember(found)
        return found

    def release(self, owner: str, threads: Iterable[Thread], kinds: Iterable[str]) -> RestoreReport:
        """Put these threads back and forget them: they have left the schedule."""
        report = RestoreReport()
        for thread in threads:
            for kind in kinds:
                entry = self.find(kind, owner, thread)
                if entry is not None and self._undo(entry, report):
                    del self._entries[entry.key]
        if self._lines > 2 * len(self._entries) + _SPARE_LINES:
            self._open_anew(self.entries)
        return report

    def restore(self, owner: str | None = None) -> RestoreReport:
        """Undo everything (of one owner), last change first. What fails stays in the journal."""
        report = RestoreReport()
        mine = [e for e in self._entries.values() if owner is None or e.owner == owner]
        known = {e.thread for e in mine if e.kind == "nice"}
        for entry in reversed(mine):
            if entry.kind == "baseline":
                used = {int(e.path) for e in mine if e.kind == "used" and e.owner == entry.owner}
                self._undo_inherited(entry, used, known, report)
            if self._undo(entry, report):
                del self._entries[entry.key]
        if self._path is not None:
            self._open_anew(self.entries)
        return report

    def close(self) -> None:
        """Only after `restore`, or the next start will do it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self._path is not None and not self._entries:
            self._path.unlink(missing_ok=True)
        if self._lock is not None and self._path is not None:
            if not self._entries:
                self._path.with_suffix(".lock").unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    def _undo(self, entry: Entry, report: RestoreReport) -> bool:
        """Whether the entry is done with."""
        try:
            if entry.tid and not self._kernel.is_alive(entry.thread):
                report.gone += 1
                return True
            undone = self._UNDO[entry.kind](self, entry)
        except OSError as error:
            if error.errno not in _GONE:
                what = entry.path or f"thread {entry.tid} of process {entry.pid}"
                report.failed.append(f"{entry.kind} of {what}: {error.strerror or error}")
                return False
            report.gone += 1
        else:
            report.restored += undone
        return True

    def _undo_nice(self, entry: Entry) -> bool:
        if self._kernel.nice(entry.tid) == entry.was:
            return False
        self._kernel.set_nice(entry.tid, entry.was)
        return True

    def _undo_scheduler(self, entry: Entry) -> bool:
        self._kernel.set_scheduler(entry.tid, *entry.was)
        return True

    def _undo_cgroup(self, entry: Entry) -> bool:
        self._kernel.write(entry.was, str(entry.tid))
        return True

    def _undo_directory(self, entry: Entry) -> bool:
        """Whoever was born in the group goes where the group's makers came from."""
        members, home = entry.was
        if not self._kernel.exists(entry.path):
            return False
        for attempt in range(20):
            for tid in self._kernel.read(f"{entry.path}/{members}").split():
                try:
                    self._kernel.write(home, tid)
                except OSError as error:
                    if error.errno not in _GONE:
                        raise
            try:
                self._kernel.remove_dir(entry.path)
            except OSError as error:
                # Threads that are just ending still count as members.
                if error.errno != errno.EBUSY or attempt == 19:
                    raise
                self._pause(0.01)
            else:
                break
        return True

    def _undo_file(self, entry: Entry) -> bool:
        self._kernel.write(entry.path, entry.was)
        return True

    def _undo_nothing(self, entry: Entry) -> bool:
        return False

    _UNDO = {  # noqa: RUF012 - a table of methods, never changed
        "nice": _undo_nice,
        "scheduler": _undo_scheduler,
        "cgroup": _undo_cgroup,
        "directory": _undo_directory,
        "file": _undo_file,
        "baseline": _undo_nothing,
        "used": _undo_nothing,
    }

    def _undo_inherited(
        self, baseline: Entry, used: set[int], known: set[Thread], report: RestoreReport
    ) -> None:
        """Threads and child processes that were born with a nice value of ours."""
        nice, youngest = baseline.was
        for pid in (baseline.pid, *self._kernel.descendants(baseline.pid)):
            for thread in self._kernel.threads(pid):
                if thread in known or youngest is None or thread.started <= youngest:
                    continue
                try:
                    if self._kernel.nice(thread.tid) in used - {nice}:
                        self._kernel.set_nice(thread.tid, nice)
                        report.restored += 1
                except OSError as error:
                    if error.errno not in _GONE:
                        report.failed.append(f"nice of thread {thread.tid}: {error.strerror}")

    def _load(self) -> None:
        assert self._path is not None
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        try:
            if json.loads(lines[0] or b"{}").get("boot") != procfs.boot_id():
                return
        except ValueError:
            return
        for line in lines[1:]:
            try:
                entry = Entry(**json.loads(line))
            except (ValueError, TypeError):
                continue  # the last line of a killed writer; its change was never made
            self._entries[entry.key] = entry

    def _open_anew(self, entries: Iterable[Entry]) -> None:
        """Replace the file in one step."""
        assert self._path is not None
        fresh = self._path.with_suffix(".new")
        opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        os.write(opened, _line({"boot": procfs.boot_id(), "pid": os.getpid()}))
        self._lines = 0
        for entry in entries:
            os.write(opened, entry.line())
            self._lines += 1
        os.replace(fresh, self._path)
        if self._file is not None:
            os.close(self._file)
        self._file = opened


def recover(kernel: Kernel, directory: Path) -> RestoreReport:
    """Put back what runs that never ended properly have left. Safe at any time: a journal whose
    owner lives is locked."""
    report = RestoreReport()
    for path in sorted(directory.glob("*.journal")) if directory.is_dir() else ():
        try:
            journal = Journal(kernel, directory, path.stem)
        except HostBusyError:
            continue
        report += journal.restore()
        journal.close()
    return report


def _try_lock(path: Path) -> int | None:
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        # Its last owner may have removed the file between our open and our lock.
        try:
            if os.stat(path).st_ino == os.fstat(lock).st_ino:
                return lock
        except FileNotFoundError:
            pass
        os.close(lock)


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"
