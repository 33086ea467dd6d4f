"""Figure 4: two dataflows on one worker, four schedules.

The paper draws the example and gives one of its numbers: ddl_M2 = 30 + 50 − 20 = 60. The others
are ours, chosen so that the example shows what the paper's does. Priorities come from the core's
LLF, the order of schedules c and d from the core's queue.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from laxity.core.policies.api import Situation
from laxity.core.policies.deadline import LeastLaxityFirst
from laxity.core.progress import IDENTITY
from laxity.core.queue import TwoLevelQueue
from laxity.core.rules import Facts
from laxity.core.windows import Window
from laxity.sim.reproduce import plots
from laxity.sim.reproduce.report import Claim, Report, Row
from laxity.sim.reproduce.runner import Bench


class Work(NamedTuple):
    name: str
    job: str
    arrival: float


class Flow(NamedTuple):
    target: float
    cost: float
    window: Window | None = None


FLOWS = {
    "J1": Flow(target=67.0, cost=35.0, window=Window.tumbling(100.0)),
    "J2": Flow(target=50.0, cost=20.0),
}
# M1 and M2 arrive together, M1 first.
WORK = (
    Work("M1", "J1", 30.0),
    Work("M2", "J2", 30.0),
    Work("M3", "J1", 30.0),
    Work("M4", "J2", 40.0),
)

Run = tuple[Work, float]
"""A message and when it started."""


def deadline(work: Work, semantics: bool) -> float:
    flow = FLOWS[work.job]
    window = flow.window if semantics else None
    situation = Situation(flow.target, flow.cost, 0.0, window, IDENTITY)
    return LeastLaxityFirst().rule(situation).evaluate(Facts(work.arrival, work.arrival))


def by_deadline(semantics: bool) -> list[Run]:
    queue: TwoLevelQueue[Work] = TwoLevelQueue()
    for job in FLOWS:
        queue.add_operator(job)
    coming = deque(sorted(WORK, key=lambda w: w.arrival))
    runs: list[Run] = []
    now = 0.0
    while coming or len(queue):
        while coming and coming[0].arrival <= now:
            work = coming.popleft()
            queue.push(work.job, work, work.arrival, deadline(work, semantics))
        chosen = queue.pop()
        if chosen is None:
            now = coming[0].arrival
            continue
        runs.append((chosen[1], now))
        now += FLOWS[chosen[1].job].cost
        queue.release(chosen[0])
    return runs


def by_arrival(quantum: float) -> list[Run]:
    """Operators in order of arrival, each for a quantum: what Orleans does by default."""
    coming = deque(sorted(WORK, key=lambda w: w.arrival))
    mail: dict[str, deque[Work]] = {job: deque() for job in FLOWS}
    ready: deque[str] = deque()
    runs: list[Run] = []
    now, held = 0.0, 0.0
    current: str | None = None

    def admit() -> None:
        while coming and coming[0].arrival <= now:
            work = coming.popleft()
            if not mail[work.job] and work.job != current:
                ready.append(work.job)
            mail[work.job].append(work)

    admit()
    while coming or ready or (current and mail[current]):
        if current is not None and (not mail[current] or now - held >= quantum):
            if mail[current]:
                ready.append(current)
            current = None
        if current is None:
            if not ready:
                now = coming[0].arrival
                admit()
                continue
            current, held = ready.popleft(), now
        work = mail[current].popleft()
        runs.append((work, now))
        now += FLOWS[current].cost
        admit()
    return runs


def violations(runs: list[Run], job: str = "J2") -> int:
    flow = FLOWS[job]
    return sum(
        start + flow.cost > work.arrival + flow.target for work, start in runs if work.job == job
    )


class ScheduleExample(NamedTuple):
    name: str = "4"
    title: str = "the schedule example"

    def run(self, bench: Bench) -> Report:
        schedules = {
            "a: by arrival, small quantum": by_arrival(1.0),
            "b: by arrival, large quantum": by_arrival(1000.0),
            "c: knows the topology": by_deadline(semantics=False),
            "d: knows the semantics": by_deadline(semantics=True),
        }
        rows: list[Row] = [
            {"schedule": name, "message": work.name, "job": work.job, "start": start,
             "end": start + FLOWS[work.job].cost}
            for name, runs in schedules.items()
            for work, start in runs
        ]  # fmt: skip
        missed = [violations(runs) for runs in schedules.values()]
        first = deadline(WORK[1], semantics=False)
        report = Report(self.name, self.title, rows, [
            Claim("start deadline of M2", 60.0, first, first == 60.0),
            Claim("violations of J2 in schedules a and b", "2 and 2",
                  f"{missed[0]} and {missed[1]}", missed[:2] == [2, 2]),
            Claim("violations in c, in d", "fewer, still fewer", f"{missed[2]}, {missed[3]}",
                  missed[3] < missed[2] < missed[1]),
        ])  # fmt: skip
        path = bench.out / f"{self.name}.png"
        with plots.figure(
            path, 1, title=f"Figure 4: {self.title}", width=8.0, claims=report.claims
        ) as (axis,):
            _draw(axis, schedules)
        report.files.append(path)
        return report


def _draw(axis: Any, schedules: dict[str, list[Run]]) -> None:
    """A line for each schedule, as the paper draws them; dotted where a result of J2 is due."""
    seen: set[str] = set()
    for line, runs in enumerate(schedules.values()):
        for work, start in runs:
            flow = FLOWS[work.job]
            late = work.job == "J2" and start + flow.cost > work.arrival + flow.target
            label = f"{work.job}, too late" if late else work.job
            axis.barh(
                -line,
                flow.cost,
                0.6,
                left=start,
                edgecolor="#c8553d" if late else "white",
                linewidth=2.5,
                color="#9db4d8" if work.job == "J1" else "#7fc4a8",
                label=None if label in seen else label,
            )
            seen.add(label)
            axis.text(start + flow.cost / 2, -line, work.name, ha="center", va="center", fontsize=9)
    for work in WORK:
        if work.job == "J2":
            due = work.arrival + FLOWS["J2"].target
            axis.axvline(due, color="#0b6e4f", linestyle=":", linewidth=1.2)
            side = "right" if work.name == "M2" else "left"
            axis.text(due, 0.45, f" {work.name} due ", ha=side, fontsize=8, color="#0b6e4f")
    axis.set_yticks([-line for line in range(len(schedules))], list(schedules), fontsize=9)
    axis.set_ylim(-len(schedules) + 0.4, 0.75)
    axis.set_xlim(25, 175)
    axis.set_xlabel("time")
    axis.legend(fontsize=8, loc="center right")


EXPERIMENTS = (ScheduleExample(),)
