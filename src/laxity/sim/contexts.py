"""The core's converters at work in a simulated job.

One converter for each stage: the operators of a stage cost the same on average, so they share
what was learnt. Replies travel in no time, and once a profile has settled only every
`_SAMPLE`-th message is measured; both are cheaper to simulate and change priorities by
microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from laxity.core.contexts import Message as CoreMessage
from laxity.core.contexts import PriorityContext, SourceEvent
from laxity.core.converter import ContextConverter
from laxity.core.costs import Perturbation
from laxity.core.frontier import LowWatermark
from laxity.core.jobs import Job, OperatorId
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
        self._low = LowWatermark(sources)

        def ingestion() -> ContextConverter:
            bucket = TokenBucket(tokens) if policy.needs_tokens and tokens is not None else None
            return ContextConverter(
                job, None, policy, self._progress, ids, tokens=bucket, perturb=perturb
            )

        # Each source draws from its own bucket; without buckets one converter serves them all.
        shared = None if policy.needs_tokens else ingestion()
        self.sources = {
            op: SourceContexts(self._low, self._progress, op, shared or ingestion())
            for op in sources
        }
        self._measured = dict.fromkeys(job.stages, 0)
        self._stages = {
            stage: ContextConverter(job, stage, policy, self._progress, ids, perturb=perturb)
            for stage in job.stages
        }
        self._senders: dict[str, list[ContextConverter]] = {
            stage: [self._stages[up] for up in job.upstream[stage]] for stage in job.stages
        }
        for stage in job.sources:
            own = [s.converter for op, s in self.sources.items() if op.stage == stage]
            self._senders[stage] += own if shared is None else [shared]

    def at_operator(self, done: CoreMessage, target: str) -> PriorityContext:
        return self._stages[done.operator.stage].build_at_operator(done, target)

    def learn(self, stage: str, cost: float) -> None:
        self._measured[stage] = measured = self._measured[stage] + 1
        if measured > _SETTLED and measured % _SAMPLE:
            return
        converter = self._stages[stage]
        converter.cost.update(cost)
        reply = converter.prepare_reply()
        for sender in self._senders[stage]:
            sender.process_reply(stage, reply)


class SourceContexts:
    """One source's door into the core: notes its progress and builds its contexts."""

    __slots__ = ("_low", "_progress", "_source", "_stage", "converter")

    def __init__(
        self,
        low: LowWatermark,
        progress: ProgressMap,
        source: OperatorId,
        converter: ContextConverter,
    ) -> None:
        self._low = low
        self._progress = progress
        self._source = source
        self._stage = source.stage
        self.converter = converter

    def build(self, progress: float, since: float, arrival: float) -> PriorityContext:
        if self._low.advance(self._source, progress):
            self._progress.observe(self._low.progress, arrival)
        return self.converter.build_at_source(SourceEvent(progress, arrival, since), self._stage)
