"""The documentation does what it says: its console blocks run, its options exist, its links lead
somewhere."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from laxity.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_HEAVY = ("laxity run pipeline.py", "make ")
"""These start Spark or set up an environment; `tests/spark/test_run.py` runs what they run."""


def commands() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for block in _BLOCK.findall(page.read_text()):
            for line in block.splitlines():
                if line.startswith("$ "):
                    found.append((page.name, line[2:]))
    return found


@pytest.mark.parametrize("page", sorted({name for name, _ in commands()}))
def test_console_blocks_run(page: str, tmp_path: Path) -> None:
    """In order, in a folder of their own."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for name, command in commands():
        if name != page or any(part in command for part in _HEAVY):
            continue
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"


def test_every_flag_of_the_users_commands_is_in_the_reference() -> None:
    reference = (ROOT / "docs" / "reference.md").read_text()
    command = get_command(app)
    for name in ("run", "init", "doctor", "top", "dashboard"):
        found = command.commands[name]  # type: ignore[attr-defined]
        for parameter in found.params:
            flags = [o for o in parameter.opts if o.startswith("--")]
            negative = [o for o in parameter.secondary_opts if o.startswith("--")]
            if flags and flags[0] != "--help":
                assert any(f in reference for f in (*flags, *negative)), f"{name} {flags}"


def test_commands_in_shell_blocks_exist() -> None:
    known = set(get_command(app).commands)  # type: ignore[attr-defined]
    for page in PAGES:
        for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", page.read_text(), re.M | re.S):
            for called in re.findall(r"(?:^|&& |\$ )laxity ([a-z]+)", block, re.M):
                assert called in known, f"{page.name}: laxity {called}"


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_grafana_asks_only_for_metrics_that_are_served() -> None:
    pytest.importorskip("prometheus_client")
    from laxity.server.metrics import exposition
    from laxity.server.testing import ScriptedQuery, ScriptedService

    served = exposition(ScriptedService(ScriptedQuery("q", target=1.0)).overview()).decode()
    board = json.loads((ROOT / "docs" / "grafana" / "laxity.json").read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    variables = {variable["name"] for variable in board["templating"]["list"]}
    asked = set()
    for panel in board["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["title"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        for target in panel["targets"]:
            asked |= set(re.findall(r"laxity_[a-z_]+", target["expr"]))
            used = set(re.findall(r"\$([a-z]\w*)", target["expr"]))
            assert used <= variables, target["expr"]
    assert len(asked) >= 8
    for name in asked:
        assert re.search(rf"^(# TYPE )?{name}\b", served, re.M), name


def test_the_page_on_metrics_names_what_is_served_and_all_of_it() -> None:
    pytest.importorskip("prometheus_client")
    from laxity.server.metrics import exposition
    from laxity.server.testing import ScriptedQuery, ScriptedService

    page = (ROOT / "docs" / "operations.md").read_text()
    served = exposition(ScriptedService(ScriptedQuery("q", target=1.0)).overview()).decode()
    assert set(re.findall(r"`(laxity_[a-z_]+)`", page)) == set(
        re.findall(r"^# TYPE (\S+)", served, re.M)
    )


def test_shell_words_are_well_formed() -> None:
    for _, command in commands():
        assert shlex.split(command)
