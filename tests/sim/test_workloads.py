"""The costs are those that the paper's words on capacity imply."""

from __future__ import annotations

import pytest

from laxity.sim import Cluster
from laxity.sim.workloads import COST, IPQ, mixed, single_tenant


def _load(bulk_jobs: int, rate: float = 10_000.0) -> float:
    return sum(flow.demand() for flow in mixed(bulk_jobs, rate)) / Cluster().cores


def test_figure_8a_overloads_between_30_000_and_40_000_rows_a_second() -> None:
    assert _load(4, 30_000.0) < 0.9
    assert _load(4, 40_000.0) > 1.1


def test_figure_8b_overloads_beyond_twelve_jobs() -> None:
    assert _load(12) < 0.9
    assert _load(16) > 1.1


def test_figure_12_fills_a_thread_with_300_to_350_messages_a_second() -> None:
    assert 300 < 1 / COST.fixed < 350


def test_a_message_outlasts_the_grain() -> None:
    assert COST.of(1000) > Cluster().quantum


@pytest.mark.parametrize("query", IPQ)
def test_a_single_query_fits_its_machine(query: str) -> None:
    assert 0.4 < single_tenant(query).demand() / 4 <= 0.9
