"""`laxity demo --virtual`: a scheduling contest on the core alone, in virtual time.

The same tenants and the same arrivals on two workers, four ways: in order of arrival, in short and
in long turns, and by deadline. Nothing is tuned to a tenant; each states its target, that is all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles

from rich.console import Console
from rich.table import Table

from laxity.bench.report import write_json
from laxity.core.contexts import Message
from laxity.core.durations import format_duration
from laxity.core.events import EventsArrived, JobAdded
from laxity.core.fairshare import FairShareQueue
from laxity.core.jobs import Job, OperatorId, Stage
from laxity.core.policies import FirstInFirstOut, LeastLaxityFirst
from laxity.core.scheduler import Scheduler
from laxity.core.windows import Window
from laxity.testing import VirtualNode

WORKERS = 2
SECONDS = 120.0
ALERTS = [Job.of(f"alerts-{i}", "400ms", [Stage("detect"), Stage("notify")]) for i in range(4)]
BULK = [
    Job.of(f"bulk-{i}", "2h", [Stage("parse"), Stage("sum", window=Window.tumbling("10s"))])
    for i in range(6)
]
COST = {"detect": 0.012, "notify": 0.003, "parse": 0.060, "sum": 0.015}
ALERT_EVERY, BULK_EVERY, BULK_BURST = 0.1, 2.0, 6
"""Bulk sources deliver in bursts, as files and micro-batches do."""


@dataclass(frozen=True, slots=True)
class Outcome:
    order: str
    p50: float
    p99: float
    met: float
    bulk_messages: int


def _arrivals(rng: random.Random) -> Iterator[tuple[float, EventsArrived]]:
    for job in ALERTS:
        for i in range(int(SECONDS / ALERT_EVERY)):
            now = (i + rng.random()) * ALERT_EVERY
            yield now, EventsArrived(OperatorId(job.name, "detect"), now)
    for job in BULK:
        for i in range(int(SECONDS / BULK_EVERY)):
            now = i * BULK_EVERY + 0.2 * rng.random()
            for part in range(BULK_BURST):
                progress = now - BULK_EVERY * (1 - (part + 1) / BULK_BURST)
                yield now, EventsArrived(OperatorId(job.name, "parse"), progress)


def _next_stage(message: Message) -> list[OperatorId]:
    job, stage, _ = message.operator
    following = {"detect": "notify", "parse": "sum"}.get(stage)
    return [] if following is None else [OperatorId(job, following)]


def contest(order: str, scheduler: Scheduler, seed: int) -> Outcome:
    """Run the tenants once. Costs vary by a third, the same way in every run."""
    spread = random.Random(seed + 1)
    factors = [spread.uniform(0.67, 1.33) for _ in range(997)]

    def cost(message: Message) -> float:
        return COST[message.operator.stage] * factors[int(message.arrival * 1e6) % len(factors)]

    node = VirtualNode(scheduler, cost, _next_stage)
    for job in (*ALERTS, *BULK):
        node.at(0.0, JobAdded(job))
    for now, event in sorted(_arrivals(random.Random(seed)), key=lambda arrival: arrival[0]):
        node.at(now, event)
    done = node.run(until=SECONDS)
    latencies = sorted(c.latency for c in done if c.message.operator.stage == "notify")
    percentiles = quantiles(latencies, n=100)
    target = ALERTS[0].target
    return Outcome(
        order=order,
        p50=percentiles[49],
        p99=percentiles[98],
        met=sum(latency <= target for latency in latencies) / len(latencies),
        bulk_messages=sum(c.message.operator.stage == "parse" for c in done),
    )


def run(*, seed: int, json: Path | None) -> None:
    fifo = FirstInFirstOut()
    orders = {
        "FIFO": Scheduler(fifo, WORKERS, quantum=0.0),
        "turns, 1 message": Scheduler(fifo, WORKERS, quantum=0.0, queue=FairShareQueue()),
        "turns, 100 ms": Scheduler(fifo, WORKERS, quantum=0.1, queue=FairShareQueue()),
        "deadlines": Scheduler(LeastLaxityFirst(), WORKERS),
    }
    outcomes = [contest(order, scheduler, seed) for order, scheduler in orders.items()]
    console = Console()
    alert_target, bulk_target = (format_duration(jobs[0].target) for jobs in (ALERTS, BULK))
    console.print(
        f"{len(ALERTS)} alert pipelines (target {alert_target}) share {WORKERS} workers with "
        f"{len(BULK)} bulk aggregations (target {bulk_target}), {SECONDS:g} s of virtual time."
    )
    table = Table("order", *(f"alerts {c}" for c in ("p50", "p99", "in time")), "bulk messages")
    for outcome in outcomes:
        table.add_row(
            outcome.order,
            format_duration(outcome.p50),
            format_duration(outcome.p99),
            f"{outcome.met:.1%}",
            f"{outcome.bulk_messages:,}",
        )
    console.print(table)
    if json is not None:
        write_json(
            json, {"command": f"laxity demo --seed {seed}", "rows": [asdict(o) for o in outcomes]}
        )
        console.print(f"written to {json}")
