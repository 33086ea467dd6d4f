from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from laxity import __version__, cli, manual
from laxity.core.errors import UnknownPolicyError


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli.app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_version_is_shown() -> None:
    assert run("--version").strip() == f"laxity {__version__}"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from laxity.cli import app; "
        "print(sorted({'pyspark', 'py4j', 'numpy', 'matplotlib', 'pandas'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def _leaves(command: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, below in getattr(command, "commands", {}).items():
        called = f"{above} {name}".strip()
        yield called, below
        yield from _leaves(below, called)


LEAVES = dict(_leaves(get_command(cli.app)))


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_every_command_and_every_parameter_says_what_it_does(name: str) -> None:
    assert LEAVES[name].help
    for parameter in LEAVES[name].params:
        assert getattr(parameter, "help", "") or parameter.name == "help", parameter.name


@pytest.mark.parametrize("name", sorted(manual.EXAMPLES))
def test_every_example_is_taken_by_its_command(name: str) -> None:
    for typed, _ in manual.EXAMPLES[name]:
        words = shlex.split(typed.removeprefix(f"laxity {name}"))
        context = LEAVES[name].make_context(name, words, resilient_parsing=False)
        assert context.args == []


def test_every_command_shows_one() -> None:
    for name, info in manual.commands(cli.app):
        assert f"$ laxity {name}" in (info.epilog or ""), name


def test_examples_are_shown_and_none_is_left_over() -> None:
    assert set(manual.EXAMPLES) <= set(LEAVES)
    shown = run("run", "--help")
    assert "$ laxity run pipeline.py" in shown
    assert "Exit codes: 0 stopped by a signal" in shown


@pytest.mark.parametrize(
    ("typed", "offered"), [("laxity doc", "doctor"), ("laxity run --policy ll", "llf")]
)
def test_the_shell_completes(typed: str, offered: str) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    shown = subprocess.run(
        [Path(sys.executable).with_name("laxity")],
        env={**os.environ, **words, "_LAXITY_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert offered in shown.stdout.split()


def test_an_error_keeps_its_brackets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are no markup: `[session] has no key …` lost its subject once."""

    def fail() -> None:
        raise UnknownPolicyError("[session] has no key 'x'")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert "[session] has no key" in capsys.readouterr().err


def test_an_expected_error_is_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise UnknownPolicyError("no policy is named 'vip'")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert capsys.readouterr().err.strip() == "error: no policy is named 'vip'"


def test_the_demo_shows_that_deadlines_win_and_bulk_loses_nothing(tmp_path: Path) -> None:
    """Virtual time, so these are facts of the schedule and not of this machine."""
    output = run("demo", "--virtual", "--json", str(tmp_path / "demo.json"))
    rows = {r["order"]: r for r in json.loads((tmp_path / "demo.json").read_text())["rows"]}
    assert all(order in output for order in rows)
    deadlines = rows.pop("deadlines")
    assert deadlines["met"] == 1.0
    assert all(row["met"] < 0.9 for row in rows.values())
    assert all(row["p99"] > 3 * deadlines["p99"] for row in rows.values())
    assert all(row["bulk_messages"] <= deadlines["bulk_messages"] for row in rows.values())


def test_bench_core_reports_every_setting(tmp_path: Path) -> None:
    file = tmp_path / "core.json"
    output = run(
        "bench", "core", "--quick", "--pairs", "200", "--repeats", "1", "--json", str(file)
    )
    document = json.loads(file.read_text())
    settings = {(row["pending"], row["operators"]) for row in document["rows"]}
    assert settings == {(n, k) for n in (100, 10_000) for k in (10, 1_000, 50_000)}
    assert document["machine"]["cores"] >= 1
    for row in document["rows"]:
        assert row["ratio"] > 0
        assert 0 < row["bytes_per_message"] < 300, "counted, not timed: the goal holds anywhere"
    assert "At most 3 × heapq" in output
