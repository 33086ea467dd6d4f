"""What cannot work is refused before the source is touched, with the way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agents.harness import Fleet
from laxity.fleet.cli import await_move
from laxity.fleet.client import Client, FixedLocator
from laxity.fleet.refusals import (
    NodeUnknownError,
    NotAuthorisedError,
    QueryUnknownError,
    RefusedError,
    VersionMismatchError,
)


@pytest.fixture
def fleet(fleet_of: Callable[..., Fleet]) -> Fleet:
    fleet = fleet_of("copy")
    fleet.orchestrator("orchestrator", str(fleet.pipeline), "--place", "copy=n1")
    fleet.agent("n1")
    fleet.wait(lambda: fleet.runs("copy", "n1"), "copy runs on n1")
    return fleet


def test_moves_that_cannot_work(fleet: Fleet, tmp_path: Path) -> None:
    fleet.agent("old", "--version", "0.9.1")
    fleet.agent("apart", "--checkpoints", str(tmp_path / "elsewhere"))
    fleet.agent("n2")
    fleet.up("old", "apart", "n2")
    epoch = fleet.query("copy")["epoch"]
    with pytest.raises(NodeUnknownError, match=r"no node named 'n9'.*apart, n1, n2, old"):
        fleet.client.move("copy", "n9")
    with pytest.raises(QueryUnknownError, match="this fleet has: copy"):
        fleet.client.move("nothing", "n2")
    with pytest.raises(VersionMismatchError, match="old runs files 0"):
        fleet.client.move("copy", "old")
    with pytest.raises(RefusedError, match="on n1 already"):
        fleet.client.move("copy", "n1")
    began = fleet.client.move("copy", "apart")
    ended = await_move(fleet.client, "copy", began["number"])
    assert "does not see the checkpoint" in ended["why"]
    good = fleet.pipeline.read_text()
    fleet.pipeline.write_text("import nothing_of_that_name\n")
    began = fleet.client.move("copy", "n2")
    ended = await_move(fleet.client, "copy", began["number"])
    assert "nothing_of_that_name" in ended["why"]
    fleet.pipeline.write_text(good + "\n# newer\n")
    began = fleet.client.move("copy", "n2")
    ended = await_move(fleet.client, "copy", began["number"])
    assert "another version" in ended["why"]
    # Through all of it the source was never asked to stop.
    assert fleet.runs("copy", "n1")
    assert fleet.query("copy")["epoch"] == epoch
    for node in ("old", "apart", "n2"):
        fleet.client.drain(node)
    with pytest.raises(RefusedError, match="nobody is left"):
        fleet.client.drain("n1")


def test_strangers_are_turned_away(fleet: Fleet) -> None:
    stranger = Client(FixedLocator([fleet.show()["url"]], "guess"))
    with pytest.raises(NotAuthorisedError, match="token"):
        stranger.fleet()
    assert (fleet.state / "token").stat().st_mode & 0o077 == 0
