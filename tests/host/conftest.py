from __future__ import annotations

import os

import pytest

from laxity.host.entities import Deployment, LogicalOperator, PhysicalOperator, Query, Thread


@pytest.fixture(scope="session", autouse=True)
def ordinary_priority() -> None:
    """Processes the tests start inherit this one's nice value; the tests expect 0."""
    if os.geteuid() == 0:
        os.setpriority(os.PRIO_PROCESS, 0, 0)


def thread(tid: int, pid: int = 1, started: int = 0) -> Thread:
    return Thread(pid, tid, started, f"t{tid}")


@pytest.fixture
def figure_2() -> Deployment:
    """The paper's Figure 2: C, D and E fused, F replicated twice, branch 1 = C, D, E, G."""
    downstream = {
        "A": ("B",),
        "B": ("C", "F"),
        "C": ("D",),
        "D": ("E",),
        "E": ("G",),
        "G": (),
        "F": ("H",),
        "H": (),
    }
    physical = {
        "A": "A",
        "B": "B",
        "CDE": "CDE",
        "F1": "F",
        "F2": "F",
        "G": "G",
        "H": "H",
    }
    return Deployment(
        "e",
        (Query("q", "e"),),
        tuple(LogicalOperator(op, "q", down) for op, down in downstream.items()),
        tuple(
            PhysicalOperator(f"e/q/{op}", "q", tuple(logical), (thread(10 + i),))
            for i, (op, logical) in enumerate(physical.items())
        ),
    )
