"""One node's scheduler: events in, decisions out (§5.2).

It joins the pieces: converters give arriving work its context, the two-level queue orders it,
idle workers are handed the next message. It reads no clock (every event comes with `now`) and
keeps no priorities of its own. `handle` is the only door.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

from laxity.core.contexts import Message, SourceEvent
from laxity.core.converter import ContextConverter
from laxity.core.costs import Perturbation, check_cost
from laxity.core.durations import parse_target
from laxity.core.errors import (
    InvalidJobError,
    SchedulingError,
    UnknownJobError,
    UnknownOperatorError,
)
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
from laxity.core.frontier import LowWatermark
from laxity.core.jobs import OperatorId
from laxity.core.policies.api import Policy
from laxity.core.progress import progress_map
from laxity.core.queue import OperatorQueue, TwoLevelQueue
from laxity.core.tokens import TokenBucket


class _Running:
    """A worker's current message and the job it belongs to (a job of the same name may have
    replaced it by the time the message completes), when it started, and since when its operator
    has held the worker."""

    __slots__ = ("job", "message", "operator_since", "started")

    def __init__(
        self, message: Message, job: _JobState, started: float, operator_since: float
    ) -> None:
        self.message = message
        self.job = job
        self.started = started
        self.operator_since = operator_since


class _JobState:
    """A job's converters: one for each operator, one for each of its ingestion points."""

    def __init__(
        self,
        added: JobAdded,
        policy: Policy,
        ids: count[int],
        perturb: Perturbation | None,
    ) -> None:
        job = added.job
        self.job = job
        self.progress = progress_map(job.time_domain)
        sources = [op for op in job.operators() if op.stage in job.sources]
        self.low = LowWatermark(sources)

        def converter(stage: str | None) -> ContextConverter:
            bucket = None
            if policy.needs_tokens and stage is None and added.tokens is not None:
                bucket = TokenBucket(added.tokens)
            return ContextConverter(
                job, stage, policy, self.progress, ids, tokens=bucket, perturb=perturb
            )

        self.sources = {op: converter(None) for op in sources}
        self.operators = {op: converter(op.stage) for op in job.operators()}
        self.senders: dict[str, list[ContextConverter]] = {}
        """Who is told what a stage costs: the converters that send to it."""
        for stage in job.stages:
            ups = [self.operators[op] for op in job.operators() if op.stage in job.upstream[stage]]
            if stage in job.sources:
                ups += self.sources.values()
            self.senders[stage] = ups

    def check_output(self, operator: OperatorId, target: OperatorId) -> None:
        self.job.check_operator(target)
        downstream = self.job.downstream[operator.stage]
        if target.stage not in downstream:
            raise UnknownOperatorError(
                f"{operator} does not send to {target}; "
                f"it sends to {', '.join(downstream) or 'nothing'}"
            )

    def retarget(self, target: float) -> None:
        self.job = replace(self.job, target=target)
        for converter in (*self.sources.values(), *self.operators.values()):
            converter.retarget(self.job)


