"""Apache Spark: from outside through its REST API, or from inside through a feed.

Threads that work for a query: its stream thread in the driver (plans every micro-batch), its task
threads in executors on this host, and the executors' Python workers. Task threads come from a
pool and change their name, and so their query, with every task. The driver may live on another
host: its queries are then known by the jobs they run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from laxity.host import procfs
from laxity.host.drivers.api import COMMON_METRICS, FIRST_ANSWER, Targets, common_metrics
from laxity.host.drivers.http import RestClient
from laxity.host.drivers.jvm import thread_names
from laxity.host.drivers.processes import ProcessFinder
from laxity.host.entities import (
    Deployment,
    LogicalOperator,
    PhysicalOperator,
    Query,
    Thread,
    entity_id,
)
from laxity.host.errors import DriverError
from laxity.host.metrics import Snapshot, Values
from laxity.host.threads import ThreadTable

SPARK_JVM = r"org\.apache\.spark\.(?:deploy\.SparkSubmit|executor\.\w+Backend)"
_PYTHON_WORKER = re.compile(r"pyspark[./]daemon|pyspark[./]worker")
_STREAM = re.compile(
    r"^stream execution thread for (?:(?P<name>.+?) )?\[id = (?P<id>[^,]+), runId = (?P<run>[^\]]+)"
)
_TASK = re.compile(r"^Executor task launch worker for task .*\(TID (?P<task>\d+)\)")
_PREFIXES = ("stream execution thread for", "Executor task launch worker for task")
_COMMS = tuple(prefix[:15] for prefix in _PREFIXES)
"""What the kernel keeps of them."""
_DESCRIPTION = re.compile(
    r"(?:(?P<name>.+?)(?:<br/>|\n))?\s*id = (?P<id>[\w-]+)(?:<br/>|\n)runId = (?P<run>[\w-]+)"
)
"""What Structured Streaming writes into the description of a micro-batch's jobs."""
_APPLICATION = re.compile(r"--app-id (\S+)")
"""On the command line of every executor, whoever manages the cluster."""
_GAUGE = re.compile(r"\.spark\.streaming\.(?P<query>.+)\.(?P<metric>[\w-]+)$")

_METRICS: Mapping[str, tuple[str, float]] = {
    # ours → the gauge of spark.sql.streaming.metricsEnabled, and the factor to our unit
    "latency": ("latency", 1e-3),
    "input_rate": ("inputRate-total", 1.0),
    "output_rate": ("processingRate-total", 1.0),
}


@dataclass(frozen=True, slots=True)
class Stream:
    """A running query. `gauge` is its name in Spark's metrics; no thread if the driver is on
    another host."""

    name: str
    run: str
    gauge: str
    thread: Thread | None = None


