"""One run of the fleet's evaluation: three Spark applications on this machine, an uneven start and,
from a moment on, a CPU hog beside one of them; with the fleet's own moves or without.

Applications are bound to CPUs as if those were hosts. Nothing is asked of the agents about latency:
it is read from the checkpoints, as the time from the arrival of a record (known from its schedule)
until the batch it was in is committed.
"""

from __future__ import annotations

import bisect
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from laxity.bench.workloads.arrivals import TICK
from laxity.bench.workloads.vitals.signals import ECG_RATE, Match, Patient, match
from laxity.core.errors import LaxityError
from laxity.fleet.client import Client, FolderLocator
from laxity.fleet.refusals import FleetError

NODES = ("n1", "n2", "n3")
_LONGEST = 3600.0
_HOG = "while True: pass"

_PIPELINE = """
from laxity.bench.workloads.vitals.ward import ward

for query in ward({names!r}, origin={origin!r}, seconds={seconds!r}, patients={patients!r},
                  target={target!r}, sink={sink!r}):
    globals()[query.__name__] = query
"""


class FleetBenchError(LaxityError, RuntimeError):
    """The fleet of a benchmark did not come up, or this machine is too small for it."""


@dataclass(frozen=True, slots=True)
class Plan:
    crowded: int = 4
    """Queries on n1; n2 and n3 have one each."""
    patients: int = 4
    target: float = 2.0
    warmup: float = 60.0
    seconds: float = 120.0
    cooling_down: float = 30.0

    @property
    def places(self) -> dict[str, str]:
        names = [("hearts", "lungs")[n % 2] + f"-{n // 2 + 1}" for n in range(self.crowded + 2)]
        nodes = ["n1"] * self.crowded + ["n2", "n3"]
        return dict(zip(names, nodes, strict=True))


@dataclass(slots=True)
class FleetOutcome:
    mode: str
    plan: dict[str, Any]
    latencies: dict[str, list[float | None]] = field(default_factory=dict)
    """By query, for each second: of the records that arrived at its end. Second 0 is the hog's
    first; earlier ones are in `before`. None: it was not committed when the run ended."""
    before: dict[str, list[float | None]] = field(default_factory=dict)
    moves: list[dict[str, Any]] = field(default_factory=list)
    beats: dict[str, float] = field(default_factory=dict)
    where: dict[str, str | None] = field(default_factory=dict)

    @property
    def met(self) -> list[float]:
        """Share of queries within the target, by second."""
        return [
            sum(v is not None and v <= self.plan["target"] for v in second) / len(second)
            for second in zip(*self.latencies.values(), strict=True)
        ]

    def recovered(self, *, share: float = 0.95, over: int = 20) -> float | None:
        """Seconds until targets are met again: from there on for `over` seconds, in that share of
        all queries' seconds. None if that never comes."""
        met = self.met
        for start in range(len(met) - over + 1):
            if sum(met[start : start + over]) / over >= share:
                return float(start)
        return None


