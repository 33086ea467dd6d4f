"""Runs the points of an experiment, on several processes where there are several."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

from laxity.sim.reproduce.report import Report


class Experiment(Protocol):
    """A figure, or a check of our own."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    def run(self, bench: Bench) -> Report: ...


@dataclass(slots=True)
class Bench:
    """What an experiment runs on. Points are functions of plain arguments, each a run of its own
    with the same seed: their order does not matter."""

    out: Path
    quick: bool = False
    seed: int = 1
    processes: int = 1
    on_point: Callable[[int, int], None] = lambda done, total: None
    _pool: ProcessPoolExecutor | None = field(default=None, repr=False)

    def pick(self, full: Any, quick: Any) -> Any:
        return quick if self.quick else full

    def compute(
        self, function: Callable[..., Any], points: Mapping[Any, tuple[Any, ...]]
    ) -> dict[Any, Any]:
        """function(*arguments) for each point, by key, in the order of `points`."""
        self.on_point(0, len(points))
        if self.processes == 1:
            results = {}
            for key, arguments in points.items():
                results[key] = function(*arguments)
                self.on_point(len(results), len(points))
            return results
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self.processes, mp_context=get_context("spawn"))
        futures: dict[Future[Any], Hashable] = {
            self._pool.submit(function, *arguments): key for key, arguments in points.items()
        }
        found: dict[Hashable, Any] = {}
        for future in as_completed(futures):
            found[futures[future]] = future.result()
            self.on_point(len(found), len(points))
        return {key: found[key] for key in points}

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def run(self, experiment: Experiment) -> Report:
        started = time.perf_counter()
        self.out.mkdir(parents=True, exist_ok=True)
        report = experiment.run(self)
        report.write_csv(self.out)
        report.seconds = time.perf_counter() - started
        return report