class SparkDriver:
    """Each query has two operators: `stream` (its micro-batches are planned) and `tasks`.

    Python workers serve whichever query has tasks in their executor: an executor's workers are
    one physical operator fused from the `tasks` of those queries, and so take the highest of
    their priorities.

    Of all Spark JVMs of this host only those of the application at `url` count, since task ids
    are unique in one application only: its executors, which name it on their command line, and
    its driver, which listens at `url`. `pids` names them instead.
    """

    def __init__(
        self,
        name: str = "spark",
        *,
        url: str = "http://localhost:4040",
        process: str = SPARK_JVM,
        pids: Iterable[int] = (),
        targets: Targets | None = None,
        timeout: float = 1.0,
    ) -> None:
        self.name = name
        self.metrics = COMMON_METRICS | frozenset(_METRICS)
        self._rest = RestClient(url, timeout, FIRST_ANSWER)
        self._pids = tuple(pids)
        self._finder = ProcessFinder(process)
        self._targets = targets or Targets()
        self._workers = ProcessFinder(_PYTHON_WORKER.pattern)
        self._executor_of: dict[int, int] = {}
        """Python worker → executor."""
        self._application: str | None = None
        self._table = ThreadTable()
        self._names: dict[Thread, str] = {}
        self._named_for: tuple[frozenset[int], frozenset[Thread]] | None = None

    def snapshot(self, now: float, wanted: frozenset[str]) -> Snapshot:
        try:
            return self._snapshot(now, wanted)
        except DriverError:
            self._application = None  # whoever answers next may be another application
            raise

    def _snapshot(self, now: float, wanted: frozenset[str]) -> Snapshot:
        pids = self._pids or self._own_processes()
        executor_of = self._python_workers(pids)
        self._table.keep((*pids, *executor_of))
        present = {pid: self._table.of(pid) for pid in pids}
        if not any(present.values()):
            raise DriverError(f"no Spark JVM of engine {self.name!r} runs on this host")
        jobs = self._jobs()
        run_of_task = self._tasks(jobs) if jobs else {}
        threads = self._working_threads(present, frozenset(run_of_task))
        streams = with_remote(find_streams(threads), jobs)
        workers: dict[int, list[Thread]] = {}
        for worker, executor in executor_of.items():
            workers.setdefault(executor, []).extend(self._table.of(worker))
        deployment = build_deployment(
            self.name, streams, threads, run_of_task, workers, self._targets
        )
        raw = common_metrics(deployment, wanted, self._table.cpu_seconds)
        asked = {m: _METRICS[m] for m in wanted if m in _METRICS}
        if asked:
            gauges = self._rest.json("/metrics/json/")["gauges"]
            raw |= gauge_values(self.name, streams, gauges, asked)
        return Snapshot(deployment, now, raw)

    def _own_processes(self) -> list[int]:
        application = self._app()
        found = []
        for pid in self._finder.find():
            named = _APPLICATION.search(procfs.command_line(pid))
            if named[1] == application if named else procfs.listens(pid, self._rest.port):
                found.append(pid)
        return found

    def _working_threads(
        self, present: Mapping[int, list[Thread]], tasks: frozenset[int]
    ) -> dict[Thread, str]:
        """Stream and task threads. Only a thread dump tells their whole names; it is asked for
        when a stream or task is new, or a task was not yet to be seen."""
        ours = {t for threads in present.values() for t in threads if t.name in _COMMS}
        need = (tasks, frozenset(t for t in ours if t.name == _COMMS[0]))
        if need != self._named_for or not tasks <= tasks_in(self._names.values()):
            self._names = {}
            for pid in {thread.pid for thread in ours}:
                names = thread_names(pid, _PREFIXES)
                self._names |= {t: names[t.tid] for t in ours if t.pid == pid and t.tid in names}
            self._named_for = need
        return {thread: name for thread, name in self._names.items() if thread in ours}

    def _python_workers(self, pids: Collection[int]) -> dict[int, int]:
        """Python workers, and the daemons that fork them → their executor."""
        found: dict[int, int] = {}
        for worker in self._workers.find():
            executor = self._executor_of.get(worker) or procfs.nearest_ancestor(worker, pids)
            if executor is not None:
                found[worker] = executor
        self._executor_of = found
        return found

    def _jobs(self) -> list[Mapping[str, Any]]:
        """Running jobs of streaming queries: those have their run id as their job group."""
        jobs = self._rest.json(f"/api/v1/applications/{self._app()}/jobs?status=running")
        return [job for job in jobs if "jobGroup" in job]

    def _tasks(self, jobs: Iterable[Mapping[str, Any]]) -> dict[int, str]:
        """Running task → the run id of its query."""
        group_of = {stage: job["jobGroup"] for job in jobs for stage in job["stageIds"]}
        stages = self._rest.json(
            f"/api/v1/applications/{self._app()}/stages"
            f"?status=active&details=true&taskStatus=RUNNING"
        )
        return {
            task["taskId"]: group_of[stage["stageId"]]
            for stage in stages
            if stage["stageId"] in group_of
            for task in stage.get("tasks", {}).values()
            if task.get("status") == "RUNNING"
        }

    def _app(self) -> str:
        if self._application is None:
            applications = self._rest.json("/api/v1/applications")
            if not applications:
                raise DriverError(f"{self._rest.url} shows no application")
            self._application = str(applications[0]["id"])
        return self._application

    def close(self) -> None:
        self._rest.close()
        self._table.close()


def tasks_in(names: Iterable[str]) -> set[int]:
    return {int(match["task"]) for match in map(_TASK.match, names) if match}


def find_streams(threads: Mapping[Thread, str]) -> list[Stream]:
    found = []
    for thread in sorted(threads):
        match = _STREAM.match(threads[thread])
        if match:
            found.append(_stream(match, thread))
    return sorted(found, key=lambda stream: stream.name)


def with_remote(local: list[Stream], jobs: Iterable[Mapping[str, Any]]) -> list[Stream]:
    """Also the queries whose driver is elsewhere, while they run jobs."""
    by_run = {stream.run: stream for stream in local}
    for job in jobs:
        match = _DESCRIPTION.match(job.get("description") or "")
        if match and match["run"] == job["jobGroup"] and match["run"] not in by_run:
            by_run[match["run"]] = _stream(match)
    return list(by_run.values())


def _stream(match: re.Match[str], thread: Thread | None = None) -> Stream:
    shown = match["name"] or f"query-{match['id'][:8]}"
    return Stream(shown, match["run"], match["name"] or match["id"], thread)


