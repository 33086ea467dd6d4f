"""Queries of pipeline files in one Spark application, as an agent wants to handle them."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from laxity.fleet.checkpoint import read_progress
from laxity.fleet.engine import Guard, Measures, Prepared, RunState
from laxity.fleet.refusals import PreparationError, StoreAwayError
from laxity.pipeline import Pipeline, QuerySpec, load_pipeline
from laxity.spark.agent.session import warm_up
from laxity.spark.session import Laxity, attach

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from laxity.spark.query import Query

_RECENT = 15.0
"""Seconds of results that measures speak of: a fleet reacts to how things are."""


@dataclass
class _Ready:
    spec: QuerySpec
    writer: DataStreamWriter
    checkpoint: Path
    row_bytes: float


@dataclass
class _Running:
    query: Query
    ready: _Ready
    commits: int
    """The last batch that was done before this run."""
    first_batch_at: float | None = None
    _share: float = 0.0
    _counted: tuple[float, int] | None = None

    def busy_share(self, now: float, batches: int, cost: float) -> float:
        """Share of the time in which a batch of it runs, smoothed over some readings. Divided by
        its rows a second, that is what a row costs here, its part of each batch's fixed cost
        included."""
        if self._counted is not None and now > self._counted[0]:
            fresh = (batches - self._counted[1]) * cost / (now - self._counted[0])
            self._share += 0.3 * (max(0.0, fresh) - self._share)
        self._counted = (now, batches)
        return self._share


class SparkEngine:
    """One attached session. Safe to be called from several threads."""

    name = "Spark"

    def __init__(
        self,
        spark: SparkSession,
        *,
        checkpoints: Path | None = None,
        warm: bool = True,
        laxity: Laxity | None = None,
    ) -> None:
        self._spark = spark
        self.version: str = spark.version
        self.cores: int = int(spark.sparkContext.defaultParallelism)
        self._checkpoints = checkpoints
        self._lx = laxity or attach(spark)
        self._fence = self._lx.add_listener("CommitFence")
        self._lock = threading.Lock()
        self._pipelines: dict[str, Pipeline] = {}
        self._ready: dict[str, _Ready] = {}
        self._running: dict[str, _Running] = {}
        self._warm = warm
        self.warmed = warm_up(spark) if warm else 0.0

    # Before it runs.

    def prepare(self, pipeline: str, digest: str, query: str) -> Prepared:
        loaded = self._load(pipeline, digest)
        spec = loaded[query]
        try:
            writer = spec.build(self._spark)
        except Exception as error:
            raise PreparationError(
                f"{query} of {pipeline} cannot be built here: {type(error).__name__}: {error}"
            ) from error
        if not hasattr(writer, "_jwrite") or not hasattr(writer, "_df"):
            raise PreparationError(
                f"{query} of {pipeline} returns a {type(writer).__name__}; return df.writeStream "
                f"with its format and options, not started"
            )
        checkpoint = self._checkpoint(query, writer)
        notes: dict[str, Any] = {}
        if self._warm:
            notes["compiled"] = self._compile(writer)
        row_bytes = float(writer._df._jdf.schema().defaultSize())
        with self._lock:
            self._ready[query] = _Ready(spec, writer, checkpoint, row_bytes)
        return Prepared(query, checkpoint, loaded.digest, notes)

    def _load(self, pipeline: str, digest: str) -> Pipeline:
        with self._lock:
            loaded = self._pipelines.get(pipeline)
            if loaded is None or loaded.digest != digest:
                loaded = load_pipeline(pipeline)
                self._pipelines[pipeline] = loaded
        if loaded.digest != digest:
            raise PreparationError(
                f"{pipeline} is another version here ({loaded.digest}) than was placed ({digest}); "
                f"bring the file up to date on this host, or place it anew: laxity fleet place "
                f"{pipeline}"
            )
        return loaded

    def _checkpoint(self, query: str, writer: DataStreamWriter) -> Path:
        """Its own checkpointLocation, or a folder of its name under the agent's."""
        own = self._lx.member(writer._jwrite, "extraOptions").get("checkpointLocation")
        where = str(own.get()) if own.isDefined() else None
        if where is None and self._checkpoints is not None:
            where = str(self._checkpoints / query)
        if where is None:
            raise PreparationError(
                f"{query} has no checkpoint: give the agent --checkpoints DIR, or the query "
                f'.option("checkpointLocation", ...)'
            )
        parts = urlsplit(where)
        if parts.scheme not in ("", "file"):
            raise PreparationError(
                f"the checkpoint {where} is not on a mounted file system: a fleet fences queries "
                f"by files that every node sees at the same path, such as on NFS"
            )
        path = Path(parts.path)
        above = next(p for p in (path, *path.parents) if p.exists())
        if not os.access(above, os.W_OK | os.X_OK):
            raise PreparationError(f"the checkpoint {path} cannot be written from this host")
        return path

    def _compile(self, writer: DataStreamWriter) -> str:
        """Analyse, optimise and plan it, and compile the code of its stages into Spark's cache.
        What depends on the source is planned with the first batch."""
        jvm = self._spark._jvm
        assert jvm is not None
        try:
            execution = writer._df._jdf.queryExecution()
            jvm.org.apache.spark.sql.api.python.PythonSQLUtils.explainString(execution, "codegen")
        except Exception as error:  # it costs time at the start, nothing else
            return f"not compiled: {str(error).splitlines()[0]}"
        return "compiled"

    # While it runs.

    def start(self, query: str, guard: Guard) -> None:
        with self._lock:
            ready = self._ready[query]
        root = str(ready.checkpoint)
        self._fence.guard(root, str(guard.mine), str(guard.next))
        commits = read_progress(ready.checkpoint).commits
        writer = ready.writer.option("checkpointLocation", root)
        started = self._lx.start(writer, **ready.spec.options())
        with self._lock:
            self._running[query] = _Running(started, ready, commits)

    def stop(self, query: str, patience: float) -> float:
        """Hold the next batch, wait for the one that runs, stop."""
        with self._lock:
            running = self._running.pop(query, None)
        if running is None:
            return time.time()
        streaming, until = running.query.streaming_query, time.monotonic() + patience
        try:
            self._lx.pause(query)
            while streaming.isActive and time.monotonic() < until:
                if not streaming.status["isTriggerActive"] and self._settled(running.ready):
                    break
                time.sleep(0.02)
        except Exception:
            pass  # stopping in the middle of a batch is slower, and just as right
        ended = time.time()
        self._end(running)
        return ended

    @staticmethod
    def _settled(ready: _Ready) -> bool:
        try:
            return read_progress(ready.checkpoint).clean
        except StoreAwayError:
            return True

    def abandon(self, query: str) -> None:
        with self._lock:
            running = self._running.pop(query, None)
        if running is not None:
            self._fence.release(str(running.ready.checkpoint))  # from here on nothing is committed
            self._end(running)

    def _end(self, running: _Running) -> None:
        try:
            running.query.streaming_query.stop()
        finally:
            self._fence.release(str(running.ready.checkpoint))

    def forget(self, query: str) -> None:
        with self._lock:
            self._ready.pop(query, None)

    # Looking.

    def state(self, query: str) -> RunState:
        with self._lock:
            running = self._running.get(query)
        if running is None:
            return RunState(False, "not started")
        streaming = running.query.streaming_query
        if not streaming.isActive:
            with self._lock:
                self._running.pop(query, None)
            error = streaming.exception()
            return RunState(False, "" if error is None else str(error).strip().splitlines()[0])
        if running.first_batch_at is None:
            running.first_batch_at = self._first_batch(running)
        return RunState(True, "", running.first_batch_at)

    @staticmethod
    def _first_batch(running: _Running) -> float | None:
        commit = running.ready.checkpoint / "commits" / str(running.commits + 1)
        try:
            return commit.stat().st_mtime
        except OSError:
            return None

    def measures(self) -> list[Measures]:
        now = self._lx.now()
        found = []
        with self._lock:
            running = list(self._running.items())
        for name, one in running:
            try:
                model = self._lx.model(name)
            except KeyError:
                continue  # just started, or just stopped
            recent = [r for r in model.log.recent(now) if r.emitted >= now - _RECENT]
            latencies = sorted(r.latency for r in recent)
            rate = model.rate.per_second(now)
            busy = one.busy_share(now, model.batches, model.batch_cost.mean)
            found.append(
                Measures(
                    name,
                    rows_per_second=rate,
                    seconds_per_row=busy / rate if rate > 0 else 0.0,
                    bytes_per_row=one.ready.row_bytes,
                    target=model.target,
                    latency=latencies[len(latencies) // 2] if latencies else None,
                    met=sum(r.met for r in recent) / len(recent) if recent else None,
                    results=len(recent),
                    batches=model.batches,
                )
            )
        return found

    def processes(self) -> list[int]:
        return [os.getpid()]  # the JVM and Python workers are below it

    def close(self) -> None:
        for query in list(self._running):
            self.abandon(query)
        self._lx.detach()
        self._spark.stop()
