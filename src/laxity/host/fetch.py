"""Asking drivers for snapshots without letting a slow engine hold up the others."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic, thread_time
from typing import Protocol

from laxity.host.drivers.api import Driver
from laxity.host.errors import EngineTimeoutError
from laxity.host.metrics import Snapshot

Request = tuple[Driver, frozenset[str]]
Answers = Mapping[str, Snapshot | Exception]


class Fetcher(Protocol):
    @property
    def busy_seconds(self) -> float:
        """CPU time used in threads other than the caller's."""
        ...

    def fetch(self, requests: Sequence[Request], now: float) -> Answers: ...

    def close(self) -> None:
        """Let go of threads; nothing is fetched afterwards."""
        ...


def ask(driver: Driver, now: float, wanted: frozenset[str]) -> Snapshot | Exception:
    try:
        return driver.snapshot(now, wanted)
    except Exception as error:  # a driver's fault must not end the loop
        return error


class InlineFetcher:
    """One after the other, in the caller's thread."""

    busy_seconds = 0.0

    def fetch(self, requests: Sequence[Request], now: float) -> Answers:
        return {driver.name: ask(driver, now, wanted) for driver, wanted in requests}

    def close(self) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class _Worker:
    """One driver's own thread. `pending` while a question has not been answered."""

    questions: queue.SimpleQueue[tuple[Driver, float, frozenset[str]] | None]
    answers: queue.SimpleQueue[Snapshot | Exception]
    pending: bool = False
    has_answered: bool = False
    busy_seconds: float = 0.0

    def run(self) -> None:
        while (question := self.questions.get()) is not None:
            answer = ask(*question)
            self.busy_seconds = thread_time()
            self.answers.put(answer)


class ThreadedFetcher:
    """All at once, each in its own thread, none waited for longer than `timeout`.

    An engine that hangs is not asked again until it has answered: at most one thread a driver
    is ever stuck, and a late answer is thrown away as out of date.
    """

    def __init__(self, timeout: float, first: float | None = None) -> None:
        """`first` is the patience with an engine that has never answered yet: the first call of
        a REST API may have to load and compile it."""
        self._timeout = timeout
        self._first = timeout if first is None else first
        self._workers: dict[str, _Worker] = {}

    def close(self) -> None:
        for worker in self._workers.values():
            worker.questions.put(None)

    @property
    def busy_seconds(self) -> float:
        return sum(worker.busy_seconds for worker in self._workers.values())

    def fetch(self, requests: Sequence[Request], now: float) -> Answers:
        asked: dict[str, _Worker] = {}
        answers: dict[str, Snapshot | Exception] = {}
        for driver, wanted in requests:
            worker = self._worker(driver.name)
            if worker.pending and not self._late_answer_arrived(worker):
                answers[driver.name] = self._timed_out(driver.name)
                continue
            worker.pending = True
            worker.questions.put((driver, now, wanted))
            asked[driver.name] = worker
        began = monotonic()
        for name, worker in asked.items():
            patience = self._timeout if worker.has_answered else self._first
            try:
                answers[name] = worker.answers.get(timeout=max(0.0, began + patience - monotonic()))
                worker.pending, worker.has_answered = False, True
            except queue.Empty:
                answers[name] = self._timed_out(name)
        return answers

    def _worker(self, name: str) -> _Worker:
        if name not in self._workers:
            worker = _Worker(queue.SimpleQueue(), queue.SimpleQueue())
            threading.Thread(target=worker.run, name=f"laxity-{name}", daemon=True).start()
            self._workers[name] = worker
        return self._workers[name]

    def _late_answer_arrived(self, worker: _Worker) -> bool:
        try:
            worker.answers.get_nowait()
        except queue.Empty:
            return False
        worker.pending = False
        return True

    def _timed_out(self, name: str) -> EngineTimeoutError:
        return EngineTimeoutError(f"engine {name!r} did not answer within {self._timeout:g} s")
