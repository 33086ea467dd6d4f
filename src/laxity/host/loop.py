"""The main loop (Algorithm 1): several policies, each with its own period and translator.

The paper sleeps the greatest common divisor of the periods and checks who is due. Here the loop
sleeps until the earliest due time, which runs the same policies at the same times without the
wake-ups in which nobody is due.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from laxity.clock import Clock, SystemClock
from laxity.host.binding import Binding, Measured
from laxity.host.catalogue import CATALOGUE
from laxity.host.drivers.api import Driver
from laxity.host.errors import HostError, InvalidHostConfigError, MissingMetricError
from laxity.host.fetch import Fetcher, InlineFetcher
from laxity.host.metrics import MetricProvider, Snapshot
from laxity.host.notices import Notices
from laxity.host.translators import Change

_PATIENCE = 3
"""Periods a silent engine keeps its last priorities; then its threads get their defaults back."""


@dataclass(slots=True)
class Step:
    """What one pass did."""

    at: float
    ran: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    snapshots: dict[str, Snapshot] = field(default_factory=dict)


@dataclass(slots=True)
class _Silence:
    snapshot: Snapshot
    periods: int = 0


class HostLoop:
    """`step` is one pass and all there is to test; `run` repeats it."""

    def __init__(
        self,
        drivers: Iterable[Driver],
        bindings: Iterable[Binding],
        *,
        clock: Clock | None = None,
        fetcher: Fetcher | None = None,
        notices: Notices | None = None,
        provider: MetricProvider | None = None,
        on_step: Callable[[Step], None] | None = None,
    ) -> None:
        self.notices = notices or Notices()
        self._drivers = {driver.name: driver for driver in drivers}
        self._clock = clock or SystemClock()
        self._fetcher = fetcher or InlineFetcher()
        self._provider = provider or MetricProvider(CATALOGUE)
        self._on_step = on_step
        self._lock = threading.RLock()
        self._bindings: dict[str, Binding] = {}
        self._due: dict[str, float] = {}
        self._last: dict[str, _Silence] = {}
        self._wake = threading.Event()
        self._stopped = False
        self._used = 0.0
        for binding in bindings:
            self.add(binding)

    @property
    def bindings(self) -> Sequence[Binding]:
        return tuple(self._bindings.values())

    @property
    def busy_seconds(self) -> float:
        """CPU time of all passes so far, reading the engines included."""
        return self._used + self._fetcher.busy_seconds

    def add(self, binding: Binding) -> None:
        """Also while it runs. Fails at once if a covered engine lacks a metric it needs."""
        with self._lock:
            if binding.name in self._bindings:
                raise InvalidHostConfigError(f"two policies are named {binding.name!r}")
            for driver in self._drivers.values():
                if binding.covers(driver.name):
                    self._provider.raw_needs(binding.metrics, driver)
            self._bindings[binding.name] = binding
            self._due[binding.name] = self._clock.now()
        self._wake.set()

    def remove(self, name: str) -> None:
        """Its changes are put back."""
        with self._lock:
            binding = self._binding(name)
            binding.translator.release()
            del self._bindings[name], self._due[name]

    def enable(self, name: str, on: bool = True) -> None:
        """Switch a policy on or off while the loop runs; off puts its changes back."""
        with self._lock:
            binding = self._binding(name)
            if binding.enabled and not on:
                binding.translator.release()
            if on and not binding.enabled:
                self._due[name] = self._clock.now()
            binding.enabled = on
        self._wake.set()

    def _binding(self, name: str) -> Binding:
        try:
            return self._bindings[name]
        except KeyError:
            raise InvalidHostConfigError(
                f"no policy is named {name!r}; there are {', '.join(self._bindings) or 'none'}"
            ) from None

    def look(self) -> None:
        """Measure and change nothing: rates need two looks."""
        with self._lock:
            now = self._clock.now()
            self._measure(now, Step(now))

    def step(self) -> Step:
        with self._lock:
            now = self._clock.now()
            step = Step(now)
            due = [b for b in self._bindings.values() if b.enabled and self._due[b.name] <= now]
            if not due:
                return step
            started = time.thread_time()
            engines = self._measure(now, step)
            for binding in due:
                self._run(binding, engines, step)
                self._due[binding.name] = _next_due(self._due[binding.name], binding.period, now)
            self._used += time.thread_time() - started
        if self._on_step:
            self._on_step(step)
        return step

    def _run(self, binding: Binding, engines: list[Measured], step: Step) -> None:
        key = f"policy-{binding.name}"
        try:
            schedule = binding.schedule(engines)
            step.changes += binding.translator.apply(schedule)
        except (HostError, OSError) as error:
            self.notices.report(key, f"policy {binding.name!r}: {error}; trying again")
        else:
            self.notices.over(key, f"policy {binding.name!r} works again")
            step.ran.append(binding.name)

    def _measure(self, now: float, step: Step) -> list[Measured]:
        """Registered are the metrics of all policies that are on, due or not: a rate needs the
        value of the pass before."""
        wanted = {name: self._wanted(name) for name in self._drivers}
        requests = [
            (driver, self._provider.raw_needs(wanted[name], driver))
            for name, driver in self._drivers.items()
            if self._covered(name)
        ]
        engines: list[Measured] = []
        for name, answer in self._fetcher.fetch(requests, now).items():
            snapshot = self._accept(name, answer)
            if snapshot is None:
                continue
            try:
                metrics = self._provider.update(snapshot, wanted[name])
            except MissingMetricError as error:
                self.notices.report(f"metrics-{name}", str(error))
                continue
            self.notices.over(f"metrics-{name}", f"engine {name!r} gives all metrics again")
            step.snapshots[name] = snapshot
            engines.append(Measured(snapshot, metrics))
        return engines

    def _covered(self, engine: str) -> bool:
        return any(b.enabled and b.covers(engine) for b in self._bindings.values())

    def _wanted(self, engine: str) -> frozenset[str]:
        on = (b for b in self._bindings.values() if b.enabled and b.covers(engine))
        return frozenset().union(*(b.metrics for b in on))

    def _accept(self, name: str, answer: Snapshot | Exception) -> Snapshot | None:
        if isinstance(answer, Snapshot):
            self.notices.over(f"engine-{name}", f"engine {name!r} is back")
            self._last[name] = _Silence(answer)
            return answer
        self.notices.report(f"engine-{name}", f"engine {name!r} cannot be read: {answer}")
        last = self._last.get(name)
        if last is None:
            return None
        last.periods += 1
        if last.periods > _PATIENCE:
            del self._last[name]
            self._provider.forget(name)
            return None
        return last.snapshot

    def pause(self) -> float:
        """Seconds until somebody is due; a second where nobody is on."""
        with self._lock:
            due = [self._due[b.name] for b in self._bindings.values() if b.enabled]
            return max(0.0, min(due) - self._clock.now()) if due else 1.0

    def run(self, sleep: Callable[[float], object] | None = None) -> None:
        """Until `stop`. `sleep` replaces waiting, for a clock that is not the wall's."""
        while not self._stopped:
            self.step()
            if sleep is not None:
                sleep(self.pause())
                continue
            self._wake.wait(self.pause())
            self._wake.clear()

    def stop(self) -> None:
        """From any thread. `run` returns; `close` puts everything back."""
        self._stopped = True
        self._wake.set()

    def close(self) -> None:
        with self._lock:
            for binding in self._bindings.values():
                binding.translator.release()
            for driver in self._drivers.values():
                driver.close()
            self._fetcher.close()


def _next_due(due: float, period: float, now: float) -> float:
    """On the policy's own grid; passes that were missed are not made up for."""
    following = due + period
    return following if following > now else now + period
