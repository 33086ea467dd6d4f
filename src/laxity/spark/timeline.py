"""What ran and what waited, as bars of a timeline.

A busy second has hundreds of tasks and a screen a thousand pixels: what could not be seen is left
out, so that a look stays cheap for the driver and for the browser.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from laxity.server.views import Bar
from laxity.spark.batches import Phase, names
from laxity.spark.model import QueryModel

MOST = 4000
_PIXELS = 4000
"""A bar that takes less than this part of the span is narrower than any screen's pixel."""


def bars(
    models: Iterable[QueryModel], now: float, seconds: float, known: Mapping[str, str]
) -> tuple[Bar, ...]:
    """The newest ones, in order of their start."""
    since, least = now - seconds, max(0.001, seconds / _PIXELS)
    found = [bar for model in models for bar in _bars(model, since, least, known)]
    found.sort(key=lambda bar: bar.start)
    return tuple(found[-MOST:])


def _bars(model: QueryModel, since: float, least: float, known: Mapping[str, str]) -> Iterator[Bar]:
    """Held, waiting and the whole for a batch; running for each of its tasks."""
    query, tenant = model.name, model.tenant
    for batch, stages in model.history:
        if batch.ended < since:
            continue
        number = batch.batch
        if batch.held > least:
            held = batch.started - batch.held
            yield Bar(query, tenant, Phase.HELD.value, held, batch.started, number)
        yield Bar(query, tenant, "batch", batch.started, batch.ended, number)
        for stage in stages:
            where = str(stage.stage)
            if stage.launched - stage.submitted > least:
                blocked = sorted(stage.behind, key=lambda q: -stage.behind[q])
                yield Bar(
                    *(query, tenant, Phase.WAITING.value, stage.submitted, stage.launched, number),
                    stage=where,
                    tasks=stage.tasks,
                    behind=tuple(names(dict.fromkeys(blocked, 0.0), known)),
                )
            for run in stage.task_runs():
                if run.end - run.start > least:
                    yield Bar(
                        *(query, tenant, Phase.RUNNING.value, run.start, run.end, number),
                        stage=f"{where} on {run.executor}",
                    )
