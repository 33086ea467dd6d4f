"""The table of threads, on this machine's /proc."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Iterator

import pytest

from laxity.host import procfs
from laxity.host.entities import Thread
from laxity.host.threads import ThreadTable


class Worker(threading.Thread):
    """A thread that can be renamed, made to work and ended."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._go = threading.Event()
        self._done = threading.Event()
        self._work = lambda: None
        self._ended = False
        self.start()

    def run(self) -> None:
        while not self._ended:
            self._go.wait()
            self._go.clear()
            self._work()
            self._done.set()

    def do(self, work: object) -> None:
        assert callable(work)
        self._work = work
        self._done.clear()
        self._go.set()
        assert self._done.wait(60)

    def rename(self, name: bytes) -> None:
        self.do(lambda: ctypes.CDLL(None).prctl(15, name, 0, 0, 0))  # PR_SET_NAME

    def end(self) -> None:
        def last() -> None:
            self._ended = True

        self.do(last)
        self.join(60)
        while self.native_id in procfs.thread_ids(os.getpid()):
            pass  # the kernel takes a moment longer than Python


@pytest.fixture
def worker() -> Iterator[Worker]:
    running = Worker()
    yield running
    if running.is_alive():
        running.end()


@pytest.fixture(params=[None, 0], ids=["files stay open", "no file may stay open"])
def table(request: pytest.FixtureRequest) -> Iterator[ThreadTable]:
    made = ThreadTable(request.param)
    files = len(os.listdir("/proc/self/fd"))
    yield made
    made.close()
    assert len(os.listdir("/proc/self/fd")) == files, "every file is closed"


def find(table: ThreadTable, worker: Worker) -> Thread | None:
    return next((t for t in table.of(os.getpid()) if t.tid == worker.native_id), None)


def test_threads_are_seen_under_their_present_names_until_they_end(
    table: ThreadTable, worker: Worker
) -> None:
    for name in ("first", "second"):
        worker.rename(name.encode())
        seen = find(table, worker)
        assert seen is not None
        assert seen.name == name
        assert seen == procfs.thread_stat(os.getpid(), seen.tid).thread  # type: ignore[union-attr]
    worker.end()
    assert find(table, worker) is None
    assert table.cpu_seconds(seen) is None


def test_cpu_time_grows_with_work(table: ThreadTable, worker: Worker) -> None:
    seen = find(table, worker)
    assert seen is not None
    before = table.cpu_seconds(seen)
    worker.do(lambda: sum(range(1_000_000)))
    after = table.cpu_seconds(seen)
    assert before is not None
    assert after is not None
    assert after > before


def test_some_threads_of_a_process_can_be_asked_for(table: ThreadTable, worker: Worker) -> None:
    assert worker.native_id is not None
    found = table.of(os.getpid(), [worker.native_id, 2**22 + 1])
    assert [thread.tid for thread in found] == [worker.native_id]


def test_a_process_that_is_gone_has_no_threads(table: ThreadTable) -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    assert [thread.pid for thread in table.of(sleeper.pid)] == [sleeper.pid]
    sleeper.kill()
    sleeper.wait()
    assert table.of(sleeper.pid) == []


def test_files_beyond_the_limit_are_not_kept_open(worker: Worker) -> None:
    table = ThreadTable(most_files=1)
    before = len(os.listdir("/proc/self/fd"))
    for thread in table.of(os.getpid()):
        assert table.cpu_seconds(thread) is not None
    assert len(os.listdir("/proc/self/fd")) == before + 1
    table.keep([])
    assert len(os.listdir("/proc/self/fd")) == before
