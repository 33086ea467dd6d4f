"""The agent: one application of the fleet. Follows orders, keeps leases, reports.

It needs the orchestrator for news only. While none answers, everything goes on as last ordered.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from laxity.fleet.client import Client
from laxity.fleet.engine import Engine, Measures
from laxity.fleet.hosted import Hosted, HostedSettings, Memory
from laxity.fleet.hostload import HostLoad, HostMeter
from laxity.fleet.protocol import Phase, Reply, Report, Want
from laxity.fleet.refusals import FleetError, NotAuthorisedError

log = logging.getLogger("laxity.fleet")

_TICK = 0.05


@dataclass(frozen=True, slots=True)
class AgentSettings:
    period: float = 1.0
    """Between two reports when nothing happens."""
    ttl: float = 10.0
    stop_patience: float = 60.0
    workers: int = 4
    """Queries that are prepared, started or stopped at the same time."""


class Assess(Memory, Protocol):
    """Turns what was measured into rings, scores and perhaps a request to move."""

    def __call__(self, measured: list[Measures], host: HostLoad, now: float) -> dict[str, Any]: ...

    def rejected(self, rejections: dict[str, float], now: float) -> None: ...


class Agent:
    def __init__(
        self,
        name: str,
        engine: Engine,
        client: Client,
        settings: AgentSettings | None = None,
        *,
        assess: Assess | None = None,
    ) -> None:
        self.name = name
        self._engine = engine
        self._client = client
        self._settings = settings or AgentSettings()
        self._assess = assess
        self._incarnation = secrets.token_hex(6)
        self._hosted: dict[str, Hosted] = {}
        self._heard = (0, 0)
        """(term, version) of the orders followed."""
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._news = threading.Event()
        self._meter = HostMeter()
        self._host: dict[str, Any] = {}
        self._load: dict[str, Any] = {}
        self._measures: dict[str, dict[str, Any]] = {}
        self._pool = ThreadPoolExecutor(self._settings.workers, thread_name_prefix="laxity-step")
        self._rejections: dict[str, float] = {}
        self._silent = False
        self._leaving = False

    def run(self) -> None:
        """Until `stop`; then finish batches, release leases and say goodbye."""
        threads = [
            threading.Thread(
                target=self._guarded(work), name=f"laxity-{work.__name__}", daemon=True
            )
            for work in (self._keep_leases, self._listen, self._tell, self._measure)
        ]
        for thread in threads:
            thread.start()
        try:
            while not self._stopped.wait(_TICK):
                self._step_all()
        finally:
            self._leave()

    def stop(self) -> None:
        self._stopped.set()

    def _guarded(self, work: Callable[[], None]) -> Callable[[], None]:
        """No thread of an agent dies quietly: without leases kept, queries must not run."""

        def run() -> None:
            while not self._stopped.is_set():
                try:
                    work()
                except Exception:
                    log.exception("the agent's thread %s failed; it goes on", work.__name__)
                    self._stopped.wait(1.0)

        return run

    # Orders.

    def _apply(self, reply: Reply) -> None:
        with self._lock:
            self._rejections = reply.rejections
            if self._leaving or (reply.term, reply.version) <= self._heard:
                return  # old news, or of an orchestrator that has been succeeded
            self._heard = (reply.term, reply.version)
            for order in reply.orders:
                hosted = self._hosted.get(order.query)
                if hosted is not None:
                    hosted.follow(order)
                elif order.want in (Want.PREPARE, Want.RUN):
                    self._hosted[order.query] = Hosted(
                        self._engine,
                        self.name,
                        order,
                        HostedSettings(self._settings.ttl, self._settings.stop_patience),
                        self._assess,
                    )

    def _step_all(self) -> None:
        with self._lock:
            hosted = list(self._hosted.values())
        for one in hosted:
            if not one.busy and one.wants_step:
                one.busy = True
                self._pool.submit(self._step, one)

    def _step(self, hosted: Hosted) -> None:
        before = hosted.seen
        try:
            hosted.step()
        finally:
            if hosted.gone:
                with self._lock:
                    self._hosted.pop(hosted.order.query, None)
            hosted.busy = False
        if hosted.seen is not before or hosted.gone:
            self._news.set()

    # Threads.

    def _keep_leases(self) -> None:
        while not self._stopped.wait(self._settings.ttl / 8):
            for hosted in list(self._hosted.values()):
                hosted.beat()

    def _listen(self) -> None:
        """Orders, the moment there are new ones."""
        while not self._stopped.is_set():
            term, version = self._heard
            if term == 0:
                self._stopped.wait(0.1)  # the first report introduces us
                continue
            try:
                self._apply(self._client.orders(self.name, term, version, wait=10.0))
            except FleetError:
                self._stopped.wait(0.3)

    def _tell(self) -> None:
        """A report when something has happened, and now and then."""
        while not self._stopped.is_set():
            self._news.clear()
            self.report()
            self._news.wait(self._settings.period)

    def report(self) -> bool:
        try:
            self._apply(self._client.report(self._report()))
        except FleetError as error:
            if not self._silent:
                log.warning("%s; queries go on as they are", error)
            self._silent = True
            if isinstance(error, NotAuthorisedError):
                self._stopped.wait(1.0)
            return False
        if self._silent:
            log.warning("the orchestrator answers again")
        self._silent = False
        return True

    def _report(self) -> Report:
        with self._lock:
            seen = [h.seen for h in self._hosted.values()]
        return Report(
            node=self.name,
            incarnation=self._incarnation,
            seen=self._heard[1],
            queries=tuple(replace(s, measures=self._measures.get(s.query, {})) for s in seen),
            engine=self._engine.name,
            version=self._engine.version,
            cores=self._engine.cores,
            host=self._host,
            load=self._load,
            leaving=self._leaving,
        )

    def _measure(self) -> None:
        while not self._stopped.is_set():
            load = self._meter.read(self._engine.processes())
            measured = self._engine.measures()
            self._host = load.to_wire()
            self._measures = {m.query: asdict(m) for m in measured}
            if self._assess is not None:
                self._assess.rejected(self._rejections, time.time())
                self._load = self._assess(measured, load, time.time())
            self._stopped.wait(self._settings.period)

    # The end.

    def _leave(self) -> None:
        with self._lock:
            self._leaving = True
            hosted = list(self._hosted.values())
        stops = []
        for one in hosted:
            one.follow(replace(one.order, want=Want.STOP))
            stops.append(self._pool.submit(self._stop_one, one))
        for stop in stops:
            stop.result()
        for one in hosted:
            if one.seen.phase is not Phase.STOPPED:
                log.warning("%s: %s %s", one.order.query, one.seen.phase, one.seen.reason)
        self.report()
        self._pool.shutdown()
        self._engine.close()

    @staticmethod
    def _stop_one(hosted: Hosted) -> None:
        while hosted.busy:
            time.sleep(_TICK)
        hosted.step()
