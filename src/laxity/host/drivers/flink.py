"""Apache Flink: entities and metrics from its REST API, threads from its task managers' names.

A task's thread is named "<vertex> (<subtask>/<parallelism>)#<attempt>", helper threads contain
that name. A vertex is a chain of fused operators, written "a -> b -> c".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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
from laxity.host.metrics import Snapshot, Values
from laxity.host.threads import ThreadTable

TASK_MANAGER = r"org\.apache\.flink\.runtime\.taskexecutor\.TaskManagerRunner"
_SUBTASK = re.compile(r"(?P<task>.+) \((?P<subtask>\d+)/(?P<of>\d+)\)#(?P<attempt>\d+)")
_PREFIXES = re.compile(
    r"^(?:Source Data Fetcher for|(?:System )?Time Trigger for|OutputFlusher for"
    r"|Legacy Source Thread -) "
)

METRICS: Mapping[str, tuple[tuple[str, ...], float]] = {
    # ours → Flink's (the first that a version has counts), and the factor to our unit
    "queue_size": (
        ("Shuffle.Netty.Input.Buffers.inputQueueLength", "buffers.inputQueueLength"),
        1.0,
    ),
    "records_in": (("numRecordsIn",), 1.0),
    "records_out": (("numRecordsOut",), 1.0),
    "cpu_use": (("busyTimeMsPerSecond",), 1e-3),
    # Latency markers have waited wherever the records before them waited. Flink sends them where
    # metrics.latency.interval is set; without it the age is unknown.
    "head_age": (("latency_median",), 1e-3),
}


@dataclass(frozen=True, slots=True)
class Vertex:
    """`operators` are the fused ones, in stream order."""

    id: str
    name: str
    parallelism: int
    operators: tuple[str, ...]
    inputs: tuple[str, ...]
    sources: tuple[str, ...] = ()
    """The vertices without inputs that its records come from."""


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    name: str
    started: float
    vertices: tuple[Vertex, ...] = ()


@dataclass(slots=True)
class _Threads:
    """A task manager's threads; names are asked for only when a new thread has appeared."""

    names: dict[Thread, str] = field(default_factory=dict)

    def refresh(self, pid: int, present: list[Thread]) -> dict[Thread, str]:
        if any(thread not in self.names for thread in present):
            by_tid = thread_names(pid)
            self.names = {t: by_tid.get(t.tid, t.name) for t in present}
        elif len(present) < len(self.names):
            self.names = {t: self.names[t] for t in present}
        return self.names


