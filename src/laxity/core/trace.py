"""Runs that can be saved and replayed: one JSON object a line.

A trace holds what the scheduler was told and what it answered (payloads left out). Replaying the
first must give the second again; that is the test of determinism, and how a report from the
field is debugged.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

from laxity.core.contexts import Message, PriorityContext
from laxity.core.errors import InvalidTraceError
from laxity.core.events import (
    Decision,
    DropMessages,
    Event,
    EventsArrived,
    JobAdded,
    JobRemoved,
    MessageCompleted,
    RunMessage,
    TargetChanged,
)
from laxity.core.jobs import Job, OperatorId, Stage, TimeDomain
from laxity.core.scheduler import Scheduler
from laxity.core.windows import Window


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    now: float
    event: Event
    decisions: tuple[Decision, ...]


class TracingScheduler:
    """A scheduler that remembers each step."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.steps: list[Step] = []

    def handle(self, event: Event, now: float) -> list[Decision]:
        decisions = self._scheduler.handle(event, now)
        self.steps.append(Step(now, event, tuple(decisions)))
        return decisions


def replay(steps: Iterable[Step], scheduler: Scheduler) -> None:
    """Feed recorded events to a fresh scheduler; raises at the first decision that differs."""
    for number, step in enumerate(steps, 1):
        decisions = [_encode(d) for d in scheduler.handle(step.event, step.now)]
        recorded = [_encode(d) for d in step.decisions]
        if decisions != recorded:
            raise InvalidTraceError(
                f"step {number} (t={step.now}) decided {decisions}, the trace has {recorded}"
            )


def dump(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        record = {
            "now": step.now,
            "event": _encode(step.event),
            "decisions": [_encode(d) for d in step.decisions],
        }
        yield json.dumps(record, separators=(",", ":"))


def load(lines: Iterable[str]) -> Iterator[Step]:
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            yield Step(
                record["now"],
                _decode_event(record["event"]),
                tuple(_decode_decision(d) for d in record["decisions"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidTraceError(f"line {number} of the trace: {error!r}") from error


def _encode(item: Event | Decision) -> dict[str, Any]:
    kind = type(item).__name__
    match item:
        case JobAdded(job, tokens):
            return {"kind": kind, "job": _encode_job(job), "tokens": tokens}
        case RunMessage(worker, message):
            return {"kind": kind, "worker": worker, "message": _encode_message(message)}
        case DropMessages(messages):
            return {"kind": kind, "messages": [_encode_message(m) for m in messages]}
        case _:
            return {"kind": kind} | {
                field.name: _number(getattr(item, field.name)) for field in dataclasses.fields(item)
            }


def _number(value: Any) -> Any:
    """JSON has no NaN or infinity: null and "inf" stand for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def _float(value: Any) -> float:
    return math.nan if value is None else float(value)


def _encode_job(job: Job) -> dict[str, Any]:
    return {
        "name": job.name,
        "target": job.target,
        "tenant": job.tenant,
        "time_domain": job.time_domain.value,
        "stages": [
            {
                "name": stage.name,
                "parallelism": stage.parallelism,
                "window": dataclasses.astuple(stage.window) if stage.window else None,
            }
            for stage in job.stages.values()
        ],
        "edges": [[up, down] for up, downs in job.downstream.items() for down in downs],
    }


def _decode_job(record: dict[str, Any]) -> Job:
    stages = [
        Stage(s["name"], s["parallelism"], Window(*s["window"]) if s["window"] else None)
        for s in record["stages"]
    ]
    return Job.of(
        record["name"],
        record["target"],
        stages,
        [(up, down) for up, down in record["edges"]],
        tenant=record["tenant"],
        time_domain=TimeDomain(record["time_domain"]),
    )


def _encode_message(message: Message) -> dict[str, Any]:
    return {
        "operator": list(message.operator),
        "progress": _number(message.progress),
        "arrival": message.arrival,
        "since": _number(message.since),
        "sent": _number(message.sent),
        "context": [_number(field) for field in message.context],
    }


def _decode_message(record: dict[str, Any]) -> Message:
    number, *rest = record["context"]
    return Message(
        OperatorId(*record["operator"]),
        _float(record["progress"]),
        record["arrival"],
        PriorityContext(number, *map(_float, rest)),
        _float(record["since"]),
        sent=_float(record["sent"]),
    )


def _decode_event(record: dict[str, Any]) -> Event:
    match record["kind"]:
        case "JobAdded":
            return JobAdded(_decode_job(record["job"]), record["tokens"])
        case "JobRemoved":
            return JobRemoved(record["job"])
        case "TargetChanged":
            return TargetChanged(record["job"], record["target"])
        case "EventsArrived":
            operator = OperatorId(*record["operator"])
            return EventsArrived(operator, _float(record["progress"]), _float(record["since"]))
        case "MessageCompleted":
            emitted = tuple(OperatorId(*target) for target in record["emitted"])
            return MessageCompleted(record["worker"], record["cost"], emitted)
        case kind:
            raise ValueError(f"unknown event {kind!r}")


def _decode_decision(record: dict[str, Any]) -> Decision:
    match record["kind"]:
        case "RunMessage":
            return RunMessage(record["worker"], _decode_message(record["message"]))
        case "DropMessages":
            return DropMessages(tuple(_decode_message(m) for m in record["messages"]))
        case kind:
            raise ValueError(f"unknown decision {kind!r}")
