"""`laxity fleet …` as somebody at a terminal sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

from agents.harness import Fleet


def test_commands_say_what_happens_and_what_to_do(fleet_of: Callable[..., Fleet]) -> None:
    fleet = fleet_of("alerts", "daily")

    def laxity(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "laxity", "fleet", *arguments]
        return subprocess.run(
            [*command, "--state-dir", str(fleet.state)],
            env={**os.environ, "COLUMNS": "160"},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def refused(*arguments: str) -> str:
        done = laxity(*arguments)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith("error: ")
        assert len(done.stderr.splitlines()) == 1
        return done.stderr

    assert "laxity fleet start" in refused("show")  # nobody is there: what to do about it
    places = ("--place", "alerts=n1", "--place", "daily=n1")
    fleet.orchestrator("orchestrator", str(fleet.pipeline), "--nodes", "2", *places)
    fleet.wait(lambda: fleet.show().get("queries"), "the orchestrator has the queries")
    empty = laxity("show").stdout
    assert "no agent has reported yet; start one with: laxity agent" in empty
    assert "unplaced" in empty
    fleet.agent("n1")
    fleet.agent("n2")
    fleet.wait(lambda: fleet.runs("alerts", "n1") and fleet.runs("daily", "n1"), "both run")
    shown = laxity("show").stdout
    for part in ("n1", "n2", "alerts", "daily", "running", "1s", "up"):
        assert part in shown
    told = json.loads(laxity("show", "--json").stdout)
    assert {q["name"] for q in told["queries"]} == {"alerts", "daily"}

    assert "agents that have reported: n1, n2" in refused("move", "alerts", "n9")
    assert "this fleet has: alerts, daily" in refused("move", "nothing", "n2")
    assert laxity("move", "alerts", "n2").stdout.startswith("alerts runs on n2; it paused for 0.")
    assert "alerts: n1 → n2, done, paused 0." in laxity("show").stdout
    drained = laxity("drain", "n2").stdout.splitlines()
    assert drained[0].startswith("alerts runs on n1; it paused for")
    assert drained[1] == "n2 is empty"
    assert laxity("drain", "n2", "--undo").stdout == "n2 is open again\n"
    assert laxity("retire", "daily").stdout == "daily is being stopped\n"
    fleet.wait(lambda: fleet.query("daily")["state"] == "stopped", "daily has stopped")
