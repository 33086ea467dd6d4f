"""The core's converters at work in a simulated job.

One converter for each stage: the operators of a stage cost the same on average, so they share
what was learnt. Replies travel in no time, and once a profile has settled only every
`_SAMPLE`-th message is measured; both are cheaper to simulate and change priorities by
microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from laxity.core.contexts import Arrived, PriorityContext
from laxity.core.contexts import Message as CoreMessage
from laxity.core.converter import ContextConverter
from laxity.core.costs import Perturbation
from laxity.core.frontier import LowWatermark
from laxity.core.jobs import Job
from laxity.core.policies.api import Policy
from laxity.core.progress import ProgressMap, progress_map
from laxity.core.tokens import TokenBucket

_SAMPLE = 8
_SETTLED = 32


class JobContexts:
    """Everything of the core that one job needs: converters, progress map, low watermark."""

    def __init__(
        self,
        job: Job,
        policy: Policy,
        ids: Iterator[int],
        *,
        tokens: float | None = None,
        perturb: Perturbation | None = None,
    ) -> None:
        self._job = job
        self._progress = progress_map(job.time_domain)
        sources = [op for op in job.operators() if op.stage in job.sources]
        low = LowWatermark(range(len(sources)))  # numbers, because names take long to hash

        def ingestion() -> ContextConverter:
            bucket = TokenBucket(tokens) if policy.needs_tokens and tokens is not None else None
            return ContextConverter(
                job, None, policy, self._progress, ids, tokens=bucket, perturb=perturb
            )

        # Each source draws from its own bucket; without buckets one converter serves them all.
        shared = None if policy.needs_tokens else ingestion()
        self.sources = {
            op: SourceContexts(low, self._progress, number, op.stage, shared or ingestion())
            for number, op in enumerate(sources)
        }
        self._stages = {
            stage: ContextConverter(job, stage, policy, self._progress, ids, perturb=perturb)
            for stage in job.stages
        }
        self.profiles: dict[str, StageProfile] = {}
        for stage in job.stages:
            senders = [self._stages[up] for up in job.upstream[stage]]
            if stage in job.sources:
                own = [s.converter for op, s in self.sources.items() if op.stage == stage]
                senders += own if shared is None else [shared]
            self.profiles[stage] = StageProfile(stage, self._stages[stage], senders)

    def at_operator(self, done: CoreMessage, target: str) -> PriorityContext:
        return self._stages[done.operator.stage].build_at_operator(done, target)


class StageProfile:
    """What a stage costs, and who is told."""

    __slots__ = ("_converter", "_measured", "_senders", "_stage")

    def __init__(
        self, stage: str, converter: ContextConverter, senders: list[ContextConverter]
    ) -> None:
        self._stage = stage
        self._converter = converter
        self._senders = senders
        self._measured = 0

    def learn(self, cost: float) -> None:
        self._measured = measured = self._measured + 1
        if measured > _SETTLED and measured % _SAMPLE:
            return
        converter = self._converter
        converter.cost.update(cost)
        reply = converter.prepare_reply()
        for sender in self._senders:
            sender.process_reply(self._stage, reply)


class SourceContexts:
    """One source's door into the core: notes its progress and builds its contexts."""

    __slots__ = ("_low", "_number", "_progress", "_stage", "converter")

    def __init__(
        self,
        low: LowWatermark,
        progress: ProgressMap,
        number: int,
        stage: str,
        converter: ContextConverter,
    ) -> None:
        self._low = low
        self._progress = progress
        self._number = number
        self._stage = stage
        self.converter = converter

    def build(self, message: Arrived) -> PriorityContext:
        if self._low.advance(self._number, message.progress):
            self._progress.observe(self._low.progress, message.arrival)
        return self.converter.build_at_source(message, self._stage)