def run_fleet(mode: str, plan: Plan, tell: Callable[[str], None]) -> FleetOutcome:
    """`mode` is still or fleet: whether queries move by themselves once the hog is there."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2 or shutil.which("taskset") is None:
        raise FleetBenchError("the fleet is shown on two CPUs or more, with taskset (util-linux)")
    root = Path(tempfile.mkdtemp(prefix="laxity-fleet-"))
    origin = float(math.floor(time.time()))
    pipeline = root / "pipeline.py"
    pipeline.write_text(
        _PIPELINE.format(
            names=list(plan.places),
            origin=origin,
            seconds=_LONGEST,
            patients=plan.patients,
            target=plan.target,
            sink=str(root / "sink"),
        )
    )
    try:
        with ExitStack() as running:
            started = _Processes(root, running)
            places = [a for q, n in plan.places.items() for a in ("--place", f"{q}={n}")]
            rest = ["--nodes", "3", "--cooling-down", f"{plan.cooling_down}s"]
            orchestrator = started.laxity(
                "orchestrator", "fleet", "start", str(pipeline), *places, *rest, "--no-moves"
            )
            for name, cpu in zip(NODES, (cpus[0], cpus[1], cpus[1]), strict=True):
                started.agent(name, cpu, plan)
            client = Client(FolderLocator(root / "state"))
            tell(f"{mode}: three applications start, {len(plan.places)} queries are placed")
            _wait(lambda: _all_run(client, plan.places), started)
            tell(f"{mode}: all run; {plan.warmup:.0f} s of warm-up")
            time.sleep(plan.warmup)
            orchestrator.terminate()
            orchestrator.wait(30)
            moves = "--moves" if mode == "fleet" else "--no-moves"
            started.laxity("orchestrator", "fleet", "start", *rest, moves)
            hog_at = time.time()
            started.spawn("hog", ["taskset", "-c", str(cpus[0]), sys.executable, "-c", _HOG])
            tell(f"{mode}: a process that takes all it can get is beside n1")
            time.sleep(plan.seconds)
            started.check()
            fleet = client.fleet()
            ended = time.time()
        return _read(mode, plan, root, origin, hog_at, ended, fleet)
    finally:
        shutil.rmtree(root, ignore_errors=True)


class _Processes:
    """Ends what it started, and only that."""

    def __init__(self, root: Path, running: ExitStack) -> None:
        self._root, self._running = root, running
        self._all: dict[str, subprocess.Popen[bytes]] = {}

    def spawn(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with open(self._root / f"{name}.log", "ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self._all[name] = process
        self._running.enter_context(_ended(process))
        return process

    def laxity(self, name: str, *arguments: str, cpu: int | None = None) -> subprocess.Popen[bytes]:
        bound = [] if cpu is None else ["taskset", "-c", str(cpu)]
        state = ["--state-dir", str(self._root / "state")]
        return self.spawn(name, [*bound, sys.executable, "-m", "laxity", *arguments, *state])

    def agent(self, name: str, cpu: int, plan: Plan) -> None:
        conf = {"spark.sql.shuffle.partitions": 1, "spark.sql.streaming.minBatchesToRetain": 10000}
        settings = [a for k, v in conf.items() for a in ("--conf", f"{k}={v}")]
        self.laxity(
            name, "agent", "--name", name, "--master", "local[1]", "--memory", "700m",
            "--checkpoints", str(self._root / "checkpoints"), *settings,
            "--cooling-down", f"{plan.cooling_down}s", cpu=cpu,
        )  # fmt: skip

    def check(self) -> None:
        for name, process in self._all.items():
            if process.poll() not in (None, 0):
                told = (self._root / f"{name}.log").read_text()[-2000:]
                raise FleetBenchError(f"{name} ended by itself:\n{told}")


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)  # its own session: an agent has a JVM and workers below it
        process.wait()


def _all_run(client: Client, places: dict[str, str]) -> bool:
    try:
        queries = client.fleet()["queries"]
    except FleetError:
        return False
    done = [q["name"] for q in queries if q["state"] == "running" and q["measures"].get("batches")]
    return set(done) == set(places)


def _wait(condition: Callable[[], bool], started: _Processes, within: float = 240.0) -> None:
    until = time.monotonic() + within
    while not condition():
        started.check()
        if time.monotonic() > until:
            raise FleetBenchError(f"the fleet was not up within {within:.0f} s")
        time.sleep(0.5)


# What the files tell.


def _read(
    mode: str,
    plan: Plan,
    root: Path,
    origin: float,
    hog_at: float,
    ended: float,
    fleet: dict[str, Any],
) -> FleetOutcome:
    found = FleetOutcome(mode, asdict(plan))
    for name in plan.places:
        commits = _commits(root / "checkpoints" / name)
        found.latencies[name] = _by_second(commits, origin, hog_at, hog_at + plan.seconds, ended)
        before = hog_at - min(30.0, plan.warmup)
        found.before[name] = _by_second(commits, origin, before, hog_at, ended)
    for move in reversed(fleet["moves"]):
        keys = ("query", "source", "target", "step", "pause", "gap", "by")
        found.moves.append({"at": move["began"] - hog_at, **{k: move[k] for k in keys}})
    found.where = {q["name"]: q["node"] for q in fleet["queries"]}
    total, doubled = Match(0, 0, 0), 0
    for name in plan.places:
        if name.startswith("hearts"):
            until = _commits(root / "checkpoints" / name)[-1][0] * TICK
            one, twice = _beats(root / "sink" / name, plan.patients, until)
            total, doubled = total + one, doubled + twice
    found.beats = {
        "found": total.found, "sensitivity": total.sensitivity, "precision": total.precision,
        "doubled": doubled,
    }  # fmt: skip
    return found


def _commits(checkpoint: Path) -> list[tuple[int, float]]:
    """(ticks read up to, when committed) of each batch."""
    found = []
    for commit in (checkpoint / "commits").iterdir():
        if commit.name.isdigit():
            offsets = (checkpoint / "offsets" / commit.name).read_text().splitlines()
            found.append((int(offsets[-1]), commit.stat().st_mtime))
    return sorted(found)


def _by_second(
    commits: list[tuple[int, float]], origin: float, begin: float, end: float, ended: float
) -> list[float | None]:
    ticks = [tick for tick, _ in commits]
    found: list[float | None] = []
    for second in range(1, int(end - begin) + 1):
        tick = math.floor((begin + second - origin) / TICK)
        at = bisect.bisect_left(ticks, tick)
        arrived = origin + tick * TICK
        found.append(commits[at][1] - arrived if at < len(commits) else None)
    return found


def _beats(sink: Path, patients: int, until: float) -> tuple[Match, int]:
    """What the sink has of the beats there were, and how many it has twice. Only the files that
    its log lists count, as for any reader of Spark's file sink."""
    rows: Counter[tuple[int, int]] = Counter()
    files: set[str] = set()
    for entry in (sink / "_spark_metadata").iterdir():
        if entry.name.removesuffix(".compact").isdigit():
            lines = entry.read_text().splitlines()[1:]
            files |= {json.loads(line)["path"].removeprefix("file://") for line in lines}
    for file in files:
        for line in Path(file).read_text().splitlines():
            row = json.loads(line)
            rows[row["patient"], row["sample"]] += 1
    total = Match(0, 0, 0)
    for patient in range(patients):
        seen = [s / ECG_RATE for p, s in rows if p == patient]
        truth = [t for t in Patient(patient).beats(until) if 3 < t < until - 1]
        total += match([t for t in seen if 2.9 < t < until - 0.9], truth)
    return total, sum(count - 1 for count in rows.values())