class FlinkDriver:
    """Jobs are queries, known by their name (and id, where two share a name)."""

    def __init__(
        self,
        name: str = "flink",
        *,
        url: str = "http://localhost:8081",
        process: str = TASK_MANAGER,
        targets: Targets | None = None,
        timeout: float = 1.0,
    ) -> None:
        self.name = name
        self.metrics = COMMON_METRICS | frozenset(METRICS)
        self._rest = RestClient(url, timeout, FIRST_ANSWER)
        self._finder = ProcessFinder(process)
        self._targets = targets or Targets()
        self._jobs: dict[str, Job] = {}
        self._table = ThreadTable()
        self._threads: dict[int, _Threads] = {}
        self._built: tuple[list[Job], dict[Thread, str]] = ([], {})
        self._deployment = Deployment(name)

    def snapshot(self, now: float, wanted: frozenset[str]) -> Snapshot:
        jobs = self._running_jobs()
        threads = self._task_threads()
        if (jobs, threads) != self._built:
            self._built = jobs, threads
            self._deployment = build_deployment(self.name, jobs, threads, self._targets)
        raw = common_metrics(self._deployment, wanted, self._table.cpu_seconds)
        asked = wanted & METRICS.keys()
        if asked:
            found: dict[str, dict[str, float]] = {metric: {} for metric in asked}
            for query, job in name_queries(jobs).items():
                for vertex in job.vertices:
                    answer = self._vertex_metrics(job, vertex, asked)
                    values = vertex_values(self.name, query, vertex, answer, asked)
                    for metric, of_vertex in values.items():
                        found[metric].update(of_vertex)
            raw |= found
        return Snapshot(self._deployment, now, raw)

    def _running_jobs(self) -> list[Job]:
        """One request a period; a job's plan never changes, so it is read once."""
        running = {
            job["jid"]: job
            for job in self._rest.json("/jobs/overview")["jobs"]
            if job["state"] == "RUNNING"
        }
        self._jobs = {jid: job for jid, job in self._jobs.items() if jid in running}
        for jid in running.keys() - self._jobs.keys():
            self._jobs[jid] = parse_job(self._rest.json(f"/jobs/{jid}"))
        return sorted(self._jobs.values(), key=lambda job: (job.started, job.id))

    def _task_threads(self) -> dict[Thread, str]:
        pids = self._finder.find()
        self._table.keep(pids)
        self._threads = {pid: self._threads.get(pid) or _Threads() for pid in pids}
        found: dict[Thread, str] = {}
        for pid, threads in self._threads.items():
            found |= threads.refresh(pid, self._table.of(pid))
        return found

    def _vertex_metrics(self, job: Job, vertex: Vertex, asked: Iterable[str]) -> Any:
        wanted = ",".join(
            name
            for metric in asked
            for subtask in range(vertex.parallelism)
            for name in metric_names(metric, vertex, subtask)
        )
        return self._rest.json(f"/jobs/{job.id}/vertices/{vertex.id}/metrics?get={wanted}")

    def close(self) -> None:
        self._rest.close()
        self._table.close()


def parse_job(answer: Mapping[str, Any]) -> Job:
    inputs = {
        node["id"]: tuple(edge["id"] for edge in node.get("inputs", ()))
        for node in answer["plan"]["nodes"]
    }
    vertices = tuple(
        Vertex(
            vertex["id"],
            vertex["name"],
            vertex["parallelism"],
            tuple(_distinct(vertex["name"].split(" -> "))),
            inputs.get(vertex["id"], ()),
            tuple(sorted(_sources(vertex["id"], inputs))),
        )
        for vertex in answer["vertices"]
    )
    return Job(answer["jid"], answer["name"], answer["start-time"] / 1000, vertices)


def _sources(vertex: str, inputs: Mapping[str, tuple[str, ...]]) -> set[str]:
    found: set[str] = set()
    for above in inputs.get(vertex, ()):
        found |= _sources(above, inputs) or {above}
    return found


def name_queries(jobs: Iterable[Job]) -> dict[str, Job]:
    """The oldest job of a name has it; others add their id."""
    named: dict[str, Job] = {}
    for job in jobs:
        named[job.name if job.name not in named else f"{job.name}-{job.id[:8]}"] = job
    return named


def build_deployment(
    engine: str, jobs: Iterable[Job], threads: Mapping[Thread, str], targets: Targets
) -> Deployment:
    queries: list[Query] = []
    logical: list[LogicalOperator] = []
    physical: list[PhysicalOperator] = []
    claims: dict[str, list[int]] = {}
    """Subtask name → the places in `physical` that bear it, oldest job first."""
    for query, job in name_queries(jobs).items():
        queries.append(Query(query, engine, targets.of(query)))
        heads = {v.id: _operator_id(engine, query, v, v.operators[0]) for v in job.vertices}
        for vertex in job.vertices:
            ids = [_operator_id(engine, query, vertex, op) for op in vertex.operators]
            after = tuple(heads[v.id] for v in job.vertices if vertex.id in v.inputs)
            for here, below in zip(ids, [*ids[1:], None], strict=True):
                logical.append(LogicalOperator(here, query, (below,) if below else after))
            for subtask in range(vertex.parallelism):
                name = f"{vertex.name} ({subtask + 1}/{vertex.parallelism})"
                claims.setdefault(name, []).append(len(physical))
                place = _physical_id(engine, query, vertex, subtask)
                physical.append(PhysicalOperator(place, query, tuple(ids)))
    for name, found in match_threads(threads).items():
        for index, group in _assign(claims.get(name, []), found):
            physical[index] = replace(physical[index], threads=tuple(group))
    return Deployment(engine, tuple(queries), tuple(logical), tuple(physical))


