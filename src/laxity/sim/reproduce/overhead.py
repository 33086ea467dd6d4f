"""Figure 12: what scheduling costs. Measured on the real core with a real clock, not simulated.

Rounds of the variants are interleaved and medians taken, so that a noisy machine disturbs all
alike.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from itertools import count
from statistics import median
from typing import NamedTuple

from laxity.core.contexts import SourceEvent
from laxity.core.converter import ContextConverter
from laxity.core.jobs import Job, Stage
from laxity.core.policies.deadline import LeastLaxityFirst
from laxity.core.progress import EventTimeMap
from laxity.core.queue import TwoLevelQueue
from laxity.core.windows import Window
from laxity.sim.reproduce import plots
from laxity.sim.reproduce.report import Claim, Report, Row
from laxity.sim.reproduce.runner import Bench
from laxity.sim.workloads import COST

TENANTS = 320
"""The paper saturates one thread with 300 to 350 tenants."""

BATCHES = (1, 100, 1000, 5000, 20_000)

Round = Callable[[int], None]


def fifo_round() -> Round:
    mail: list[deque[int]] = [deque() for _ in range(TENANTS)]
    ready: deque[int] = deque()

    def run(messages: int) -> None:
        for n in range(messages):
            tenant = n % TENANTS
            mail[tenant].append(n)
            ready.append(tenant)
        while ready:
            mail[ready.popleft()].popleft()

    return run


def queue_round() -> Round:
    """Priority scheduling alone: priorities are there already."""
    queue: TwoLevelQueue[int] = TwoLevelQueue()
    for tenant in range(TENANTS):
        queue.add_operator(tenant)

    def run(messages: int) -> None:
        for n in range(messages):
            queue.push(n % TENANTS, n, float(n), float(n))
        while (chosen := queue.pop()) is not None:
            queue.release(chosen[0])

    return run


def cameo_round() -> Round:
    """Priority scheduling and priority generation (LLF)."""
    queue: TwoLevelQueue[int] = TwoLevelQueue()
    ids = count()
    converters = []
    for tenant in range(TENANTS):
        queue.add_operator(tenant)
        job = Job.of(f"job{tenant}", 0.8, [Stage("no-op", 1, Window.tumbling(1.0))])
        progress = EventTimeMap()
        for n in range(8):
            progress.observe(float(n), n + 0.05)
        converters.append(ContextConverter(job, None, LeastLaxityFirst(), progress, ids))

    def run(messages: int) -> None:
        for n in range(messages):
            tenant = n % TENANTS
            now = float(n // TENANTS)
            event = SourceEvent(now, now + 0.05, now - 1.0)
            context = converters[tenant].build_at_source(event, "no-op")
            queue.push(tenant, n, context.local, context.priority)
        while (chosen := queue.pop()) is not None:
            queue.release(chosen[0])

    return run


def local_aggregation(batch: int) -> Callable[[], None]:
    """The operator of the paper's figure 12, right: sums by key, columnar, in numpy, on a message
    that comes as bytes."""
    import numpy as np

    random = np.random.default_rng(1)
    keys = random.integers(0, 250, batch).astype(np.int64).tobytes()
    values = random.random(batch).tobytes()
    state = np.zeros(250)

    def run() -> None:
        nonlocal state
        key = np.frombuffer(keys, dtype=np.int64)
        value = np.frombuffer(values)
        state = state + np.bincount(key, weights=value, minlength=250)

    return run


def per_message(
    round_of: dict[str, Callable[[int], None]], messages: int, rounds: int
) -> dict[str, float]:
    """Median seconds a message for each variant."""
    found: dict[str, list[float]] = {name: [] for name in round_of}
    for run in round_of.values():
        run(messages)  # warm up
    for _ in range(rounds):
        for name, run in round_of.items():
            started = time.perf_counter()
            run(messages)
            found[name].append((time.perf_counter() - started) / messages)
    return {name: median(times) for name, times in found.items()}


def _repeat(work: Callable[[], None]) -> Round:
    def run(times: int) -> None:
        for _ in range(times):
            work()

    return run


class Overhead(NamedTuple):
    name: str = "12"
    title: str = "scheduling overhead of the core, measured"

    def run(self, bench: Bench) -> Report:
        rounds = bench.pick(15, 5)
        bench.on_point(0, 2)
        costs = per_message(
            {"fifo": fifo_round(), "queue": queue_round(), "cameo": cameo_round()},
            TENANTS * 20,
            rounds,
        )
        bench.on_point(1, 2)
        work = per_message(
            {str(batch): _repeat(local_aggregation(batch)) for batch in BATCHES}, 200, rounds
        )
        bench.on_point(2, 2)
        scheduling = costs["queue"] - costs["fifo"]
        generation = costs["cameo"] - costs["queue"]
        extra = scheduling + generation
        rows: list[Row] = [
            {"what": name, "us_a_message": cost * 1e6} for name, cost in costs.items()
        ]
        shares = {}
        for batch, cost in work.items():
            shares[int(batch)] = extra / (cost + extra)
            rows.append({"what": f"local aggregation, batch {batch}", "us_a_message": cost * 1e6,
                         "overhead_share": shares[int(batch)]})  # fmt: skip
        of_batch_1 = extra / (COST.of(1) + extra)
        why = (
            f"both cost {extra * 1e6:.1f} us here. The paper's shares are of 3 ms (one thread is "
            "full at 300 to 350 no-op messages a second), so its scheduling costs some 200 us"
        )
        report = Report(self.name, self.title, rows, [
            Claim("priority scheduling, of a no-op message of the paper's system", 0.04,
                  scheduling / (COST.fixed + extra), 0 < scheduling < 0.15 * COST.fixed, "%", why),
            Claim("priority generation, of a no-op message of the paper's system", 0.11,
                  generation / (COST.fixed + extra), 0 < generation < 0.15 * COST.fixed, "%", why),
            Claim("overhead of a local aggregation with batch 1, as simulated (3 ms)", 0.064,
                  of_batch_1, of_batch_1 < 0.15, "%", why),
            Claim("the same beside nothing but one call of numpy", "no such figure",
                  f"{shares[1]:.0%}", True, comparable=False),
            Claim("overhead falls with batch size", "yes",
                  ", ".join(f"{b}: {s:.1%}" for b, s in shares.items()),
                  shares[1] > shares[1000] > shares[20_000]),
        ], "Measured on the core with a real clock. The paper divides by what a message costs in "
           "Orleans and Trill, which the simulated costs take from it; a single call of numpy is "
           "far cheaper than such a message, and than a priority computed in Python.")  # fmt: skip
        path = bench.out / f"{self.name}.png"
        with plots.figure(path, 2, title=f"Figure 12: {self.title}", claims=report.claims) as axes:
            axes[0].bar(list(costs), [cost * 1e6 for cost in costs.values()], color="#0b6e4f")
            axes[0].set_ylabel("us a message (no-op)")
            axes[1].plot(list(shares), list(shares.values()), "o-", color="#0b6e4f")
            axes[1].set_xscale("log")
            axes[1].set_xlabel("batch size of a local aggregation")
            axes[1].set_ylabel("share of overhead")
        report.files.append(path)
        return report


EXPERIMENTS = (Overhead(),)
