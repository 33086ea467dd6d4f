"""The synthetic queries of Lachesis §6.4 under the operating system's default and under policies.

One warm engine runs one phase after the other; every round runs all modes at all loads, the modes
in a new order each time, so that what else happens on the machine hits them alike.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laxity.bench.host_engine import THREAD_PATTERN, SyntheticEngine
from laxity.host.binding import Binding
from laxity.host.drivers.api import Targets
from laxity.host.drivers.generic import GenericDriver
from laxity.host.drivers.pages import PageReader
from laxity.host.journal import Journal
from laxity.host.kernel import Kernel
from laxity.host.notices import Notices
from laxity.host.policies import make_policy
from laxity.host.runner import HostRunner, prefer_this_process
from laxity.host.schedule import GroupBy
from laxity.host.translators import make_translator
from laxity.host.translators.api import Tools

DEFAULT = "os"
MODES = (DEFAULT, "qs", "fcfs", "hr", "random", "laxity")
LOADS = (0.6, 0.8, 0.95, 1.1, 1.3)
TARGETS = (0.5, 10.0)
"""Seconds; given to the pipelines in turn, so that half of them are urgent."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Contest:
    loads: Sequence[float] = LOADS
    modes: Sequence[str] = MODES
    blocking: bool = False
    rounds: int = 1
    settle: float = 5.0
    """Seconds until the queues are as full as they get."""
    seconds: float = 8.0
    period: float = 1.0
    translator: str = "nice"
    seed: int = 1

    @property
    def phases(self) -> int:
        return self.rounds * len(self.loads) * len(self.modes)

    def run(self, say: Callable[[str], None]) -> Iterator[Row]:
        order = random.Random(time.time_ns())
        with (
            tempfile.TemporaryDirectory(prefix="laxity-host-") as folder,
            SyntheticEngine(Path(folder, "metrics.json"), seed=self.seed) as engine,
        ):
            prefer_this_process()  # in every mode, after the engine was started
            self._phase(engine, self.loads[0], DEFAULT, say)  # warms the engine up
            for _ in range(self.rounds):
                for load in self.loads:
                    for mode in order.sample(self.modes, len(self.modes)):
                        yield self._undisturbed(engine, load, mode, say)

    def _undisturbed(
        self, engine: SyntheticEngine, load: float, mode: str, say: Callable[[str], None]
    ) -> Row:
        """A machine that stood still for a while has measured nothing: once more."""
        for _ in range(3):
            row = self._phase(engine, load, mode, say)
            if row["overrun"] < 1.0:
                return row
            say(f"the machine stood still for {row['overrun']:.0f} s; this phase is repeated")
        return row

    def _phase(
        self, engine: SyntheticEngine, load: float, mode: str, say: Callable[[str], None]
    ) -> Row:
        def measure() -> Row:
            before, began = time.process_time(), time.monotonic()
            result = engine.run(
                engine.rate(load),
                settle=self.settle,
                seconds=self.seconds,
                blocking=self.blocking,
                targets=TARGETS,
            )
            own = (time.process_time() - before) / (time.monotonic() - began)
            return {
                "mode": mode,
                "load": load,
                "blocking": self.blocking,
                "translator": self.translator if mode != DEFAULT else None,
                "period": self.period,
                "rate": engine.rate(load),
                "own_cpu": own,
                **result,
            }

        if mode == DEFAULT:
            return measure()
        with host_for(engine, mode, self.translator, self.period, say) as runner:
            runner.start()
            return measure()


def measure_cost(seconds: float, translator: str, say: Callable[[str], None]) -> Iterator[Row]:
    """CPU of this whole process, threads of drivers included, once everything is set up."""
    with (
        tempfile.TemporaryDirectory(prefix="laxity-cost-") as folder,
        SyntheticEngine(Path(folder, "metrics.json")) as engine,
    ):
        prefer_this_process()
        for policy in MODES[1:]:
            with host_for(engine, policy, translator, 1.0, say) as runner:
                yield _measure_pass(engine, runner, policy, translator, seconds)


def _measure_pass(
    engine: SyntheticEngine, runner: HostRunner, policy: str, translator: str, seconds: float
) -> Row:
    settle = 2.0
    marks: list[tuple[float, float]] = []

    def mark() -> None:
        marks.append((time.process_time(), time.monotonic()))

    timer = threading.Timer(settle + 0.5, mark)
    timer.start()
    runner.start()
    engine.run(engine.rate(0.6), settle=settle, seconds=seconds, blocking=False, targets=TARGETS)
    mark()
    (before, began), (after, ended) = marks
    own = (after - before) / (ended - began)
    return {"policy": policy, "translator": translator, "own_cpu": own}


def host_for(
    engine: SyntheticEngine,
    mode: str,
    translator: str,
    period: float,
    say: Callable[[str], None],
) -> HostRunner:
    provides = ["queue_size", "records_in", "records_out", "head_age", "latency"]
    driver = GenericDriver(
        "synthetic",
        process=str(engine.metrics),
        thread=THREAD_PATTERN,
        page=PageReader(str(engine.metrics)),
        provides=provides,
        targets=Targets({f"q{p:02d}": TARGETS[p % len(TARGETS)] for p in range(100)}),
    )

    def bindings(kernel: Kernel, journal: Journal, notices: Notices) -> list[Binding]:
        tools = Tools(kernel, journal, notices, f"bench-{os.getpid()}")
        made = make_translator(translator, tools)
        policy = make_policy(mode)
        # With control groups each operator gets its own, as in §6.4.
        return [Binding(mode, policy, made, period=period, group_by=GroupBy.OPERATOR)]

    return HostRunner([driver], bindings, name=f"bench-{os.getpid()}", timeout=period, say=say)