def match_threads(threads: Mapping[Thread, str]) -> dict[str, list[tuple[Thread, str]]]:
    """Subtask name → its threads, helpers among them."""
    found: dict[str, list[tuple[Thread, str]]] = {}
    for thread, name in threads.items():
        match = _SUBTASK.search(_PREFIXES.sub("", name))
        if match:
            subtask = f"{match['task']} ({match['subtask']}/{match['of']})"
            found.setdefault(subtask, []).append((thread, name))
    return found


def _assign(
    places: list[int], threads: list[tuple[Thread, str]]
) -> Iterable[tuple[int, list[Thread]]]:
    """Jobs with operators of the same name have threads of the same name. Thread ids grow, so
    the k-th oldest job is given the k-th oldest thread of each name; if the numbers do not fit,
    which thread is whose is unknown, and they are left alone."""
    if not places:
        return []
    by_name: dict[str, list[Thread]] = {}
    for thread, name in threads:
        by_name.setdefault(name, []).append(thread)
    groups: list[list[Thread]] = [[] for _ in places]
    for same in by_name.values():
        if len(same) == len(places):
            for group, thread in zip(groups, sorted(same, key=lambda t: t.tid), strict=True):
                group.append(thread)
    return zip(places, groups, strict=True)


def vertex_values(
    engine: str,
    query: str,
    vertex: Vertex,
    answer: Iterable[Mapping[str, str]],
    asked: Iterable[str],
) -> dict[str, Values]:
    """Of a fused chain the first operator takes in, queues and works; nobody outside can tell
    the others apart, which pass on what leaves the chain at no cost. A source takes in what it
    gives out."""
    said: dict[str, float] = {}
    for entry in answer:
        try:
            said[entry["id"]] = float(entry["value"])
        except ValueError:
            continue  # "NaN" and the like, before the first measurement
    values: dict[str, Values] = {}
    first, *others = (_operator_id(engine, query, vertex, op) for op in vertex.operators)
    for metric in asked:
        read = "records_out" if metric == "records_in" and not vertex.inputs else metric
        found = {}
        for i in range(vertex.parallelism):
            known = [said[n] for n in metric_names(read, vertex, i) if said.get(n, -1.0) >= 0]
            if known:
                place = _physical_id(engine, query, vertex, i)
                # Markers of several sources: the slowest way counts. Names of several versions:
                # only one of them has a value.
                found[place] = max(known) * METRICS[read][1]
        if found:
            found[first] = (max if metric == "head_age" else sum)(found.values())
        values[metric] = found
    leaving = values.get("records_out", {}).get(first)
    for metric, known_values in values.items():
        passed = leaving if metric.startswith("records") else 0.0
        if passed is not None:
            values[metric] = {**known_values, **dict.fromkeys(others, passed)}
    return values


def metric_names(metric: str, vertex: Vertex, subtask: int) -> list[str]:
    """Flink's names, any of which may have the value."""
    if metric == "records_in" and not vertex.inputs:
        metric = "records_out"
    names, _ = METRICS[metric]
    if metric != "head_age":
        return [f"{subtask}.{name}" for name in names]
    return [
        f"{subtask}.latency.source_id.{source}.operator_id.{vertex.id}"
        f".operator_subtask_index.{subtask}.{name}"
        for source in vertex.sources
        for name in names
    ]


def _operator_id(engine: str, query: str, vertex: Vertex, operator: str) -> str:
    return entity_id(engine, query, f"{vertex.id[:8]}.{operator}")


def _physical_id(engine: str, query: str, vertex: Vertex, subtask: int) -> str:
    return entity_id(engine, query, f"{vertex.id[:8]}#{subtask}")


def _distinct(names: Iterable[str]) -> list[str]:
    """A chain may hold two operators of one name."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return result