class Scheduler:
    """Orders the messages of any number of jobs over `workers` workers.

    An operator keeps its worker for `quantum` seconds as long as it has messages; after that it
    gives way to an operator whose next message is more urgent. `queue` is the order they wait in;
    another one than the paper's makes a baseline (see `laxity.core.fairshare`).
    """

    def __init__(
        self,
        policy: Policy,
        workers: int = 1,
        *,
        quantum: float = 0.001,
        perturb: Perturbation | None = None,
        queue: OperatorQueue[Message] | None = None,
    ) -> None:
        if workers < 1:
            raise ValueError(f"a scheduler needs at least one worker, got {workers}")
        if not quantum >= 0:
            raise ValueError(f"quantum must not be negative, got {quantum}")
        self.policy = policy
        self.quantum = quantum
        self._perturb = perturb
        self._queue: OperatorQueue[Message] = TwoLevelQueue() if queue is None else queue
        self._jobs: dict[str, _JobState] = {}
        self._running: dict[int, _Running] = {}
        self._idle = deque(range(workers))
        self._ids = count()
        self._handlers: dict[type, Callable[[Any, float], list[Decision]]] = {
            JobAdded: self._job_added,
            JobRemoved: self._job_removed,
            TargetChanged: self._target_changed,
            EventsArrived: self._events_arrived,
            MessageCompleted: self._message_completed,
        }

    def __len__(self) -> int:
        """Messages waiting, not counting those that run."""
        return len(self._queue)

    def handle(self, event: Event, now: float) -> list[Decision]:
        return self._handlers[type(event)](event, now)

    def _job_added(self, event: JobAdded, now: float) -> list[Decision]:
        name = event.job.name
        if name in self._jobs:
            raise InvalidJobError(f"a job named {name!r} is there already; names are unique")
        self._jobs[name] = _JobState(event, self.policy, self._ids, self._perturb)
        for operator in event.job.operators():
            self._queue.add_operator(operator, name)
        return []

    def _job_removed(self, event: JobRemoved, now: float) -> list[Decision]:
        self._job(event.job)
        del self._jobs[event.job]
        dropped = self._queue.remove_group(event.job)
        return [DropMessages(tuple(dropped))] if dropped else []

    def _target_changed(self, event: TargetChanged, now: float) -> list[Decision]:
        """Holds for messages built from now on; contexts already travelling keep theirs."""
        self._job(event.job).retarget(parse_target(event.target))
        return []

    def _events_arrived(self, event: EventsArrived, now: float) -> list[Decision]:
        operator = event.operator
        state = self._job(operator.job)
        converter = state.sources.get(operator)
        if converter is None:
            state.job.check_operator(operator)
            raise InvalidJobError(f"{operator} is not a source of job {operator.job!r}")
        since = event.since
        if math.isnan(since):
            reached = state.low.of(operator)
            since = event.progress if reached == -math.inf else reached
        if state.low.advance(operator, event.progress):
            state.progress.observe(state.low.progress, now)
        source = SourceEvent(event.progress, now, since)
        context = converter.build_at_source(source, operator.stage)
        self._enqueue(Message(operator, event.progress, now, context, since, sent=now))
        return self._dispatch(now)

    def _message_completed(self, event: MessageCompleted, now: float) -> list[Decision]:
        running = self._running.get(event.worker)
        if running is None:
            raise SchedulingError(f"worker {event.worker} was not running anything")
        check_cost(event.cost)
        for target in event.emitted:
            running.job.check_output(running.message.operator, target)
        del self._running[event.worker]
        done, state = running.message, running.job
        if state is not self._jobs.get(done.operator.job):  # its job left while it ran
            self._idle.append(event.worker)
            return self._dispatch(now)
        self._learn(running, event.cost)
        for target in event.emitted:
            self._enqueue(self._output(state, done, target, now))
        return self._continue(event.worker, running, now) + self._dispatch(now)

    def _learn(self, running: _Running, cost: float) -> None:
        done, state = running.message, running.job
        converter = state.operators[done.operator]
        converter.cost.update(cost)
        reply = replace(
            converter.prepare_reply(),
            queueing=running.started - done.sent,
            pending=self._queue.pending(done.operator),
        )
        for sender in state.senders[done.operator.stage]:
            sender.process_reply(done.operator.stage, reply)

    def _output(self, state: _JobState, done: Message, target: OperatorId, now: float) -> Message:
        converter = state.operators[done.operator]
        context = converter.build_at_operator(done, target.stage)
        since = converter.since_of_output(done)
        return Message(target, done.context.progress, done.arrival, context, since, sent=now)

    def _enqueue(self, message: Message) -> None:
        context = message.context
        self._queue.push(message.operator, message, context.local, context.priority)

    def _continue(self, worker: int, running: _Running, now: float) -> list[Decision]:
        """Within its quantum an operator stays. After it the most urgent one has the worker, which
        may be the same again."""
        operator = running.message.operator
        since = running.operator_since
        chosen = self._queue.pop_from(operator) if now - since < self.quantum else None
        if chosen is None:
            chosen, since = self._queue.release_and_pop(operator), now
        if chosen is None:
            self._idle.append(worker)
            return []
        return [self._start(worker, chosen[1], now, since)]

    def _dispatch(self, now: float) -> list[Decision]:
        decisions: list[Decision] = []
        while self._idle and (chosen := self._queue.pop()) is not None:
            decisions.append(self._start(self._idle.popleft(), chosen[1], now, now))
        return decisions

    def _start(
        self, worker: int, message: Message, now: float, operator_since: float
    ) -> RunMessage:
        job = self._jobs[message.operator.job]
        self._running[worker] = _Running(message, job, now, operator_since)
        return RunMessage(worker, message)

    def _job(self, name: str) -> _JobState:
        try:
            return self._jobs[name]
        except KeyError:
            known = ", ".join(self._jobs) or "none yet"
            raise UnknownJobError(f"no job named {name!r}; the jobs are {known}") from None
