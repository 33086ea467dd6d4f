"""Algorithm 1: the converter inside each operator that turns contexts into priorities (§5.3).

A converter belongs to one sending stage of a job (or to its ingestion point) and speaks the
four functions of §5.1. What it knows of the operators it sends to comes from their replies.
The policy enters only as the rule it compiles; one evaluator gives every priority.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from laxity.core.contexts import Arrived, Message, PriorityContext, ReplyContext
from laxity.core.costs import CostProfile, Perturbation
from laxity.core.errors import UnknownOperatorError
from laxity.core.jobs import Job
from laxity.core.policies.api import Policy, Situation
from laxity.core.progress import ProgressLine, ProgressMap
from laxity.core.rules import ARRIVAL, CONSTANT, FRONTIER, PriorityRule
from laxity.core.tokens import NO_TOKEN, TokenBucket
from laxity.core.windows import Window

_REFRESH = 16
"""Messages between two compilations of a rule whose situation only drifts. A progress line over
64 points moves little in 16, and compiling costs as much as evaluating ten times."""

_new_context = tuple.__new__
"""Makes a named tuple without the Python function that would only pass its arguments on: a tenth
of the cost of a context."""


class _Target:
    """What a converter keeps of one stage it sends to: RC_local and the rule compiled from it.

    `frontier` and `frontier_time` are those of every progress from `low` to `high`. Both only ever
    rise with progress, so whatever lies between two that share them shares them too.
    """

    __slots__ = (
        "age",
        "compiled",
        "frontier",
        "frontier_time",
        "high",
        "line",
        "low",
        "reply",
        "rule",
        "stage",
        "window",
    )

    def __init__(self, stage: str, window: Window | None) -> None:
        self.stage = stage
        self.window = window
        self.reply = self.compiled = ReplyContext()
        self.rule: PriorityRule | None = None
        self.line: ProgressLine | None = None
        self.age = 0
        self.forget_frontier()

    def forget_frontier(self) -> None:
        self.low, self.high = math.inf, -math.inf
        self.frontier = self.frontier_time = math.nan

    def find_frontier(self, rule: PriorityRule, since: float, progress: float) -> float:
        """p_MF of a message; t_MF by the line is left in `frontier_time`."""
        time = rule.frontier_time(since)
        if self.window is None or since != since:
            self.forget_frontier()  # each message is its own frontier
            self.frontier_time = time
            return progress
        frontier = self.window.frontier(since)
        if frontier == self.frontier and time == self.frontier_time:
            self.low, self.high = min(self.low, since), max(self.high, since)
        else:
            self.low = self.high = since
            self.frontier, self.frontier_time = frontier, time
        return frontier


def _differ(cost: float, before: float) -> bool:
    """More than the noise that a running mean always has: a reason to compile anew."""
    return abs(cost - before) > 0.01 * before


class ContextConverter:
    """Builds the contexts of the messages that `stage` sends; None is the job's ingestion point.

    `progress` is the job's map, shared by its converters and fed where events enter. `ids`
    numbers messages. `perturb` distorts the costs that priorities are made of (figure 15).
    """

    def __init__(
        self,
        job: Job,
        stage: str | None,
        policy: Policy,
        progress: ProgressMap,
        ids: Iterator[int],
        *,
        tokens: TokenBucket | None = None,
        perturb: Perturbation | None = None,
    ) -> None:
        self.job = job
        self.stage = stage
        self.target = job.target
        self.cost = CostProfile()
        self._policy = policy
        self._progress = progress
        self._ids = ids
        self._tokens = tokens
        self._perturb = perturb
        emits = 0.0 if stage is None else job.emission_slide(stage)
        own = None if stage is None else job.stage(stage).window
        self._own_slide = own.slide if own else None
        names = job.sources if stage is None else job.downstream[stage]
        self._targets = {name: _Target(name, self._window(name, emits)) for name in names}

    def _window(self, target: str, emits: float) -> Window | None:
        """The window a message to `target` must wait for; None if it triggers at once because
        the target is regular, or already receives at its own pace (TRANSFORM's condition)."""
        window = self.job.stage(target).window
        return window if window is not None and emits < window.slide else None

    def retarget(self, job: Job) -> None:
        """The same job with another target: rules are compiled anew."""
        self.job, self.target = job, job.target
        for target in self._targets.values():
            target.rule = None

    # The four functions of §5.1.

    def build_at_source(self, event: Arrived, target: str) -> PriorityContext:
        """BUILDCTXATSOURCE: the context of the message that carries `event` to `target`."""
        local, token = NO_TOKEN.interval, NO_TOKEN.tag
        if self._tokens is not None:
            drawn = self._tokens.draw(event.arrival)
            local, token = drawn.interval, drawn.tag
        progress, since = event.progress, event.since
        if since != since:
            since = progress
        return self._convert(target, progress, since, event.arrival, local, token)

    def build_at_operator(self, message: Message, target: str) -> PriorityContext:
        """BUILDCTXATOPERATOR: the context of what `message` triggered, sent on to `target`."""
        upstream = message.context
        return self._convert(
            target,
            upstream.progress,
            self.since_of_output(message),
            message.arrival,
            upstream.local,
            upstream.token,
        )

    def since_of_output(self, message: Message) -> float:
        """The progress seen before the first event behind what `message` triggered. A window's
        result covers exactly its last slide."""
        if self._own_slide is not None:
            return message.context.progress - self._own_slide
        return message.since if message.since == message.since else message.progress

    def process_reply(self, target: str, reply: ReplyContext) -> None:
        """PROCESSCTXFROMREPLY: RC_local ← the reply of an operator of `target`."""
        known = self._target(target)
        before = known.reply
        known.reply = reply
        if _differ(reply.cost, before.cost) or _differ(reply.path_cost, before.path_cost):
            known.rule = None

    def prepare_reply(self) -> ReplyContext:
        """PREPAREREPLY: this operator's own cost, and the dearest way on from it."""
        path = 0.0
        for target in self._targets.values():
            path = max(path, target.reply.cost + target.reply.path_cost)
        return ReplyContext(cost=self.cost.mean, path_cost=path)

    # CXTCONVERT.

    def _convert(
        self,
        target_stage: str,
        progress: float,
        since: float,
        arrival: float,
        local: float,
        token: float,
    ) -> PriorityContext:
        target = self._targets.get(target_stage) or self._target(target_stage)
        rule = target.rule
        target.age = age = target.age + 1
        if rule is None or age >= _REFRESH or self._perturb is not None:
            rule = self._refresh(target)
        if target.low <= since <= target.high:
            frontier = target.frontier
        else:
            frontier = target.find_frontier(rule, since, progress)
        time = rule.base_at(target.frontier_time, arrival, token)
        priority = time + rule.offset
        base = rule.base
        if base is not FRONTIER:
            time = arrival
        if base is FRONTIER or base is ARRIVAL:
            local = frontier if frontier == frontier else arrival
        elif base is CONSTANT:
            local = 0.0  # no opinion: in order of arrival
        return _new_context(
            PriorityContext,
            (next(self._ids), local, priority, frontier, time, self.target, token),
        )

    def _refresh(self, target: _Target) -> PriorityRule:
        """The rule for the situation as it is now. A perturbed one is drawn for each message: a
        single draw would shift all messages of a stage alike, and leave their order as it is."""
        line = self._progress.line()
        target.age = 0
        # Costs that drift by less than `_differ` at a time must still reach the rule.
        same = line is target.line and target.reply is target.compiled
        if target.rule is not None and same and self._perturb is None:
            return target.rule  # nothing has moved
        cost, path_cost = target.reply.cost, target.reply.path_cost
        if self._perturb is not None:
            cost = self._perturb(cost)
        situation = Situation(self.target, cost, path_cost, target.window, line)
        target.rule = rule = self._policy.rule(situation)
        target.line, target.compiled = line, target.reply
        target.forget_frontier()
        return rule

    def _target(self, stage: str) -> _Target:
        try:
            return self._targets[stage]
        except KeyError:
            sender = self.stage if self.stage is not None else "the source"
            raise UnknownOperatorError(
                f"{sender!r} of job {self.job.name!r} does not send to {stage!r}; "
                f"it sends to {', '.join(self._targets) or 'nothing'}"
            ) from None
