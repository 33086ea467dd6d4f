"""`laxity.attach(spark)`: deadlines for the streaming queries of a Spark application."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from laxity.clock import Clock, SystemClock
from laxity.core.durations import Duration, format_duration, parse_target
from laxity.core.policies import Policy
from laxity.host.drivers.spark import FeedDriver
from laxity.host.errors import HostError
from laxity.host.runner import HostRunner, for_driver
from laxity.plugins import load_policy
from laxity.semantics import apply_override
from laxity.spark.bridge import Bridge, check_session
from laxity.spark.controller import Controller, overload
from laxity.spark.errors import (
    AlreadyAttachedError,
    DuplicateQueryError,
    InvalidCapError,
    InvalidSettingError,
    NotAttachedError,
    NotAWriterError,
    UnknownQueryError,
)
from laxity.spark.loop import Loop
from laxity.spark.model import QueryModel
from laxity.spark.plan import read_semantics
from laxity.spark.query import Query
from laxity.spark.recorder import Recorder
from laxity.spark.settings import Settings
from laxity.spark.status import QueryStatus, Status
from laxity.spark.threads import HOST_PERIOD, LAX_NICE, URGENT_NICE, ThreadBook
from laxity.spark.wire import StreamSeen, parse_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from laxity.spark.control.executors import Resized
    from laxity.spark.control.query import QueryControl

_attached: list[Laxity] = []


def attach(spark: SparkSession, policy: str | Policy = "llf", **settings: Any) -> Laxity:
    """Give the streaming queries of this application deadlines.

    Works on any classic session, local or on a cluster; nothing is needed but PySpark. Options
    are the fields of `Settings`; the defaults are meant to be left alone.
    """
    session = check_session(spark)
    chosen = load_policy(policy)
    options = Settings.of(**settings)
    for other in list(_attached):
        if other.stopped:
            other.detach()
        elif other.controls(session):
            raise AlreadyAttachedError(
                "Laxity is attached to this application already; use that handle, or call its "
                "detach() first"
            )
    return Laxity(session, chosen, options)


def current() -> Laxity:
    """The handle of the application Laxity is attached to."""
    for laxity in reversed(_attached):
        if not laxity.stopped:
            return laxity
    raise NotAttachedError("Laxity is not attached; call laxity.attach(spark) first")


class Laxity:
    """A Spark application under deadlines. Also a context manager that detaches at the end."""

    def __init__(
        self,
        spark: SparkSession,
        policy: Policy,
        settings: Settings,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._spark = spark
        self._clock = clock or SystemClock()
        self._bridge = Bridge(spark, files=settings.files, lean=settings.lean)
        self._controller = Controller(policy, settings, driver_cores=self._bridge.driver_cores)
        self._settings = settings
        self._threads = ThreadBook()
        self._host: HostRunner | None = None
        self._lock = threading.RLock()
        self._detached = False
        self._recorders: list[Recorder] = []
        self._started: dict[str, tuple[DataStreamWriter, dict[str, Any], Query]] = {}
        self._controls: dict[str, QueryControl] = {}
        self._restarting: set[str] = set()
        self._loop = Loop(self._tick, settings.period, self._clock)
        self._bridge.install()
        try:
            self._tick(self._clock.now())
        except BaseException:
            self._bridge.uninstall()
            raise
        if settings.host:
            self._host = self._start_host()
        _attached.append(self)
        self._loop.start()

    # Queries.

    def start(
        self,
        writer: DataStreamWriter,
        *,
        name: str,
        target: Duration | None = None,
        tenant: str = "default",
        window: Duration | None = None,
        slide: Duration | None = None,
        delay: Duration | None = None,
        regular: bool = False,
    ) -> Query:
        """Start a query with a target.

        Window, slide and watermark delay are read from the query's plan; `window`, `slide`,
        `delay` and `regular` correct them where the user knows better.
        """
        self._check_attached()
        if not hasattr(writer, "queryName"):
            raise NotAWriterError(
                f"start() takes a writer, got a {type(writer).__name__}: give it "
                f"df.writeStream.format(…) and leave out .start(); a query that runs already gets "
                f"a target by set_target(name, target)"
            )
        seconds = None if target is None else parse_target(target, name=f"target of {name!r}")
        self.check_free(name)
        query: StreamingQuery = writer.queryName(name).start()
        override = {"window": window, "slide": slide, "delay": delay, "regular": regular}
        corrections = {k: v for k, v in override.items() if v not in (None, False)}
        try:
            with self._lock:
                model = self._learn_of(query.id, name, corrections)
                model.target, model.tenant = seconds, tenant
                model.run = str(query.runId)
            self._tick(self._clock.now())
        except BaseException:
            query.stop()
            raise
        handle = Query(self, name, query.id, query)
        known = self._started.get(name)
        if known is not None and known[0] is writer:  # started again by restart(): one handle
            handle = known[2]
            handle._query = query
        arguments = dict(target=target, tenant=tenant, **override)
        self._started[name] = writer, arguments, handle
        if name in self._controls:
            self._controls[name].started()
        return handle

    def check_free(self, name: str) -> None:
        """That no query of that name runs."""
        with self._lock:
            self._tick(self._clock.now())  # a query that has just been stopped frees its name
            if any(m.name == name for m in self._controller.models.values()):
                raise DuplicateQueryError(
                    f"a query named {name!r} is running already; names are unique: stop it "
                    f"first, or choose another"
                )

    def control(self, name: str) -> QueryControl:
        """Change a running query between two of its batches; see docs/control-on-spark.md."""
        from laxity.spark.control.query import QueryControl  # it needs networkx, we do not

        model = self.model(name)
        with self._lock:
            known = self._controls.get(model.name)
            if known is None or known.id != model.id:  # started anew on another checkpoint
                self._controls[model.name] = QueryControl(self, model.name)
            return self._controls[model.name]

    def set_executors(self, executors: int, *, timeout: float = 60.0) -> Resized:
        """More or fewer executors, on a cluster; returns when they are there, or gone."""
        from laxity.spark.control.executors import resize

        self._check_attached()
        return resize(self._spark, executors, timeout)

    @contextmanager
    def restarting(self, name: str) -> Iterator[None]:
        """While a control operation has stopped a query: nobody else is to start it again."""
        self._restarting.add(name)
        try:
            yield
        finally:
            self._restarting.discard(name)

    def is_restarting(self, name: str) -> bool:
        return name in self._restarting

    def can_restart(self, name: str) -> bool:
        return name in self._started

    def restart(self, name: str) -> Query:
        """Start a stopped query again as `start` was asked to; its handle goes on."""
        writer, arguments, _ = self._started[name]
        model = self.model(name)
        arguments |= {"target": model.target, "tenant": model.tenant}
        return self.start(writer, name=name, **arguments)

    def streaming_query(self, name: str, query_id: str) -> Any:
        """PySpark's object of the query's present run, or of its last."""
        if name in self._started:
            return self._started[name][2].streaming_query
        return self._spark.streams.get(query_id)

    def query(self, name: str) -> Query:
        """The handle of a query that runs, also of one started the ordinary way."""
        model = self.model(name)
        streaming = self.streaming_query(model.name, model.id)
        if streaming is None:
            raise UnknownQueryError(
                f"query {name!r} is not running any more ({model.state}): start it again to have it"
            )
        return Query(self, model.name, model.id, streaming)

    def set_target(self, name: str, target: Duration | None) -> None:
        """Change a target while the query runs; None makes it best effort."""
        seconds = None if target is None else parse_target(target, name=f"target of {name!r}")
        with self._lock:
            model = self.model(name)
            if model.target != seconds:
                self._controller.withdraw(f"floor {model.id}")  # it spoke of the other target
            model.target = seconds
        self._tick(self._clock.now())

    def set_tenant(self, name: str, tenant: str) -> None:
        with self._lock:
            self.model(name).tenant = tenant

    def set_cap(self, tenant: str, slots: int | None = None, *, share: float | None = None) -> None:
        """At most so many tasks of a tenant at a time, or a share of all cores; neither lifts
        the cap."""
        self._check_attached()
        if slots is not None and share is not None:
            raise InvalidCapError("give a cap as slots or as a share, not both")
        if slots is not None and (isinstance(slots, bool) or int(slots) != slots or slots < 1):
            raise InvalidCapError(f"a cap is a whole number of slots from 1 on, got {slots!r}")
        if share is not None and not 0 < share <= 1:
            raise InvalidCapError(f"a share is above 0 and at most 1, got {share!r}")
        with self._lock:
            if slots is None and share is None:
                self._controller.caps.pop(tenant, None)
            else:
                cap: int | float = int(slots) if slots is not None else float(share or 1.0)
                self._controller.caps[tenant] = cap
        self._tick(self._clock.now())

    def set_share(self, tenant: str, share: float) -> None:
        """A tenant's share of tokens, for the policy "token"."""
        self._check_attached()
        if not 0 < share <= 1:
            raise InvalidCapError(f"a share is above 0 and at most 1, got {share!r}")
        with self._lock:
            self._controller.shares[tenant] = share

    def pause(self, name: str) -> None:
        """Hold the query's next batch until `resume`; what arrives meanwhile is not lost."""
        self._set_paused(name, True)

    def resume(self, name: str) -> None:
        self._set_paused(name, False)

    def _set_paused(self, name: str, paused: bool) -> None:
        with self._lock:
            self.model(name).paused = paused
        self._tick(self._clock.now())

    @contextmanager
    def target(self, target: Duration, *, tenant: str | None = None) -> Iterator[None]:
        """Batch jobs submitted inside are due within `target` from now."""
        self._check_attached()
        due = self._clock.now() + parse_target(target)
        context = self._spark.sparkContext
        before = {k: context.getLocalProperty(k) for k in ("laxity.due", "laxity.tenant")}
        context.setLocalProperty("laxity.due", repr(due))
        if tenant is not None:
            context.setLocalProperty("laxity.tenant", tenant)
        try:
            yield
        finally:
            for key, value in before.items():
                context.setLocalProperty(key, value)  # type: ignore[arg-type]  # None removes it

    # Looking.

    def plan(self, name: str) -> str:
        """What was read from the query's plan: windows, watermarks, what follows from them; and
        what its stages were measured to cost."""
        model = self.model(name)
        lines = [] if model.semantics is None else [model.semantics.describe()]
        for at, stage in sorted(model.stages.items()):
            cost, spread = format_duration(stage.cost.mean), format_duration(stage.cost.spread)
            path = format_duration(stage.path_cost.mean)
            lines.append(
                f"stage {at:<8} {cost} ± {spread}, then {path} to the end; {stage.tasks} tasks"
            )
        return "\n".join(lines)

    def status(self) -> Status:
        """Every query at a glance, and whether the cluster can keep its promises."""
        self._check_attached()
        with self.looking():
            now, controller = self.now(), self._controller
            self._tell_if_stalled(now)
            models = list(controller.models.values())
            over = overload(models, now)
            return Status(
                queries=tuple(QueryStatus.of(m, now, controller.names()) for m in models),
                policy=controller.policy.name,
                cores=controller.capacity.cores,
                reserved=controller.capacity.reserved,
                overloaded=over is not None,
                overload=over,
                notices=controller.notices,
                loop_alive=self._loop.alive,
                loop_cpu=self._loop.cpu_seconds + controller.capacity.exchange_nanos / 1e9,
                sorts=controller.capacity.sorts,
                sort_seconds=controller.capacity.sort_nanos / 1e9,
            )

    def record(self, path: str | Path) -> Recorder:
        """Write rates, windows, stage costs and latencies to a file that `laxity simulate`
        reads, until the recorder is stopped or Laxity detached."""
        self._check_attached()
        try:
            recorder = Recorder(path, self._recorders.remove)
        except OSError as error:
            raise InvalidSettingError(f"cannot record to {path}: {error.strerror}") from error
        with self._lock:
            self._recorders.append(recorder)
        return recorder

    def model(self, name: str) -> QueryModel:
        self._check_attached()
        with self.looking():
            return self._controller.named(name)

    @contextmanager
    def looking(self) -> Iterator[Controller]:
        """Hold the lock, unless the loop is stuck with it: then what it knew last must do."""
        held = self._lock.acquire(timeout=self._settings.stale_after)
        try:
            yield self._controller
        finally:
            if held:
                self._lock.release()

    def _tell_if_stalled(self, now: float) -> None:
        silent = now - self._loop.last_success
        if silent > self._settings.stale_after or not self._loop.alive:
            what = "is stuck or fails" if self._loop.alive else "has died"
            self._controller.tell(
                f"Laxity's loop {what}, its last decision is {silent:.1f} s old: Spark schedules "
                f"on its own until it recovers; detach() and attach() start it anew",
                key="stale",  # as the hooks call it, whoever of the two speaks first
            )

    @property
    def application(self) -> str:
        """The name of the Spark application."""
        return str(self._spark.sparkContext.appName)

    def names(self) -> dict[str, str]:
        return self._controller.names()

    def add_listener(self, name: str) -> Any:
        """Another of Laxity's own query listeners, after those of the attachment."""
        return self._bridge.add_listener(name)

    def member(self, target: Any, name: str) -> Any:
        """A field of a JVM object that Scala hides."""
        return self._bridge.member(target, name)

    def now(self) -> float:
        return self._clock.now()

    # The loop.

    def _tick(self, now: float) -> None:
        with self._lock:
            if self._detached:
                return
            decisions = self._controller.decide()
            report = parse_report(self._bridge.exchange(decisions.encode()))
            for seen in self._controller.handle(report, now):
                self._adopt(seen)
            for recorder in self._recorders:
                recorder.tick(
                    self._controller.models.values(), self._controller.capacity.cores, now
                )
            self._threads.note(report.threads)

    def _start_host(self) -> HostRunner | None:
        """Operating-system priorities by the host level, in this process."""
        feed = FeedDriver(
            lambda: self._threads.feed(list(self._controller.models.values())),
            pid=self._bridge.driver_pid,
        )
        runner = for_driver(
            feed, say=self._tell, urgent=URGENT_NICE, lax=LAX_NICE, period=HOST_PERIOD
        )
        try:
            runner.__enter__()
            runner.start()
        except (OSError, HostError) as error:
            self._tell(f"thread priorities cannot be set here: {error}")
            return None
        return runner

    def _tell(self, message: str) -> None:
        self._controller.tell(message, key=message)

    def _adopt(self, seen: StreamSeen) -> None:
        """A query started the ordinary way: best effort until somebody gives it a target."""
        self._learn_of(seen.id, seen.name or seen.id[:8], {})

    def _learn_of(self, query_id: str, name: str, corrections: dict[str, Any]) -> QueryModel:
        model = self._controller.models.get(query_id)
        if model is None or corrections:
            execution = self._bridge.execution(query_id)
            semantics = None if execution is None else read_semantics(execution)
            if semantics is not None and corrections:
                semantics = apply_override(semantics, **corrections)
            model = QueryModel(query_id, name, settings=self._settings, semantics=semantics)
            self._controller.add(model)
        return model

    # The end.

    @property
    def stopped(self) -> bool:
        return self._detached or self._bridge.stopped

    def controls(self, spark: SparkSession) -> bool:
        return not self._detached and self._spark.sparkContext is spark.sparkContext

    def _check_attached(self) -> None:
        if self._detached:
            raise NotAttachedError("this handle was detached; call laxity.attach(spark) again")
        if self._bridge.stopped:
            raise NotAttachedError(
                "the Spark session has been stopped; make a new one and attach to that"
            )

    def detach(self) -> None:
        """Leave Spark as it was. Queries go on running as on stock Spark."""
        with self.looking():
            if self._detached:
                return
            self._detached = True
            if self in _attached:
                _attached.remove(self)
        self._loop.stop()
        if self._host is not None:
            self._host.__exit__(None, None, None)
        for recorder in list(self._recorders):
            recorder.stop()
        if not self._bridge.stopped:
            self._bridge.uninstall()

    def __enter__(self) -> Laxity:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.detach()
