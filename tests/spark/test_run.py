"""`laxity run` as a process: it serves, restarts what fails, and ends cleanly when told to."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("fastapi")

PIPELINE = '''
import pathlib
import laxity

@laxity.query(target="1s", tenant="ads")
def steady(spark):
    rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    return rows.writeStream.format("parquet").option("path", "{folder}/steady")

@laxity.query(target="5s", tenant="bulk")
def shaky(spark):
    """Fails until a file is there."""
    def write(batch, number):
        if not pathlib.Path("{folder}/mended").exists():
            raise ValueError("not mended yet")
        batch.count()  # a batch whose rows nobody reads has no result
    rows = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    return rows.writeStream.foreachBatch(write)
'''

SETTINGS = """
[session]
master = "local[2]"
checkpoints = "./checkpoints"
[session.conf]
"spark.driver.memory" = "1g"
"spark.driver.host" = "127.0.0.1"
"spark.driver.bindAddress" = "127.0.0.1"
"spark.ui.enabled" = false
"spark.sql.shuffle.partitions" = 1
[server]
address = "127.0.0.1:0"
[events]
file = "events.jsonl"
[restart]
first = "500ms"
longest = "1s"
"""


class Run:
    """The process, and what its server says."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "laxity", "run", str(folder / "pipeline.py"), *flags]
        self.log = (folder / "log").open("w")
        self.process = subprocess.Popen(
            command, cwd=folder, stderr=self.log, stdout=self.log, start_new_session=True
        )

    def text(self) -> str:
        return (self.folder / "log").read_text()

    def wait_for(self, condition: Callable[[], Any], seconds: float = 90.0) -> Any:
        until = time.monotonic() + seconds
        while True:
            found = condition()
            if found:
                return found
            assert self.process.poll() is None, f"it ended early: {self.text()[-2000:]}"
            assert time.monotonic() < until, f"it did not happen: {self.text()[-2000:]}"
            time.sleep(0.1)

    @property
    def address(self) -> tuple[str, str]:
        match = self.wait_for(
            lambda: re.search(r"(http://127\.0\.0\.1:\d+)/#token=(\S+)", self.text())
        )
        return match[1], match[2]

    def query(self, name: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.address[0]}/api/v1/overview", timeout=10) as answer:
            return next(q for q in json.load(answer)["queries"] if q["name"] == name)

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        self.log.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.py").write_text(PIPELINE.replace("{folder}", str(tmp_path)))
    (tmp_path / "laxity.toml").write_text(SETTINGS)
    return tmp_path


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def begin(*flags: str) -> Run:
        runs.append(Run(folder, *flags))
        return runs[-1]

    yield begin
    for run in runs:
        run.end()


@pytest.mark.spark
def test_the_life_of_a_run(start: Callable[..., Run], folder: Path) -> None:
    run = start()
    run.wait_for(lambda: run.query("shaky")["totals"]["restarts"] >= 1)
    assert "shaky failed, restarting in 500ms" in run.text()
    run.wait_for(lambda: run.query("steady")["latency"]["count"] >= 3)

    (folder / "mended").touch()
    run.wait_for(lambda: run.query("shaky")["latency"]["count"] >= 1)

    # A target changed through the API, with the token that was printed.
    url, token = run.address
    request = urllib.request.Request(
        f"{url}/api/v1/queries/steady",
        data=b'{"target": "2s"}',
        method="PATCH",
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert json.load(answer)["query"]["target"] == 2.0

    # The whole group is told to end, as service managers do.
    os.killpg(run.process.pid, signal.SIGTERM)
    assert run.process.wait(60) == 0
    assert "SIGTERM: stopping" in run.text()
    assert "terminated with error" not in run.text().partition("SIGTERM: stopping")[2]

    events = (folder / "events.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["kind"] for line in events]
    assert {"started", "failed", "restarted", "recovered", "changed"} <= set(kinds)

    # Every batch that was planned is committed, but at most the last: checkpoints are intact.
    for name in ("steady", "shaky"):
        offsets = _batches(folder / "checkpoints" / name / "offsets")
        commits = _batches(folder / "checkpoints" / name / "commits")
        assert commits
        assert offsets - commits <= {max(offsets)}


def _batches(folder: Path) -> set[int]:
    return {int(f.name) for f in folder.iterdir() if f.name.isdecimal()}


@pytest.mark.spark
@pytest.mark.slow
def test_a_signal_while_spark_starts_is_heard(start: Callable[..., Run]) -> None:
    run = start()
    run.wait_for(lambda: "starting Spark" in run.text())
    run.wait_for(lambda: _children(run.process.pid))  # the JVM, about to start
    os.killpg(run.process.pid, signal.SIGTERM)
    assert run.process.wait(60) == 0
    assert "SIGTERM: stopping" in run.text()


def _children(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()


@pytest.mark.spark
@pytest.mark.slow
def test_giving_up_is_the_exit_code(start: Callable[..., Run]) -> None:
    run = start("--max-restarts", "1", "--no-server")
    run.wait_for(lambda: "shaky failed 2 times in a row and is given up" in run.text())
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(60) == 1
    assert "given up: ValueError: not mended yet\n" in run.text()
    assert "\tat org.apache.spark" not in run.text(), "Spark's traces bury what is said"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--target", "nobody=1s"], "targets: {folder}/pipeline.py has no query 'nobody'"),
        (["--target", "steady=soon"], "'soon' is not a duration"),
        (["--policy", "vip"], "no policy is named 'vip'; installed are "),
        (["--master", "locl[2]"], "'locl[2]' is no master of Spark's"),
        (["--address", "127.0.0.1:99999"], "write HOST:PORT"),
        (["--address", "0.0.0.0:0"], "give a token (--token-file FILE)"),
        (["--webhook", "ftp://x"], "a webhook is an http or https address"),
        (["--events", "{folder}/pipeline.py/events"], "cannot write events to"),
        (
            ["--settings", "typo.toml"],
            "typo.toml: [session] has no key 'mster'; it has",
        ),
        (["--conf", "foo"], "--conf takes KEY=VALUE"),
        (["--settings", "cap.toml"], "{folder}/pipeline.py has no tenant 'add'; it has ads, bulk"),
    ],
)
def test_bad_input_is_one_line_before_spark_starts(
    start: Callable[..., Run], folder: Path, flags: list[str], message: str
) -> None:
    (folder / "typo.toml").write_text('[session]\nmster = "local[2]"\n')
    (folder / "cap.toml").write_text("[tenants.add]\ncap = 1\n")
    run = start(*(flag.replace("{folder}", str(folder)) for flag in flags))
    assert run.process.wait(60) == 2
    assert run.text().startswith("error: ")
    assert message.replace("{folder}", str(folder)) in run.text()
    assert run.text().count("\n") == 1


def test_a_pipeline_that_cannot_be_read_is_bad_input(
    start: Callable[..., Run], folder: Path
) -> None:
    (folder / "pipeline.py").write_text("import laxity\nlaxity.nothing\n")
    run = start()
    assert run.process.wait(60) == 2
    assert "pipeline.py:2" in run.text()
    assert "Traceback" not in run.text()
