"""Real effects on this machine's kernel: nice values, control groups, real-time priorities."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from laxity.host import procfs
from laxity.host.binding import Binding
from laxity.host.drivers.generic import GenericDriver
from laxity.host.drivers.pages import PageReader
from laxity.host.drivers.spark import FeedDriver
from laxity.host.entities import Thread
from laxity.host.journal import Journal
from laxity.host.kernel import LinuxKernel
from laxity.host.loop import HostLoop
from laxity.host.normalise import Spacing
from laxity.host.notices import Notices
from laxity.host.policies import QueueSize
from laxity.host.runner import for_driver
from laxity.host.schedule import Group, GroupingSchedule, SinglePrioritySchedule
from laxity.host.translators import make_translator
from laxity.host.translators.api import Tools
from laxity.host.translators.groups import GroupTranslator
from laxity.host.translators.hierarchy import CgroupV1, CgroupV2, Hierarchy, find_hierarchy

KERNEL = LinuxKernel()
PATTERN = r"^(?P<query>\w+)-(?P<operator>\w+)$"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def _usable_groups() -> Hierarchy | None:
    """Whichever version the machine has the cpu controller on, if this user may write there."""
    hierarchy = find_hierarchy(KERNEL)
    if hierarchy is None or os.geteuid() != 0:
        return None
    own = Thread(os.getpid(), os.getpid(), 0)
    return None if hierarchy.unavailable(hierarchy.home(own)) else hierarchy


def _unified_mount() -> str | None:
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split()
        if kind == "cgroup2" and os.geteuid() == 0 and os.access(mount, os.W_OK):
            return mount
    return None


needs_groups = pytest.mark.skipif(_usable_groups() is None, reason="needs writable control groups")
needs_v1 = pytest.mark.skipif(
    not isinstance(_usable_groups(), CgroupV1), reason="needs a writable version 1 cpu hierarchy"
)
needs_v2 = pytest.mark.skipif(_unified_mount() is None, reason="needs a writable version 2 tree")


def wait_for(condition: Callable[[], object], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.02)


class Engine:
    def __init__(self, metrics: Path, *names: str) -> None:
        self.metrics = metrics
        script = str(Path(__file__).parent / "engine.py")
        self.process = subprocess.Popen(
            [sys.executable, script, str(metrics), *names], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout
        assert self.process.stdout.readline() == "ready\n"

    @property
    def threads(self) -> dict[str, Thread]:
        found = (stat.thread for stat in procfs.threads_of(self.process.pid))
        return {thread.name: thread for thread in found}

    def nice(self, name: str) -> int:
        """As the kernel tells everybody: field 19 of the thread's stat file."""
        tid = self.threads[name].tid
        line = Path(f"/proc/{self.process.pid}/task/{tid}/stat").read_text()
        return int(line[line.rindex(")") + 2 :].split()[16])

    def cgroup(self, name: str, controller: str = "cpu") -> str:
        tid = self.threads[name].tid
        for line in Path(f"/proc/{self.process.pid}/task/{tid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                return path
        raise AssertionError(f"no {controller} cgroup")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    running = Engine(tmp_path / "metrics.json", "q1-a", "q1-b", "q2-a")
    yield running
    running.stop()


def tools(tmp_path: Path, owner: str = "test") -> Tools:
    journal = Journal(KERNEL, tmp_path / "state", f"{owner}-{os.getpid()}")
    return Tools(KERNEL, journal, Notices(pytest.fail), f"{owner}-{os.getpid()}")


@needs_root
def test_nice_values_are_set_and_put_back(engine: Engine, tmp_path: Path) -> None:
    translator = make_translator("nice", tools(tmp_path))
    threads = engine.threads
    translator.apply(
        SinglePrioritySchedule({threads["q1-a"]: 4.0, threads["q1-b"]: 1.0}, Spacing.LOG)
    )
    assert [engine.nice(n) for n in ("q1-a", "q1-b", "q2-a")] == [-20, -14, 0]
    translator.release()
    assert [engine.nice(n) for n in ("q1-a", "q1-b", "q2-a")] == [0, 0, 0]


@needs_v1
def test_shares_are_set_and_put_back(engine: Engine, tmp_path: Path) -> None:
    translator = make_translator("shares", tools(tmp_path))
    before = engine.cgroup("q1-a")
    threads = engine.threads
    groups = {
        "q1": Group(4.0, frozenset({threads["q1-a"], threads["q1-b"]})),
        "q2": Group(1.0, frozenset({threads["q2-a"]})),
    }
    translator.apply(GroupingSchedule(groups, Spacing.LOG))
    root = f"{before.rstrip('/')}/laxity-test-{os.getpid()}"
    assert engine.cgroup("q1-a") == engine.cgroup("q1-b") == f"{root}/q1"
    assert engine.cgroup("q2-a") == f"{root}/q2"
    hierarchy = find_hierarchy(KERNEL)
    assert isinstance(hierarchy, CgroupV1)
    mounted = Path(hierarchy._mount + root)
    assert (mounted / "q1" / "cpu.shares").read_text() == "2048\n"
    assert (mounted / "q2" / "cpu.shares").read_text() == "512\n"
    translator.release()
    assert engine.cgroup("q1-a") == before
    assert not mounted.exists()


@needs_v1
def test_quotas_are_set(engine: Engine, tmp_path: Path) -> None:
    translator = make_translator("quota", tools(tmp_path), cores=2)
    assert isinstance(translator, GroupTranslator)
    groups = {"q1": Group(3.0, frozenset({engine.threads["q1-a"]}))}
    translator.apply(GroupingSchedule(groups))
    hierarchy = find_hierarchy(KERNEL)
    assert isinstance(hierarchy, CgroupV1)
    path = Path(hierarchy._mount + engine.cgroup("q1-a"))
    assert (path / "cpu.cfs_quota_us").read_text() == "200000\n"
    translator.release()
    assert not path.exists()


class ThreadedOnly(CgroupV2):
    """The threaded mechanics of version 2, on a machine that has its cpu controller elsewhere."""

    def _enable_cpu(self, *_: object) -> None: ...
    def set_weight(self, *_: object) -> None: ...


@needs_v2
def test_threads_of_one_process_live_in_different_version_2_groups(
    engine: Engine, tmp_path: Path
) -> None:
    mount = _unified_mount()
    assert mount is not None
    translator = GroupTranslator(tools(tmp_path), ThreadedOnly(KERNEL, mount))
    before = engine.cgroup("q1-a", "")
    threads = engine.threads
    groups = {n: Group(1.0, frozenset({threads[f"{n}-a"]})) for n in ("q1", "q2")}
    translator.apply(GroupingSchedule(groups))
    root = f"{before.rstrip('/')}/laxity-test-{os.getpid()}"
    assert engine.cgroup("q1-a", "") == f"{root}/q1"
    assert engine.cgroup("q2-a", "") == f"{root}/q2"
    assert engine.cgroup("q1-b", "") == before
    assert Path(mount + root, "q1", "cgroup.type").read_text() == "threaded\n"
    translator.release()
    assert engine.cgroup("q1-a", "") == before
    assert not Path(mount + root).exists()


@needs_root
def test_round_robin_is_set_and_put_back(engine: Engine, tmp_path: Path) -> None:
    thread = engine.threads["q1-a"]
    said: list[str] = []
    journal = Journal(KERNEL, tmp_path / "state", "rr")
    translator = make_translator("rr", Tools(KERNEL, journal, Notices(said.append), "rr"))
    translator.apply(SinglePrioritySchedule({thread: 1.0}))
    if said:
        pytest.skip(f"this kernel gives no real-time priority here: {said[0]}")
    assert KERNEL.scheduler(thread.tid) == (os.SCHED_RR, 1)
    translator.release()
    assert KERNEL.scheduler(thread.tid) == (os.SCHED_OTHER, 0)


@needs_root
def test_the_whole_loop_on_a_real_process(engine: Engine, tmp_path: Path) -> None:
    driver = GenericDriver(
        "engine",
        process=f"engine.py {engine.metrics}",
        thread=PATTERN,
        page=PageReader(str(engine.metrics)),
        chain=True,
    )
    binding = Binding("qs", QueueSize(), make_translator("nice", tools(tmp_path)))
    loop = HostLoop([driver], [binding])
    step = loop.step()
    deployment = step.snapshots["engine"].deployment
    assert [q.name for q in deployment.queries] == ["q1", "q2"]
    assert deployment.logical[0].downstream == ("engine/q1/b",)
    assert [engine.nice(n) for n in ("q1-a", "q1-b", "q2-a")] == [-15, -18, -20]
    loop.close()
    assert [engine.nice(n) for n in ("q1-a", "q1-b", "q2-a")] == [0, 0, 0]


def start_host(engine: Engine, state: Path, *more: str) -> subprocess.Popen[str]:
    command = [
        *(sys.executable, "-m", "laxity", "host", "--engine", "generic"),
        *("--process", f"engine.py {engine.metrics}", "--thread", PATTERN),
        *("--metrics", str(engine.metrics), "--policy", "qs", "--period", "100ms"),
        *("--state-dir", str(state), "--name", f"t{os.getpid()}"),
        *more,
    ]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def settled(engine: Engine) -> bool:
    return [engine.nice(n) for n in ("q1-a", "q1-b", "q2-a")] == [-15, -18, -20]


def restored(engine: Engine) -> bool:
    return [engine.nice(n) for n in ("q1-a", "q1-b", "q2-a")] == [0, 0, 0]


@needs_root
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_orderly_end_puts_everything_back(
    engine: Engine, tmp_path: Path, ending: signal.Signals
) -> None:
    host = start_host(engine, tmp_path)
    try:
        wait_for(lambda: settled(engine), "priorities are set")
        host.send_signal(ending)
        _, errors = host.communicate(timeout=60)
        assert host.returncode == 0, errors
    finally:
        host.kill()
        host.communicate()
    assert restored(engine)
    assert list(tmp_path.glob("*.journal")) == []


@needs_v1
@pytest.mark.parametrize("again", ["restore", "start"])
def test_after_kill_9_a_restart_puts_everything_back(
    engine: Engine, tmp_path: Path, again: str
) -> None:
    before = engine.cgroup("q1-a")
    host = start_host(engine, tmp_path, "--translator", "shares+nice")
    try:
        wait_for(lambda: engine.cgroup("q2-a") != before and engine.nice("q1-a") == -17, "grouped")
    finally:
        host.kill()
        host.communicate()
    assert engine.cgroup("q1-a") != before, "a killed loop has put nothing back"
    if again == "restore":
        command = [sys.executable, "-m", "laxity", "host", "restore"]
        done = subprocess.run(
            [*command, "--state-dir", str(tmp_path), "--json"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["failed"] == []
    else:
        host = start_host(engine, tmp_path, "--duration", "10ms")
        _, errors = host.communicate(timeout=60)
        assert "did not end properly" in errors
    assert restored(engine)
    assert {path.name for path in tmp_path.iterdir()} == {"metrics.json"}
    assert engine.cgroup("q1-a") == engine.cgroup("q2-a") == before
    hierarchy = find_hierarchy(KERNEL)
    assert isinstance(hierarchy, CgroupV1)
    assert not list(Path(hierarchy._mount + before).glob(f"laxity-t{os.getpid()}*"))


@needs_root
def test_dry_run_and_status(engine: Engine, tmp_path: Path) -> None:
    dry = start_host(engine, tmp_path, "--dry-run")
    out, errors = dry.communicate(timeout=60)
    assert dry.returncode == 0, errors
    tid = engine.threads["q2-a"].tid
    assert f"nice of thread {tid}: 0 -> -20   generic/q2/a#0 (q2-a)" in out
    assert restored(engine)
    host = start_host(engine, tmp_path)
    try:
        wait_for(lambda: list(tmp_path.glob("*.status.json")), "a status file")
        command = [sys.executable, "-m", "laxity", "host", "status", "--json"]
        shown = subprocess.run(
            [*command, "--state-dir", str(tmp_path)], capture_output=True, text=True, check=True
        )
        (status,) = json.loads(shown.stdout)
    finally:
        host.terminate()
        host.communicate()
    assert status["alive"]
    assert status["policies"][0]["policy"] == "qs"
    assert status["engines"][0]["threads"] == 3


AS_NOBODY = """
import os, sys
from pathlib import Path
from laxity.host.entities import Thread
from laxity.host.journal import Journal
from laxity.host.kernel import LinuxKernel
from laxity.host.normalise import Spacing
from laxity.host.notices import Notices
from laxity.host.procfs import thread_stat
from laxity.host.schedule import Group, GroupingSchedule, SinglePrioritySchedule
from laxity.host.translators import make_translator
from laxity.host.translators.api import Tools
import resource
resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
os.setgid(65534)
os.setuid(65534)
child = os.fork()
if child == 0:
    os.execvp("sleep", ["sleep", "60"])
kernel, said = LinuxKernel(), []
tools = Tools(kernel, Journal(kernel), Notices(said.append), "nobody")
own, other = thread_stat(os.getpid(), os.getpid()).thread, thread_stat(child, child).thread
translator = make_translator("shares", tools)
for _ in range(2):
    translator.apply(SinglePrioritySchedule({own: 4.0, other: 1.0}, Spacing.LOG))
print(translator.name, kernel.nice(own.tid), kernel.nice(other.tid), len(said))
print(*said, sep="\\n")
os.kill(child, 9)
"""


@needs_root
def test_without_rights_it_lowers_what_it_may_and_says_so_once() -> None:
    done = subprocess.run([sys.executable, "-c", AS_NOBODY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, *said = done.stdout.splitlines()
    assert first == "nice 0 6 2"
    assert "not writable" in said[0]
    assert "no right to raise priorities" in said[1]


@needs_root
def test_inside_a_program_a_feed_ranks_its_threads(engine: Engine, tmp_path: Path) -> None:
    tids = {name: thread.tid for name, thread in engine.threads.items()}
    feed = {"alerts": (0.1, [tids["q1-a"]]), "daily": (3600.0, [tids["q2-a"]])}
    said: list[str] = []
    runner = for_driver(
        FeedDriver(lambda: feed, pid=engine.process.pid), period=0.05, say=said.append
    )
    runner.directory = tmp_path / "state"
    with runner:
        runner.start()
        wait_for(lambda: engine.nice("q1-a") == -20 and engine.nice("q2-a") == 19, "ranked")
        feed.clear()
        wait_for(lambda: restored(engine), "a query that is gone has its threads put back")
    assert said == []
    assert list((tmp_path / "state").iterdir()) == []


def cpu_ratio(threads: list[Thread], total: float) -> float:
    """CPU time of the first to the second, over a span in which they used `total` seconds."""

    def used() -> list[float]:
        times = [procfs.cpu_seconds(t) for t in threads]
        assert None not in times
        return [t for t in times if t is not None]

    start = used()
    wait_for(lambda: sum(used()) - sum(start) > total, "CPU time", seconds=200)
    first, second = (b - a for a, b in zip(start, used(), strict=True))
    return first / second


@pytest.mark.parametrize("mechanism", ["nice", pytest.param("shares", marks=needs_groups)])
def test_priorities_of_4_to_1_give_cpu_of_4_to_1(mechanism: str, tmp_path: Path) -> None:
    """Two busy processes on one core; whatever else runs there slows both alike, and what is
    compared is the CPU time they got, however long that took."""
    burn = ["sh", "-c", "while :; do :; done"]
    processes = [subprocess.Popen(burn) for _ in range(2)]
    said: list[str] = []  # without the right to raise priorities it says so, and lowers one
    kit = replace(tools(tmp_path, f"ratio-{mechanism}"), notices=Notices(said.append))
    translator = make_translator(mechanism, kit)
    core = min(os.sched_getaffinity(0))
    try:
        threads = []
        for process in processes:
            os.sched_setaffinity(process.pid, {core})
            stat = procfs.thread_stat(process.pid, process.pid)
            assert stat is not None
            threads.append(stat.thread)
        first, second = threads
        if mechanism == "nice":
            translator.apply(SinglePrioritySchedule({first: 4.0, second: 1.0}, Spacing.LOG))
        else:
            groups = {
                "first": Group(4.0, frozenset({first})),
                "second": Group(1.0, frozenset({second})),
            }
            translator.apply(GroupingSchedule(groups, Spacing.LOG))
        assert cpu_ratio(threads, total=5.0) == pytest.approx(4.0, rel=0.1)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        translator.release()
