"""`laxity run`: a session, its queries, a server, and a clean end."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from laxity.clock import SystemClock
from laxity.core.errors import LaxityError
from laxity.pipeline import Pipeline, load_pipeline
from laxity.spark.run_settings import RunSettings
from laxity.spark.supervisor import Supervisor

if TYPE_CHECKING:
    from laxity.server.serving import Server
    from laxity.spark.session import Laxity

STEP = 0.5

Say = Callable[[str], None]


class ExitCode(IntEnum):
    """What the run has to say to whoever started it."""

    CLEAN = 0
    """Stopped by a signal, or every query has finished."""
    QUERY_FAILED = 1
    """A query was given up."""
    BAD_INPUT = 2
    SPARK_DIED = 3


class SessionError(LaxityError, RuntimeError):
    """Spark could not be started."""


class Stopping:
    """SIGTERM and SIGINT end a run; the second one does not wait for batches."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.hurry = threading.Event()
        self.signal = ""

    @contextmanager
    def on_signals(self) -> Iterator[Stopping]:
        before = {s: signal.signal(s, self._handle) for s in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked.is_set():
            self.hurry.set()
        self.signal = signal.Signals(number).name
        self.asked.set()


def run(file: Path, settings: RunSettings, *, say: Say, busy: Callable[[str], Any]) -> ExitCode:
    """Run a pipeline until it is stopped or done. `busy(text)` shows that something takes long."""
    pipeline = load_pipeline(file)
    stopping = Stopping()
    with ExitStack() as stack:
        with busy("starting Spark"), _sparing_the_jvm():
            spark = _session(pipeline, settings)
        stack.callback(_stop_session, spark)
        # Only now: PySpark sets a handler of its own when a session starts.
        stack.enter_context(stopping.on_signals())
        import laxity

        handle = laxity.attach(spark, settings.policy, **settings.options)
        stack.callback(handle.detach)
        for tenant, cap in settings.caps.items():
            slots, share = (cap, None) if isinstance(cap, int) else (None, cap)
            handle.set_cap(tenant, slots, share=share)
        supervisor = Supervisor(
            handle,
            spark,
            pipeline,
            backoff=settings.backoff,
            clock=SystemClock(),
            targets=settings.targets,
            say=say,
        )
        stack.callback(_stop_queries, supervisor, settings, stopping, say)
        with busy(f"starting {len(pipeline.queries)} queries"):
            supervisor.start()
        if settings.serve:
            server = _serve(handle, supervisor, settings)
            stack.callback(server.stop)
            say(f"dashboard   {server.private_url if not server.access.given else server.url}")
            say(f"metrics     {server.url}/metrics")
        say(f"running {len(pipeline.queries)} queries of {file.name}; Ctrl-C stops")
        return _watch(supervisor, handle, stopping, say)


@contextmanager
def _sparing_the_jvm() -> Iterator[None]:
    """Service managers and shells signal a whole group. A JVM started while SIGTERM is ignored
    goes on ignoring it, so that it lives until its queries have been stopped; it ends with us in
    any case."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _watch(supervisor: Supervisor, handle: Laxity, stopping: Stopping, say: Say) -> ExitCode:
    while not stopping.asked.wait(STEP):
        if handle.stopped:
            say("the Spark session is gone")
            return ExitCode.SPARK_DIED
        try:
            going_on = supervisor.step()
        except Exception as error:  # py4j: the JVM does not answer
            say(f"the driver's JVM does not answer any more: {type(error).__name__}")
            return ExitCode.SPARK_DIED
        if not going_on:
            return ExitCode.QUERY_FAILED if supervisor.failed else ExitCode.CLEAN
    say(f"{stopping.signal}: stopping")
    return ExitCode.QUERY_FAILED if supervisor.failed else ExitCode.CLEAN


def _stop_queries(
    supervisor: Supervisor, settings: RunSettings, stopping: Stopping, say: Say
) -> None:
    supervisor.stop(settings.grace, stopping.hurry)


def _stop_session(spark: Any) -> None:
    try:
        spark.stop()
    except Exception:  # it is gone already
        return


def _serve(handle: Laxity, supervisor: Supervisor, settings: RunSettings) -> Server:
    try:
        from laxity.server.serving import Server
        from laxity.server.sinks import JsonLines, Sink, Webhook
    except ImportError as error:
        raise SessionError(
            f"the server needs {error.name}: pip install 'laxity[server]', or use --no-server"
        ) from error
    from laxity.spark.service import SparkService

    sinks: list[Sink] = []
    if settings.events_file is not None:
        sinks.append(JsonLines(settings.events_file))
    if settings.webhook is not None:
        sinks.append(Webhook(settings.webhook))
    return Server(
        SparkService(handle, supervisor.supervised),
        settings.address,
        token=settings.token,
        period=settings.period,
        sinks=sinks,
    ).start()


def _session(pipeline: Pipeline, settings: RunSettings) -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SessionError("PySpark is missing: pip install 'laxity[spark]'") from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # tasks run what the driver runs
    builder = SparkSession.builder.appName(settings.name or pipeline.path.stem)
    if settings.master is not None:
        builder = builder.master(settings.master)
    conf = {
        "spark.ui.showConsoleProgress": "false",
        # A query that does not stop must not keep the others from stopping.
        "spark.sql.streaming.stopTimeout": f"{max(1, int(settings.grace))}s",
        **settings.conf,
    }
    if settings.checkpoints is not None:
        conf["spark.sql.streaming.checkpointLocation"] = settings.checkpoints
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        lines = [line for line in str(error).strip().splitlines() if line.strip()]
        reason = lines[0] if lines else type(error).__name__
        raise SessionError(f"Spark cannot be started ({reason}); try: laxity doctor") from error
    spark.sparkContext.setLogLevel(settings.spark_log)
    return spark
