"""Keeps the queries of a pipeline running: starts them, restarts what fails, stops them gently."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from laxity.clock import Clock
from laxity.core.durations import format_duration
from laxity.core.errors import LaxityError
from laxity.pipeline import Pipeline, PipelineError, QuerySpec
from laxity.server.events import first_line
from laxity.spark.run_settings import Backoff
from laxity.spark.service import Supervision

if TYPE_CHECKING:
    from laxity.spark.query import Query
    from laxity.spark.session import Laxity

log = logging.getLogger("laxity")


@dataclass
class _Watched:
    """A query that is to run. `query` is None while it does not."""

    spec: QuerySpec
    target: float | None
    query: Query | None = None
    started: float = 0.0
    failures: int = 0
    """In a row."""
    restarts: int = 0
    restart_at: float | None = None
    outcome: str = ""
    """"finished" or "failed" once it will not run again."""
    error: str = ""
    paused: bool = field(default=False)


class Supervisor:
    """`step` looks after the queries; everything is told through `say`."""

    def __init__(
        self,
        laxity: Laxity,
        spark: Any,
        pipeline: Pipeline,
        *,
        backoff: Backoff,
        clock: Clock,
        targets: Mapping[str, float | None] | None = None,
        say: Callable[[str], None] = log.warning,
    ) -> None:
        self._laxity = laxity
        self._spark = spark
        self._backoff = backoff
        self._clock = clock
        self._say = say
        self._lock = threading.Lock()
        given = targets or {}
        self._watched = {
            spec.name: _Watched(spec, given.get(spec.name, spec.target))
            for spec in pipeline.queries
        }

    # Running.

    def start(self, unless: threading.Event | None = None) -> None:
        """Start them all. What cannot even be built is the pipeline's fault, and said at once."""
        for watched in self._watched.values():
            if unless is not None and unless.is_set():
                return
            try:
                self._launch(watched)
            except LaxityError:
                raise
            except Exception as error:
                reason = f"{type(error).__name__}: {first_line(str(error))}"
                name = watched.spec.name
                raise PipelineError(f"query {name!r} cannot be started: {reason}") from error

    def _launch(self, watched: _Watched) -> None:
        spec = watched.spec
        writer = spec.build(self._spark)
        if not hasattr(writer, "queryName"):
            raise PipelineError(
                f"{spec.name!r} returned a {type(writer).__name__}: return the writeStream, not "
                f"started yet"
            )
        options = {**spec.options(), "target": watched.target}
        watched.query = self._laxity.start(writer, **options)
        watched.started, watched.restart_at = self._clock.now(), None
        watched.error = ""
        if watched.paused:
            self._laxity.pause(spec.name)

    def step(self) -> bool:
        """Look once after every query. False when none will run again."""
        now = self._clock.now()
        for watched in self._watched.values():
            with self._lock:
                if watched.query is not None:
                    self._check(watched, now)
                elif watched.restart_at is not None and now >= watched.restart_at:
                    self._restart(watched, now)
        return any(not w.outcome for w in self._watched.values())

    def _check(self, watched: _Watched, now: float) -> None:
        assert watched.query is not None
        if watched.query.isActive:
            if watched.failures and now - watched.started > self._backoff.healthy_after:
                watched.failures = 0
            return
        if self._laxity.is_restarting(watched.spec.name):
            return
        error = watched.query.exception()
        self._remember(watched)
        watched.query = None
        if error is None:
            watched.outcome = "finished"
            self._say(f"{watched.spec.name} has finished")
        else:
            self._failed(watched, str(error), now)

    def _remember(self, watched: _Watched) -> None:
        """What was changed live outlives a restart."""
        try:
            model = self._laxity.model(watched.spec.name)
        except LaxityError:
            return
        watched.target, watched.paused = model.target, model.paused

    def _failed(self, watched: _Watched, error: str, now: float) -> None:
        watched.failures += 1
        watched.error = first_line(error)
        name = watched.spec.name
        if self._backoff.gives_up(watched.failures):
            watched.outcome, watched.restart_at = "failed", None
            times = f"{watched.failures} times in a row"
            self._say(f"{name} failed {times} and is given up: {watched.error}")
            return
        pause = self._backoff.pause(watched.failures)
        watched.restart_at = now + pause
        self._say(f"{name} failed, restarting in {format_duration(pause)}: {watched.error}")

    def _restart(self, watched: _Watched, now: float) -> None:
        watched.restarts += 1
        try:
            self._launch(watched)
        except Exception as error:
            self._failed(watched, f"{type(error).__name__}: {error}", now)
        else:
            self._say(f"{watched.spec.name} was started again (restart {watched.restarts})")

    # Looking.

    def supervised(self) -> dict[str, Supervision]:
        """For the service: what is to run again, though Spark does not know it."""
        return {
            name: Supervision(
                restarts=w.restarts,
                state=_state(w),
                error=w.error,
                target=w.target,
                tenant=w.spec.tenant,
            )
            for name, w in self._watched.items()
        }

    @property
    def failed(self) -> list[str]:
        """Queries that were given up."""
        return [name for name, w in self._watched.items() if w.outcome == "failed"]

    # Stopping.

    def stop(self, grace: float, hurry: threading.Event) -> None:
        """Let batches that run end, up to `grace` seconds (or until told to hurry), and stop all.
        What is abandoned is done again by the next run: checkpoints say where."""
        with self._lock:
            running = [w for w in self._watched.values() if w.query is not None]
            for watched in running:
                watched.restart_at = None
                self._try(lambda w=watched: self._laxity.pause(w.spec.name))  # type: ignore[misc]
            until = time.monotonic() + grace
            while time.monotonic() < until and not hurry.is_set():
                if not any(self._in_a_batch(w) for w in running):
                    break
                time.sleep(0.05)
            for watched in running:
                if self._in_a_batch(watched):
                    self._say(f"{watched.spec.name} is stopped within a batch")
                assert watched.query is not None
                self._try(watched.query.stop)
                watched.query, watched.outcome = None, "finished"

    def _in_a_batch(self, watched: _Watched) -> bool:
        try:
            return self._laxity.model(watched.spec.name).state == "running"
        except LaxityError:
            return False

    def _try(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:  # the end must come, whatever Spark says
            log.debug("while stopping: %s", error)


def _state(watched: _Watched) -> str:
    if watched.outcome == "failed":
        return "failed"
    return "restarting" if watched.restart_at is not None else ""
