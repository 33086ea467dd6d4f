"""`lx.record(path)`: a run as a file that `laxity simulate` reads.

Appended every few seconds, so that a run that is killed leaves a recording up to then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

from laxity.recording import (
    LatencyRecord,
    QueryRecord,
    RateSample,
    StageRecord,
    WindowRecord,
    header_line,
    latency_line,
    query_line,
    rate_line,
)
from laxity.spark.model import QueryModel

SAMPLE_EVERY = 2.0


class Recorder:
    """Writes while its attachment ticks; `stop` (or leaving the `with` block) ends it."""

    def __init__(self, path: str | Path, on_stop: Callable[[Recorder], None]) -> None:
        self.path = Path(path)
        self._on_stop = on_stop
        self._file = self.path.open("w", encoding="utf-8")
        self._began: float | None = None
        self._last = 0.0

    def tick(self, models: Iterable[QueryModel], cores: int, now: float) -> None:
        if self._file.closed or cores == 0:
            return
        if self._began is None:
            self._began = self._last = now
            self._write([header_line(1, cores)])
        elif now - self._last >= SAMPLE_EVERY:
            self._last = now
            for model in models:
                if model.stages:
                    self._write(self._lines(model, now))

    def _lines(self, model: QueryModel, now: float) -> list[str]:
        assert self._began is not None
        rate = model.rate.per_second(now)
        lines = [
            query_line(_query(model)),
            rate_line(model.name, RateSample(round(now - self._began, 3), rate)),
        ]
        summary = model.log.summary(now, model.target, 0.0)
        if summary.p50 is not None and summary.p99 is not None and summary.met is not None:
            record = LatencyRecord(summary.count, summary.p50, summary.p99, summary.met)
            lines.append(latency_line(model.name, record))
        return lines

    def _write(self, lines: list[str]) -> None:
        self._file.write("".join(line + "\n" for line in lines))
        self._file.flush()

    def stop(self) -> None:
        if not self._file.closed:
            self._file.close()
            self._on_stop(self)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _query(model: QueryModel) -> QueryRecord:
    window = model.semantics.window if model.semantics else None
    positions = sorted(model.stages)
    last = positions[-1] if positions else ""
    rows = model.rows.mean
    return QueryRecord(
        name=model.name,
        tenant=model.tenant,
        target=model.target,
        batch_interval=max(model.interval.mean, 1e-3),
        window=None if window is None else WindowRecord(window.size, window.slide, window.delay),
        stages=tuple(
            StageRecord(
                name=at,
                parallelism=stage.tasks,
                cost_mean=stage.task.mean,
                cost_spread=stage.task.spread,
                rows_mean=rows / max(1, stage.tasks) if not stage.parents else 0.0,
                windowed=window is not None and at == last,
                after=stage.parents,
            )
            for at, stage in ((at, model.stages[at]) for at in positions)
        ),
    )