def build_deployment(
    engine: str,
    streams: Iterable[Stream],
    threads: Mapping[Thread, str],
    run_of_task: Mapping[int, str],
    workers: Mapping[int, Iterable[Thread]],
    targets: Targets,
) -> Deployment:
    tasks_of: dict[str, list[Thread]] = {}
    for thread, name in threads.items():
        match = _TASK.match(name)
        if match and int(match["task"]) in run_of_task:
            tasks_of.setdefault(run_of_task[int(match["task"])], []).append(thread)
    queries: list[Query] = []
    logical: list[LogicalOperator] = []
    physical: list[PhysicalOperator] = []
    working: dict[int, list[LogicalOperator]] = {}
    """Executor → the `tasks` that run in it."""
    for stream in streams:
        query = stream.name
        queries.append(Query(query, engine, targets.of(query)))
        tasks = LogicalOperator(entity_id(engine, query, "tasks"), query)
        plan = LogicalOperator(entity_id(engine, query, "stream"), query, (tasks.id,))
        logical += [plan, tasks]
        if stream.thread is not None:
            physical.append(PhysicalOperator(f"{plan.id}#0", query, (plan.id,), (stream.thread,)))
        running = tuple(sorted(tasks_of.get(stream.run, ())))
        if running:
            physical.append(PhysicalOperator(f"{tasks.id}#0", query, (tasks.id,), running))
            for pid in {thread.pid for thread in running}:
                working.setdefault(pid, []).append(tasks)
    for pid, served in working.items():
        serving = tuple(workers.get(pid, ()))
        if serving:
            first = served[0].query
            shared = entity_id(engine, first, f"python#{pid}")
            fused = tuple(tasks.id for tasks in served)
            physical.append(PhysicalOperator(shared, first, fused, serving))
    return Deployment(engine, tuple(queries), tuple(logical), tuple(physical))


def gauge_values(
    engine: str,
    streams: Iterable[Stream],
    gauges: Mapping[str, Any],
    asked: Mapping[str, tuple[str, float]],
) -> dict[str, Values]:
    """A query's gauges hold for both of its operators. Empty where Spark does not report them:
    set spark.sql.streaming.metricsEnabled to true."""
    said: dict[tuple[str, str], float] = {}
    for name, gauge in gauges.items():
        match = _GAUGE.search(name)
        if match and isinstance(gauge.get("value"), (int, float)):
            said[match["query"], match["metric"]] = float(gauge["value"])
    values: dict[str, Values] = {}
    for metric, (theirs, factor) in asked.items():
        values[metric] = {
            entity_id(engine, stream.name, operator): said[stream.gauge, theirs] * factor
            for stream in streams
            if (stream.gauge, theirs) in said
            for operator in ("stream", "tasks")
        }
    return values


Feed = Callable[[], Mapping[str, tuple[float, Iterable[int]]]]
"""Query → (laxity in seconds, Linux ids of the threads and processes that work for it)."""


class FeedDriver:
    """In-process: whoever schedules queries already knows their laxity and threads, and gives
    them with every call. `pid` is the process the thread ids belong to; an id that is not one of
    its threads is taken as a process of its own (a Python worker)."""

    def __init__(self, feed: Feed, *, name: str = "spark", pid: int | None = None) -> None:
        self.name = name
        self.metrics = frozenset({"cpu_seconds", "laxity"})
        self._feed = feed
        self._pid = os.getpid() if pid is None else pid
        self._table = ThreadTable()

    def snapshot(self, now: float, wanted: frozenset[str]) -> Snapshot:
        queries: list[Query] = []
        logical: list[LogicalOperator] = []
        physical: list[PhysicalOperator] = []
        laxities: dict[str, float] = {}
        fed = self._feed()
        ids = {tid for _, tids in fed.values() for tid in tids}
        own = {thread.tid: thread for thread in self._table.of(self._pid, ids)}
        for query, (laxity, tids) in fed.items():
            operator = entity_id(self.name, query, "query")
            threads = tuple(
                thread
                for tid in tids
                for thread in ([own[tid]] if tid in own else self._table.of(tid))
            )
            queries.append(Query(query, self.name))
            logical.append(LogicalOperator(operator, query))
            physical.append(PhysicalOperator(f"{operator}#0", query, (operator,), threads))
            laxities[operator] = laxities[f"{operator}#0"] = laxity
        deployment = Deployment(self.name, tuple(queries), tuple(logical), tuple(physical))
        self._table.keep((self._pid, *ids))
        raw = common_metrics(deployment, wanted - {"target"}, self._table.cpu_seconds)
        return Snapshot(deployment, now, {**raw, "laxity": laxities})

    def close(self) -> None:
        self._table.close()
