"""`laxity init` and `laxity doctor`."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from laxity.cli import app
from laxity.core.errors import LaxityError
from laxity.pipeline import load_pipeline
from laxity.spark import doctor
from laxity.spark.doctor import Verdict

run = CliRunner().invoke


def test_init_writes_a_pipeline_that_loads(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    result = run(app, ["init", str(tmp_path / "new")])
    assert result.exit_code == 0
    assert "laxity run pipeline.py" in result.stdout
    pipeline = load_pipeline(tmp_path / "new" / "pipeline.py")
    assert [q.name for q in pipeline.queries] == ["errors", "logins", "pages", "history"]


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "pipeline.py").write_text("mine")
    result = run(app, ["init", str(tmp_path)])
    assert isinstance(result.exception, LaxityError)
    assert "--force" in str(result.exception)
    assert (tmp_path / "pipeline.py").read_text() == "mine"
    assert run(app, ["init", str(tmp_path), "--force"]).exit_code == 0


def test_doctor_speaks_json(tmp_path: Path) -> None:
    result = run(app, ["doctor", "--quick", "--json", "--checkpoints", str(tmp_path)])
    found = {f["check"]: f for f in json.loads(result.stdout)}
    assert found["Python"]["verdict"] == "good"
    assert {"Java", "Spark", "Port", "Priorities", "Control groups", "Checkpoints"} <= set(found)
    assert all(f["advice"] for f in found.values() if f["verdict"] == "bad")
    assert list(tmp_path.iterdir()) == []


def test_a_taken_port_is_found() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        finding = doctor.port(f"127.0.0.1:{taken.getsockname()[1]}")
    assert finding.verdict is Verdict.WARN
    assert "port 0" in finding.advice


def test_a_missing_java_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    finding = doctor.java()
    assert finding.verdict is Verdict.BAD
    assert "openjdk" in finding.advice


def test_an_old_java_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert doctor.java().found == "version 11"
    assert doctor.java().verdict is Verdict.BAD


def test_a_bad_finding_is_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    bad = doctor.Finding("Java", Verdict.BAD, "none", "install it")
    good = doctor.Finding("Python", Verdict.GOOD, "3.11")
    assert doctor.show([good], as_json=False) == 0
    assert doctor.show([good, bad], as_json=False) == 1
    assert "install it" in capsys.readouterr().out


def test_a_broken_check_breaks_nothing_else() -> None:
    def broken() -> doctor.Finding:
        raise RuntimeError("oh")

    assert doctor._safely(broken).verdict is Verdict.WARN
