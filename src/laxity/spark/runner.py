"""`laxity run`: a session, its queries, a server, and a clean end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laxity.clock import SystemClock
from laxity.pipeline import load_pipeline
from laxity.plugins import load_policy
from laxity.spark.outlets import open_outlets
from laxity.spark.run_session import start_session
from laxity.spark.run_settings import RunSettings
from laxity.spark.service import SparkService
from laxity.spark.stopping import Stopping, sparing_the_jvm
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


def run(file: Path, settings: RunSettings, *, say: Say, busy: Callable[[str], Any]) -> ExitCode:
    """Run a pipeline until it is stopped or done. `busy(text)` shows that something takes long."""
    pipeline = load_pipeline(file)
    # Whatever can be refused is refused before Spark is started: it takes seconds, and its log is
    # no place to look for a misspelt name.
    policy = load_policy(settings.policy)
    pipeline.check_names(settings.targets, "targets")
    pipeline.check_tenants(settings.caps)
    stopping = Stopping()
    with ExitStack() as stack:
        stack.enter_context(stopping.on_signals())
        outlets = stack.enter_context(open_outlets(settings))
        with busy("starting Spark"), sparing_the_jvm():
            spark = start_session(pipeline.path.stem, settings)
        stack.callback(_stop_session, spark)
        stopping.listen()
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
        stack.callback(_stop_queries, supervisor, settings, stopping, spark)
        with busy(f"starting {len(pipeline.queries)} queries"):
            supervisor.start(unless=stopping.asked)
        for line in outlets.open_to(SparkService(handle, supervisor.supervised)):
            say(line)
        say(f"running {len(pipeline.queries)} queries of {file.name}; Ctrl-C stops")
        return _watch(supervisor, handle, stopping, say)


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
    supervisor: Supervisor, settings: RunSettings, stopping: Stopping, spark: Any
) -> None:
    # What a batch complains of while it is cut short is no news.
    with suppress(Exception):
        spark.sparkContext.setLogLevel("OFF")
    supervisor.stop(settings.grace, stopping.hurry)


def _stop_session(spark: Any) -> None:
    with suppress(Exception):  # it is gone already
        spark.stop()
