"""A host loop with everything around it: recovery, journal, status file, orderly end."""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from laxity.host.binding import Binding
from laxity.host.drivers.api import FIRST_ANSWER, Driver
from laxity.host.fetch import Fetcher, InlineFetcher, ThreadedFetcher
from laxity.host.journal import Journal, default_directory, recover
from laxity.host.kernel import DryKernel, Kernel, LinuxKernel
from laxity.host.loop import HostLoop, Step
from laxity.host.notices import Notices
from laxity.host.policies import HostPolicy, LeastLaxity
from laxity.host.translators import make_translator
from laxity.host.translators.api import Tools

OWN_NICE = -10
"""Of a process that does nothing but schedule: on a full machine it must still come to decide."""

_STATUS_EVERY = 0.9
"""Seconds, just below the usual period; shorter ones do not write the status file more often."""

BindingMaker = Callable[[Kernel, Journal, Notices], list[Binding]]


@dataclass
class HostRunner:
    """Use as a context manager: on the way in, what an earlier run left is put back; on the way
    out, what this one changed."""

    drivers: Iterable[Driver]
    make_bindings: BindingMaker
    name: str = "host"
    directory: Path | None = None
    timeout: float = 1.0
    fetcher: Fetcher | None = None
    """How drivers are asked; None asks each in a thread of its own, and waits for `timeout`."""
    say: Callable[[str], None] | None = None
    dry_run: Callable[[str], None] | None = None
    on_step: Callable[[Step], None] | None = None

    def __post_init__(self) -> None:
        self.notices = Notices(self.say)
        self.directory = self.directory or default_directory()
        self._thread: threading.Thread | None = None
        self._began = time.monotonic()
        self._passes = 0
        self._told_at = -math.inf

    def __enter__(self) -> HostRunner:
        real = LinuxKernel()
        assert self.directory is not None
        if self.dry_run:
            kernel: Kernel = DryKernel(real, self.dry_run)
            self.journal = Journal(kernel)
        else:
            kernel = real
            report = recover(kernel, self.directory)
            forget_dead(self.directory)
            if report.restored or report.failed:
                self.notices.tell(
                    f"an earlier run did not end properly: {report.restored} settings put back"
                    + "".join(f"; failed: {failure}" for failure in report.failed)
                )
            self.journal = Journal(kernel, self.directory, self.name)
        try:
            self.loop = HostLoop(
                self.drivers,
                self.make_bindings(kernel, self.journal, self.notices),
                fetcher=self.fetcher
                or ThreadedFetcher(self.timeout, max(self.timeout, FIRST_ANSWER)),
                notices=self.notices,
                on_step=self._after_step,
            )
        except BaseException:
            self.journal.close()
            raise
        return self

    def start(self) -> None:
        """In a thread of its own."""
        self._thread = threading.Thread(target=self.loop.run, name="laxity-host", daemon=True)
        self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.loop.stop()
        if self._thread is not None:
            self._thread.join(timeout=10)
        self.loop.close()
        if self.dry_run is None:
            report = self.journal.restore()
            for failure in report.failed:
                self.notices.tell(f"could not be put back: {failure}")
            self._status_path.unlink(missing_ok=True)
        self.journal.close()

    @property
    def _status_path(self) -> Path:
        assert self.directory is not None
        return self.directory / f"{self.name}.status.json"

    def _after_step(self, step: Step) -> None:
        self._passes += 1
        if self.dry_run is None and step.at >= self._told_at + _STATUS_EVERY:
            self._told_at = step.at
            fresh = self._status_path.with_suffix(".new")
            fresh.write_text(json.dumps(self._status(step)))
            os.replace(fresh, self._status_path)
        if self.on_step is not None:
            self.on_step(step)

    def _status(self, step: Step) -> dict[str, Any]:
        elapsed = time.monotonic() - self._began
        return {
            "name": self.name,
            "pid": os.getpid(),
            "at": step.at,
            "passes": self._passes,
            "cpu_percent": 100 * self.loop.busy_seconds / elapsed if elapsed > 0 else 0.0,
            "journalled": len(self.journal),
            "problems": list(self.notices.current),
            "policies": [
                {
                    "name": b.name,
                    "policy": b.policy.name,
                    "translator": b.translator.name,
                    "period": b.period,
                    "enabled": b.enabled,
                }
                for b in self.loop.bindings
            ],
            "engines": [
                {
                    "name": name,
                    "queries": len(snapshot.deployment.queries),
                    "operators": len(snapshot.deployment.physical),
                    "threads": sum(len(op.threads) for op in snapshot.deployment.physical),
                }
                for name, snapshot in step.snapshots.items()
            ],
            "last_changes": [[c.what, c.value] for c in step.changes[:50]],
        }


def read_statuses(directory: Path) -> list[dict[str, Any]]:
    """What every loop last said of itself, and whether it lives."""
    found = []
    for path in sorted(directory.glob("*.status.json")):
        with contextlib.suppress(OSError, ValueError):  # it may end just now
            status = json.loads(path.read_text())
            found.append({**status, "alive": os.path.exists(f"/proc/{status['pid']}")})
    return found


def forget_dead(directory: Path) -> None:
    """Drop the status files of loops that have died; their journals are `recover`'s."""
    for status in read_statuses(directory):
        if not status["alive"]:
            (directory / f"{status['name']}.status.json").unlink(missing_ok=True)


def prefer_this_process() -> int:
    """Where it is allowed; returns what the nice value was."""
    was = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, min(was, OWN_NICE))
    return was


def for_driver(
    driver: Driver,
    *,
    policy: HostPolicy | None = None,
    translator: str = "nice",
    period: float = 0.2,
    name: str | None = None,
    say: Callable[[str], None] | None = None,
    **options: Any,
) -> HostRunner:
    """One driver, one policy: what a program needs that schedules its own threads. `options` are
    the translator's."""

    def bindings(kernel: Kernel, journal: Journal, notices: Notices) -> list[Binding]:
        tools = Tools(kernel, journal, notices, f"{driver.name}-{os.getpid()}")
        chosen = policy or LeastLaxity()
        made = make_translator(translator, tools, **options)
        return [Binding(chosen.name, chosen, made, period=period)]

    # What a program knows of itself it need not be asked for in another thread, nor within a time.
    called = name or f"{driver.name}-{os.getpid()}"
    return HostRunner([driver], bindings, name=called, fetcher=InlineFetcher(), say=say)
