"""Control operations over HTTP, and `laxity control`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from laxity.cli import app
from laxity.server.client import RemoteService
from laxity.server.service import NotFoundError, RefusedError
from laxity.server.serving import Server
from laxity.server.testing import ScriptedService
from server.conftest import TOKEN, Client

PATH = "/api/v1/queries/alerts/control"
ORDER = {"operation": "change", "arguments": {"variables": {"A": 20}}, "by": "ada"}


def test_an_operation_is_in_the_history(client: Client, service: ScriptedService) -> None:
    answer = client("POST", PATH, ORDER)
    assert answer.status == 200
    assert answer.json()["batch"] == 8
    seen = client.get(PATH).json()
    assert seen["variables"] == {"A": "10L"}
    assert [(o["name"], o["by"]) for o in seen["history"]] == [("change", "ada")]
    told = client.get("/api/v1/events").json()["events"]
    assert told[-1]["message"] == "change by ada"


def test_the_rules_for_changes_hold(server: Server, service: ScriptedService) -> None:
    stranger, friend = Client(server.url, token=None), Client(server.url)
    assert stranger("POST", PATH, ORDER).status == 401
    elsewhere = friend("POST", PATH, ORDER, {"Origin": "http://elsewhere.example"})
    assert elsewhere.status == 403
    plain = friend("POST", PATH, b"operation=undo", {"Content-Type": "text/plain"})
    assert plain.status == 415
    assert friend("POST", PATH, {"operation": "explode"}).status == 400
    assert friend("POST", PATH, {"operation": "undo", "more": 1}).status == 422
    assert friend("POST", PATH.replace("alerts", "nobody"), ORDER).status == 404
    assert service.done == []


def test_from_another_program(server: Server) -> None:
    remote = RemoteService(server.url, TOKEN)
    done = remote.operate("alerts", "change", {"paused": True}, "ada")
    assert dict(done.arguments) == {"paused": True}
    assert remote.control("alerts").history == (done,)
    with pytest.raises(RefusedError, match="no operation 'x'"):
        remote.operate("alerts", "x", {}, "ada")
    with pytest.raises(NotFoundError):
        remote.control("nobody")


def test_on_the_command_line(server: Server, service: ScriptedService, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    where = ["--address", server.url, "--token-file", str(token)]
    runner = CliRunner()
    done = runner.invoke(app, ["control", "set", "alerts", "A=20", "f=v2", "--pace", "1s", *where])
    assert done.exit_code == 0, done.output
    assert service.done[0].arguments == {"variables": {"A": 20, "f": "v2"}, "pace": "1s"}
    assert "alerts#1: change by " in done.output
    assert "before batch 8 (0.10 s)" in done.output
    done = runner.invoke(app, ["control", "undo", "alerts", "--json", *where])
    assert json.loads(done.output)["name"] == "undo"
    shown = runner.invoke(app, ["control", "show", "alerts", "--address", server.url])
    assert "A = 10L" in shown.output
    assert "goes back to batches 0 to 7" in shown.output
    assert "change" in shown.output
    shown = runner.invoke(app, ["control", "show", "alerts", "--json", "--address", server.url])
    assert [o["name"] for o in json.loads(shown.output)["history"]] == ["change", "undo"]
    wrong = runner.invoke(app, ["control", "set", "alerts", "A", *where])
    assert "'A' is not NAME=VALUE" in str(wrong.exception)
