"""The two messages between Python and the hooks in Spark's JVM, as text.

One call a tick carries decisions in and a report out. A line is a kind and key=value pairs,
separated by tabs; texts are percent-encoded, numbers are exact in both languages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import quote, unquote_plus

from laxity.core.rules import Facts, PriorityRule


def number(value: float) -> str:
    """As Java's Double.parseDouble reads it; repr is exact."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return "NaN" if math.isnan(value) else repr(float(value))


def _line(kind: str, **fields: str | float | bool) -> str:
    def text(value: str | float | bool) -> str:
        if isinstance(value, bool):
            return "1" if value else "0"
        return quote(value, safe=",:.") if isinstance(value, str) else number(value)

    return "\t".join([kind, *(f"{key}={text(value)}" for key, value in fields.items())])


# Python → JVM.


@dataclass(frozen=True)  # no slots: the text is kept beside the fields
class QueryDecision:
    """What the hooks need to know of one query; see QueryRule.java."""

    id: str
    tenant: str
    rule: PriorityRule
    stage_offsets: Mapping[str, float]
    batch_offset: float
    urgent: bool
    paused: bool
    max_hold: float
    pace: float = 0.0
    step: float = 0.0
    margin: float = 0.0
    takes: float = 0.0
    interpreted: bool = False
    batch_work: float = 0.0
    token_rate: float = 0.0
    source_limit: int | None = None
    """Rows or files a batch; 0 lifts the limit, None leaves it as it is."""

    @cached_property
    def text(self) -> str:
        """As it is sent. Decisions change with batches but are sent with every tick."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterable[str]:
        rule = self.rule
        stages = ",".join(f"{at}:{number(offset)}" for at, offset in self.stage_offsets.items())
        yield _line(
            "Q",
            id=self.id,
            tenant=self.tenant,
            base=float(rule.base),
            offset=rule.offset,
            slide=rule.slide,
            origin=rule.origin,
            delay=rule.delay,
            p0=rule.line.p0,
            t0=rule.line.t0,
            slope=rule.line.slope,
            batch=self.batch_offset,
            urgent=self.urgent,
            paused=self.paused,
            hold=self.max_hold,
            pace=self.pace,
            step=self.step,
            margin=self.margin,
            takes=self.takes,
            interpreted=self.interpreted,
            work=self.batch_work,
            tokens=self.token_rate,
            stages=stages,
        )
        if self.source_limit is not None:
            yield _line("L", id=self.id, value=float(self.source_limit))


@dataclass(frozen=True, slots=True)
class Decisions:
    """Everything decided in one tick; see Decisions.java for the meaning of each field."""

    queries: tuple[QueryDecision, ...] = ()
    caps: Mapping[str, int] = field(default_factory=dict)
    order: bool = True
    gate: bool = True
    reserve: int = 0
    horizon: float = 2.0
    planners: int = 1
    best_effort: float = 600.0
    stale_after: float = 5.0

    def encode(self) -> str:
        lines = [
            _line(
                "G",
                order=self.order,
                gate=self.gate,
                reserve=float(self.reserve),
                horizon=self.horizon,
                planners=float(self.planners),
                best=self.best_effort,
                stale=self.stale_after,
            )
        ]
        lines += [_line("C", tenant=t, slots=float(s)) for t, s in self.caps.items()]
        lines += [query.text for query in self.queries]
        return "\n".join(lines)


def context_line(query_id: str, position: str, local: float, facts: Facts) -> str:
    """One waiting task set as Contract.java takes it."""
    return _line(
        "X",
        id=query_id,
        at=position,
        local=float(local),
        arrival=facts.arrival,
        progress=facts.progress,
        token=facts.token,
    )


# JVM → Python.


@dataclass(frozen=True, slots=True)
class StreamSeen:
    """A query that runs, and what the gate has it doing (IDLE, HELD or RUNNING)."""

    id: str
    run: str
    name: str
    state: str
    since: float
    unmanaged: str | None
    """Why its trigger is left alone (a continuous, once or available-now trigger)."""


@dataclass(frozen=True, slots=True)
class TaskRun:
    start: float
    end: float
    executor: str


@dataclass(frozen=True, slots=True)
class StageDone:
    id: str
    batch: int
    job: int
    stage: int
    parents: tuple[int, ...]
    tasks: int
    submitted: float
    launched: float
    done: float
    task_seconds: float
    longest_task: float
    behind: Mapping[str, int]
    """Whose tasks held the slots when the stage was submitted: query id → tasks."""
    runs: str = ""
    """Its first tasks as sent; read only when somebody looks."""

    def task_runs(self) -> list[TaskRun]:
        found = []
        for run in self.runs.split(","):
            if run:
                start, took, executor = run.split(":", 2)
                began = self.submitted + int(start) / 1000.0
                found.append(TaskRun(began, began + int(took) / 1000.0, executor))
        return found


@dataclass(frozen=True, slots=True)
class BatchDone:
    id: str
    run: str
    batch: int
    rows: int
    started: float
    durations: Mapping[str, float]
    event_time: Mapping[str, float]
    """min, max, avg and watermark, in epoch seconds, where the query has a watermark."""
    backlog: bool
    """Did a source have more than this batch took?"""
    held: float
    arrival: float
    """No event of the batch was there before this moment; NaN where the gate did not see it."""

    @property
    def ended(self) -> float:
        return self.started + self.durations.get("triggerExecution", 0.0)


@dataclass(frozen=True, slots=True)
class StreamEnded:
    id: str
    run: str
    error: str


@dataclass(frozen=True, slots=True)
class ThreadSeen:
    """A thread of the driver, by its Linux id: the one that plans a query's batches, or (without
    a query) one of a lane of task threads."""

    tid: int
    id: str
    lax: bool


@dataclass(frozen=True, slots=True)
class Notice:
    key: str
    message: str


@dataclass(slots=True)
class Report:
    streams: list[StreamSeen] = field(default_factory=list)
    stages: list[StageDone] = field(default_factory=list)
    batches: list[BatchDone] = field(default_factory=list)
    ended: list[StreamEnded] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    threads: list[ThreadSeen] = field(default_factory=list)
    running: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    cores: int = 0
    reserved: int = 0
    sorts: int = 0
    sort_nanos: int = 0
    exchange_nanos: int = 0


_STATES = ("idle", "held", "running")


def parse_report(text: str) -> Report:
    report = Report()
    for line in text.splitlines():
        kind, *parts = line.split("\t")
        f = dict(part.split("=", 1) for part in parts)
        if kind == "S":
            report.streams.append(
                StreamSeen(
                    f["id"],
                    f["run"],
                    unquote_plus(f["name"]),
                    _STATES[int(f["state"])],
                    float(f["since"]),
                    unquote_plus(f["unmanaged"]) if "unmanaged" in f else None,
                )
            )
        elif kind == "E":
            report.stages.append(_stage(f))
        elif kind == "B":
            report.batches.append(_batch(f))
        elif kind == "T":
            report.ended.append(StreamEnded(f["id"], f["run"], unquote_plus(f["error"])))
        elif kind == "N":
            report.notices.append(Notice(unquote_plus(f["key"]), unquote_plus(f["message"])))
        elif kind == "H":
            report.threads.append(ThreadSeen(int(f["tid"]), f["id"], f["lax"] == "1"))
        elif kind == "R":
            report.running[f["id"]] = int(f["running"])
            report.waiting[f["id"]] = int(f["waiting"])
        elif kind == "K":
            report.cores, report.reserved = int(f["cores"]), int(f["reserved"])
        elif kind == "X":
            report.exchange_nanos = int(f["nanos"])
        elif kind == "P":
            report.sorts, report.sort_nanos = int(f["sorts"]), int(f["nanos"])
    return report


def _stage(f: dict[str, str]) -> StageDone:
    behind = (pair.rsplit(":", 1) for pair in unquote_plus(f["behind"]).split(",") if pair)
    return StageDone(
        f["id"],
        int(f["batch"]),
        int(f["job"]),
        int(f["stage"]),
        tuple(int(p) for p in f["parents"].split(",") if p),
        int(f["tasks"]),
        float(f["submitted"]),
        float(f["launched"]),
        float(f["done"]),
        float(f["seconds"]),
        float(f["longest"]),
        {who: int(tasks) for who, tasks in behind},
        unquote_plus(f.get("runs", "")),
    )


def _batch(f: dict[str, str]) -> BatchDone:
    def prefixed(prefix: str) -> dict[str, float]:
        return {k[len(prefix) :]: float(v) for k, v in f.items() if k.startswith(prefix)}

    return BatchDone(
        f["id"],
        f["run"],
        int(f["batch"]),
        int(f["rows"]),
        float(f["started"]),
        prefixed("d."),
        prefixed("e."),
        f["backlog"] == "1",
        float(f["held"]),
        float(f["arrival"]),
    )
