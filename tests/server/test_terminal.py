"""`laxity top`."""

from __future__ import annotations

import asyncio
import json

import pytest
from textual.widgets import DataTable
from typer.testing import CliRunner

from laxity.cli import app
from laxity.server.serving import Server
from laxity.server.terminal import COLUMNS, TerminalError, arrange, column
from laxity.server.terminal_app import Top
from laxity.server.testing import ScriptedService
from server.conftest import scripted


def test_sorted_and_filtered() -> None:
    queries = scripted().overview().queries

    def names(sort: str, wanted: str = "", reverse: bool = False) -> list[str]:
        kept = arrange(queries, sort=column(sort), wanted=wanted, reverse=reverse)
        return [q.name for q in kept]

    assert names("target") == ["alerts", "bulk", "copy"]
    assert names("p99") == ["bulk", "alerts", "copy"]
    assert names("target", reverse=True) == ["copy", "bulk", "alerts"]
    assert names("name", "REPORTS") == ["bulk", "copy"]
    assert names("name", "overloaded") == ["alerts"]
    for c in COLUMNS:
        assert len(names(c.name)) == 3
    with pytest.raises(TerminalError, match="there are query, tenant"):
        column("colour")


def test_once_prints_a_table_without_colours(server: Server) -> None:
    result = CliRunner().invoke(app, ["top", server.url, "--once"])
    assert result.exit_code == 0
    assert "alerts" in result.stdout
    assert "66.7%" in result.stdout
    assert "\x1b[" not in result.stdout


def test_json_is_json(server: Server) -> None:
    result = CliRunner().invoke(app, ["top", server.url, "--json", "--filter", "ads"])
    assert [q["name"] for q in json.loads(result.stdout)["queries"]] == ["alerts"]


def test_live_keys(service: ScriptedService) -> None:
    async def play() -> None:
        top = Top(service, sort=column("target"), wanted="", period=0.2)
        async with top.run_test(size=(140, 30)) as pilot:
            table = top.query_one("#queries", DataTable)

            async def until(condition: object) -> None:
                for _ in range(200):
                    if condition():  # type: ignore[operator]
                        return
                    await pilot.pause(0.02)
                raise AssertionError("it did not happen")

            await until(lambda: table.row_count == 3)
            await pilot.press("p")
            await until(lambda: service.queries["alerts"].paused)
            await pilot.press("slash", *"bulk", "enter")
            await until(lambda: table.row_count == 1)
            await pilot.press("s", "r", "q")

    asyncio.run(play())
