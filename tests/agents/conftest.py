"""Fleets of real processes, cleaned up after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.harness import Fleet


@pytest.fixture
def fleet_of(tmp_path: Path) -> Iterator[Callable[..., Fleet]]:
    made: list[Fleet] = []

    def fleet_of(*queries: str) -> Fleet:
        made.append(Fleet(tmp_path / f"fleet{len(made)}", list(queries)))
        return made[-1]

    yield fleet_of
    for fleet in made:
        fleet.close()
