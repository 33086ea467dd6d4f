"""`laxity run`: a session, its queries, a server, and a clean end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from laxity.clock import SystemClock
from laxity.pipeline import load_pipeline
from laxity.plugins import load_policy
from laxity.spark.outlets import open_outlets
from laxity.spark.run_session import start_session
from laxity.spark.run_settings import RunSettings
from laxity.spark.service import SparkService
from laxity.spark.supervisor import Supervisor

if TYPE_CHECKING:
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
    # Whatever can be refused is refused before Spark is started: it takes seconds, and its log is
    # no place to look for a misspelt name.
    policy = load_policy(settings.policy)
    pipeline.check_names(settings.targets, "targets")
    stopping = Stopping()
    with ExitStack() as stack:
        outlets = stack.enter_context(open_outlets(settings))
        with busy("starting Spark"), _sparing_the_jvm():
            spark = start_session(pipeline.path.stem, settings)
        stack.callback(_stop_session, spark)
        # Only now: PySpark sets a handler of its own when a session starts.
        stack.enter_context(stopping.on_signals())
        import laxity

        handle = laxity.attach(spark, policy, **settings.options)
        stack.callback(handle.detach)
        stack.callback(outlets.close)  # what happens until the queries have stopped is told
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
        for line in outlets.open_to(SparkService(handle, supervisor.supervised)):
            say(line)
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
