"""The core's converters at work in a simulated job.

One converter for each source, which learns what its own operator costs: sources may differ by any
factor. Beyond them one for each stage, whose operators cost the same on average and share what was
learnt. Replies travel in no time, and once a profile has settled only every `_SAMPLE`-th message is
measured; both are cheaper to simulate and change priorities by microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from laxity.core.contexts import Arrived, PriorityContext, ReplyContext
from laxity.core.contexts import Message as CoreMessage
from laxity.core.converter import ContextConverter
from laxity.core.costs import CostProfile, Perturbation
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
        low = LowWatermark(range(len(sources)))  # numbers, because names take long to hash

        def ingestion() -> ContextConverter:
            bucket = TokenBucket(tokens) if policy.needs_tokens and tokens is not None else None
            return ContextConverter(
                job, None, policy, self._progress, ids, tokens=bucket, perturb=perturb
            )

        self.sources = {
            op: SourceContexts(low, self._progress, number, op.stage, ingestion())
            for number, op in enumerate(sources)
        }
        self._stages = {
            stage: ContextConverter(job, stage, policy, self._progress, ids, perturb=perturb)
            for stage in job.stages
        }
        self._inner = {
            stage: CostReports(
                stage, self._stages[stage], [self._stages[up] for up in job.upstream[stage]]
            )
            for stage in job.stages
        }

    def reports(self, operator: OperatorId) -> CostReports:
        """Where what messages cost at `operator` is to be noted."""
        source = self.sources.get(operator)
        if source is None:
            return self._inner[operator.stage]
        return CostReports(operator.stage, self._stages[operator.stage], [source.converter])

    def at_operator(self, done: CoreMessage, target: str) -> PriorityContext:
        return self._stages[done.operator.stage].build_at_operator(done, target)


class CostReports:
    """What messages cost at an operator, or at any of a stage, and who is told."""

    __slots__ = ("_converter", "_cost", "_measured", "_senders", "_stage")

    def __init__(
        self, stage: str, converter: ContextConverter, senders: list[ContextConverter]
    ) -> None:
        self._stage = stage
        self._cost = CostProfile()
        self._converter = converter
        self._senders = senders
        self._measured = 0

    def learn(self, cost: float) -> None:
        self._measured = measured = self._measured + 1
        if measured > _SETTLED and measured % _SAMPLE:
            return
        self._cost.update(cost)
        reply = ReplyContext(self._cost.mean, self._converter.prepare_reply().path_cost)
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
