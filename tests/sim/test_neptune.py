"""The fleet in virtual time does what the paper says it does, in its first minutes."""

from __future__ import annotations

import numpy as np
import pytest

from laxity.sim.fleet import DEPLOYED, NODES, FleetRun, Setup, node_cost, run_fleet
from laxity.sim.reproduce import neptune
from laxity.sim.reproduce.catalogue import choose


def run(**fields: object) -> FleetRun:
    setup = Setup(minutes=15.0, **fields)  # type: ignore[arg-type]
    names = ("migrate", "variable", "external", "even", "amplifier", "minutes", "seed")
    return run_fleet(*(getattr(setup, name) for name in names))


@pytest.mark.parametrize("fields", [{}, {"variable": True}, {"external": 0.4}])
def test_moves_bring_back_throughput_and_then_there_are_fewer(fields: dict[str, object]) -> None:
    still, moving = run(migrate=False, **fields), run(**fields)
    assert still.migrations == []
    assert moving.settled(moving.throughput) > 1.1 * still.settled(still.throughput)
    early = sum(at < 300 for at in moving.migrations)
    late = sum(at >= 600 for at in moving.migrations)
    assert early > late
    if "external" not in fields:  # there, use is even from the beginning; what it is for is not
        assert np.std(moving.use[-1]) < np.std(moving.use[12])


def test_the_same_seed_gives_the_same_run() -> None:
    one, two = run(), run()
    assert one.migrations == two.migrations
    assert one.throughput == two.throughput


def test_the_scale_is_the_papers() -> None:
    assert (NODES, DEPLOYED) == (15, 2250)
    names = {e.name for e in choose(["neptune"])}
    assert names == {"n4", "n7", "n8", "n9", "n10", "n11", "n12", "n13", "n14"}
    assert set(neptune.NAMES) == names


def test_more_computations_cost_more_memory_in_all_and_about_the_same_each() -> None:
    _, few = node_cost(20, steps=5)
    _, many = node_cost(100, steps=5)
    assert 0.3 < many / few < 1.5
