"""The host level inside an attached session: the real nice values of the driver's threads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from laxity.host import procfs, runner
from laxity.host.kernel import LinuxKernel
from laxity.spark.threads import LAX_NICE, URGENT_NICE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from laxity.spark import Laxity

pytestmark = [pytest.mark.spark, pytest.mark.slow]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to raise priorities")
KERNEL = LinuxKernel()


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Journals of its own, and a driver whose threads are ordinary ones."""
    monkeypatch.setattr(runner, "default_directory", lambda: tmp_path / "state")
    before = os.getpriority(os.PRIO_PROCESS, 0)
    if os.geteuid() == 0:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    yield tmp_path / "state"
    if os.geteuid() == 0:
        os.setpriority(os.PRIO_PROCESS, 0, before)


def start(lx: Laxity, spark: SparkSession, name: str, target: str) -> Any:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    return lx.start(rows.writeStream.format("noop"), name=name, target=target)


def nice_of(lx: Laxity, query: Any) -> int | None:
    tid = lx._threads._streams.get(query.id)
    return None if tid is None else KERNEL.nice(tid)


def levels(pid: int) -> set[int]:
    return {KERNEL.nice(thread.tid) for thread in KERNEL.threads(pid)}


@needs_root
def test_by_default_urgent_threads_go_first_and_detach_puts_all_of_them_back(
    spark: SparkSession, attach: Callable[..., Laxity], wait_for: Callable[..., Any], state: Path
) -> None:
    lx = attach()
    pid = lx._bridge.driver_pid
    before = levels(pid)
    urgent, lax = start(lx, spark, "urgent", "1s"), start(lx, spark, "lax", "2h")
    wait_for(lambda: nice_of(lx, urgent) == URGENT_NICE, "the urgent query's thread goes first")
    wait_for(lambda: nice_of(lx, lax) == LAX_NICE, "the lax query's thread goes last")
    lx.set_target("lax", "500ms")
    wait_for(lambda: nice_of(lx, lax) != LAX_NICE, "a new target counts at once")
    lx.set_target("lax", "2h")
    wait_for(lambda: nice_of(lx, lax) == LAX_NICE, "and back")
    assert lx.status().notices == ()
    lx.detach()
    assert levels(pid) <= before
    assert not list(state.iterdir()), "no journal is left"


@needs_root
def test_without_the_right_to_raise_it_lowers_the_lax_and_says_so_once(
    spark: SparkSession,
    attach: Callable[..., Laxity],
    wait_for: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LinuxKernel, "most_urgent_nice", lambda _: 20)
    lx = attach()
    before = levels(lx._bridge.driver_pid)
    urgent, lax = start(lx, spark, "urgent", "1s"), start(lx, spark, "lax", "2h")
    wait_for(lambda: nice_of(lx, lax) == LAX_NICE, "the lax query's thread goes last")
    assert nice_of(lx, urgent) in before
    said = [notice for notice in lx.status().notices if "priorities" in str(notice)]
    assert len(said) == 1
    assert "no right to raise priorities" in str(said[0])


def test_a_session_may_do_without(
    spark: SparkSession, attach: Callable[..., Laxity], wait_for: Callable[..., Any], state: Path
) -> None:
    lx = attach(host=False)
    before = levels(lx._bridge.driver_pid)
    urgent = start(lx, spark, "urgent", "1s")
    start(lx, spark, "lax", "2h")
    wait_for(lambda: urgent.latency().count, "a first result")
    assert levels(lx._bridge.driver_pid) <= before
    assert not state.exists()


PROGRAM = """
import sys, time
from pathlib import Path
import laxity
from laxity.host import runner
from pyspark.sql import SparkSession
folder = Path(sys.argv[1])
runner.default_directory = lambda: folder / "state"
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "1g").config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.streaming.checkpointLocation", str(folder)).getOrCreate()
)
lx = laxity.attach(spark)
for name, target in (("urgent", "1s"), ("lax", "2h")):
    rows = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    lx.start(rows.writeStream.format("noop"), name=name, target=target)
print(lx._bridge.driver_pid, flush=True)
time.sleep(600)
"""


@needs_root
def test_a_program_that_is_killed_leaves_a_journal_that_the_next_start_clears(
    tmp_path: Path, state: Path, wait_for: Callable[..., Any]
) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert program.stdout
    try:
        driver = int(program.stdout.readline())
        wait_for(lambda: LAX_NICE in levels(driver), "priorities are set")
        program.send_signal(signal.SIGKILL)
        program.wait()
        assert list(state.glob("*.journal"))
    finally:
        program.kill()
        program.communicate()
    command = [sys.executable, "-m", "laxity", "host", "restore", "--json"]
    done = subprocess.run([*command, "--state-dir", str(state)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["failed"] == []
    assert not list(state.iterdir())
    wait_for(lambda: not procfs.thread_ids(driver) or levels(driver) == {0}, "nothing is left")
