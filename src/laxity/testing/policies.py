"""The contract of a policy. Subclass it, give it a policy, and let pytest collect it:

class TestMine(PolicyContract):
    def make_policy(self) -> Policy:
        return Mine()
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

from laxity.core.contexts import Message
from laxity.core.events import EventsArrived, JobAdded, JobRemoved, TargetChanged
from laxity.core.jobs import Job, OperatorId, Stage
from laxity.core.policies import Policy, Situation
from laxity.core.progress import ProgressLine
from laxity.core.rules import Facts, PriorityRule
from laxity.core.scheduler import Scheduler
from laxity.core.trace import Step, TracingScheduler, dump, load, replay
from laxity.core.windows import Window
from laxity.testing.node import VirtualNode

_EPOCH = 1_790_000_000.0
_COSTS = (0.0, 0.004, 2.5)
_TARGETS = (0.001, 0.8, 60.0, 7200.0)
_WINDOWS = (None, Window(10.0, 10.0), Window(60.0, 7.5, 1.0, 2.0))
_LINES = (None, ProgressLine(_EPOCH, _EPOCH + 2.0, 1.0), ProgressLine(_EPOCH, _EPOCH, 0.02))
_FACTS = (
    Facts(_EPOCH),
    Facts(_EPOCH + 0.5, _EPOCH - 3.0),
    Facts(_EPOCH + 9.0, _EPOCH + 9.0, _EPOCH + 8.75),
)


def situations(target: float) -> Iterator[Situation]:
    """A grid over what a policy can be asked about, corners included."""
    for cost, path, window, line in itertools.product(_COSTS, _COSTS, _WINDOWS, _LINES):
        yield Situation(target, cost, path, window, line)


class PolicyContract:
    """What a scheduler, and Spark's pool, rely on."""

    def make_policy(self) -> Policy:
        raise NotImplementedError("return the policy to test")

    def test_it_is_a_policy(self) -> None:
        policy = self.make_policy()
        assert isinstance(policy, Policy)
        assert policy.name
        assert policy.name == policy.name.strip().lower(), "names are found in lower case"
        assert isinstance(policy.needs_tokens, bool)

    def test_a_rule_follows_from_the_situation_alone(self) -> None:
        """No clock, no randomness, no memory: rules are compiled at any moment, in any order."""
        one, other = self.make_policy(), self.make_policy()
        for target in _TARGETS:
            for situation in situations(target):
                first = one.rule(situation)
                assert isinstance(first, PriorityRule)
                assert one.rule(situation) == other.rule(situation) == first

    def test_every_priority_can_be_ordered(self) -> None:
        policy = self.make_policy()
        for target in _TARGETS:
            for situation in situations(target):
                for facts in _FACTS:
                    assert not math.isnan(policy.rule(situation).evaluate(facts))

    def test_a_laxer_target_is_never_more_urgent(self) -> None:
        policy = self.make_policy()
        for tight, lax in itertools.pairwise(_TARGETS):
            for a, b in zip(situations(tight), situations(lax), strict=True):
                for facts in _FACTS:
                    assert policy.rule(a).evaluate(facts) <= policy.rule(b).evaluate(facts)

    def test_everything_runs_once(self) -> None:
        node, _ = self._mixed_load(seed=1)
        assert node.idle
        assert node.unserved == 0

    def test_operators_serve_the_head_of_the_queue(self) -> None:
        """Whenever a message starts on an idle worker, nothing more urgent was left waiting."""
        scheduler = Scheduler(self.make_policy(), workers=1, quantum=0.0)
        node = VirtualNode(scheduler, lambda message: 1.0)
        for name, target in (("tight", 1.0), ("lax", 100.0)):
            node.at(0.0, JobAdded(Job.of(name, target, [Stage("only")]), tokens=2.0))
        for i in range(6):
            for name in ("lax", "tight"):
                node.at(0.25 * i, EventsArrived(OperatorId(name, "only"), 0.25 * i))
        node.run()
        after_arrivals = [c for c in node.completed if c.started >= 1.5]
        for done, later in itertools.combinations(after_arrivals, 2):
            if done.message.operator != later.message.operator:
                assert done.message.context.priority <= later.message.context.priority

    def test_the_same_events_give_the_same_trace(self) -> None:
        _, first = self._mixed_load(seed=7)
        _, second = self._mixed_load(seed=7)
        assert list(dump(first)) == list(dump(second))

    def test_a_saved_trace_replays(self) -> None:
        _, steps = self._mixed_load(seed=3)
        replay(load(dump(steps)), Scheduler(self.make_policy(), workers=2))

    def _mixed_load(self, seed: int) -> tuple[VirtualNode, list[Step]]:
        """Windows and none, fan-out, jobs that leave and targets that change, two workers."""
        rng = random.Random(seed)
        tracing = TracingScheduler(Scheduler(self.make_policy(), workers=2))
        jobs = {
            job.name: job
            for job in (
                Job.of("alerts", 0.5, [Stage("parse", 2), Stage("sink")]),
                Job.of("bulk", 600, [Stage("parse"), Stage("sum", 2, Window.tumbling(5))]),
                Job.of("leaves", 60, [Stage("only")]),
            )
        }

        def emits(message: Message) -> list[OperatorId]:
            operator = message.operator
            downstream = jobs[operator.job].downstream[operator.stage]
            return [OperatorId(operator.job, stage) for stage in downstream]

        node = VirtualNode(tracing, lambda message: rng.uniform(0.01, 0.2), emits)
        for job in jobs.values():
            node.at(0.0, JobAdded(job, tokens=3.0))
        for i in range(120):
            source = rng.choice([op for job in jobs.values() for op in job.operators()])
            if source.stage in jobs[source.job].sources and (source.job != "leaves" or i < 80):
                node.at(0.1 * i, EventsArrived(source, 0.1 * i - rng.random(), 0.1 * i - 1.0))
        node.at(6.05, TargetChanged("bulk", 30.0))
        node.at(8.05, JobRemoved("leaves"))
        node.run()
        return node, tracing.steps
