"""A fleet small enough for tests: a file-to-file micro-batch engine with Spark's way of keeping
offsets and commits, and a network that can be cut.

    python -m laxity.fleet.testing --name n1 --state-dir DIR

runs an agent on that engine, as a process of its own. Pipelines of it are ordinary pipeline files
whose functions return a `FileCopy`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import select
import signal
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from laxity.fleet.agent import Agent, AgentSettings
from laxity.fleet.checkpoint import read_progress
from laxity.fleet.client import Client, FixedLocator, FolderLocator, Locator, read_token
from laxity.fleet.engine import Guard, Measures, Prepared, RunState
from laxity.fleet.load import NodeLoad, default_decisions
from laxity.fleet.refusals import FencedError, PreparationError, StoreAwayError
from laxity.fleet.zookeeper import ZooKeeperLocator
from laxity.pipeline import Pipeline, load_pipeline

_RECENT = 3.0
"""Seconds that measurements look back."""


@dataclass(frozen=True)
class FileCopy:
    """Copies the numbers in the files of one folder, in order of their names, to another."""

    source: Path
    sink: Path
    checkpoint: Path
    files_per_batch: int = 1
    batch_seconds: float = 0.0
    cpu_seconds: float = 0.0
    """What a batch burns: queries of one process then do get into each other's way."""
    prepare_seconds: float = 0.0
    start_seconds: float = 0.0


def sink_rows(sink: Path) -> list[int]:
    """What a reader of the sink sees: the rows of committed batches, as with Spark's file sink."""
    rows: list[int] = []
    for entry in sorted((sink / "_metadata").iterdir()):
        rows += json.loads((sink / json.loads(entry.read_text())["file"]).read_text())
    return rows


def _create(path: Path, text: str) -> None:
    """All of it or nothing, and only if it is not there (what Spark's logs rely on)."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    draft.write_text(text)
    try:
        os.link(draft, path)
    finally:
        draft.unlink()


def _burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


@dataclass
class _Run:
    copy: FileCopy
    guard: Guard
    stop: threading.Event = field(default_factory=threading.Event)
    error: str = ""
    first_batch_at: float | None = None
    last_batch_at: float = 0.0
    batches: int = 0
    recent: deque[tuple[float, float, int]] = field(default_factory=deque)
    """(ended at, seconds it took, rows) of each batch of the last moments."""
    thread: threading.Thread | None = None

    def check(self) -> None:
        if self.guard.next.exists():
            raise FencedError("fenced")
        if not self.guard.mine.exists():
            raise StoreAwayError("the lease is not there")

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                if not self._batch():
                    self.stop.wait(0.02)
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"

    def _batch(self) -> bool:
        """Plan it, do it, commit it; or do again what was planned and not committed."""
        root, sink = self.copy.checkpoint, self.copy.sink
        self.check()
        progress = read_progress(root)
        number = progress.commits + 1
        plan = root / "offsets" / str(number)
        if progress.offsets < number:
            names = sorted(p.name for p in self.copy.source.iterdir() if p.suffix == ".json")
            done = set(self._done(root, progress.offsets))
            todo = [n for n in names if n not in done][: self.copy.files_per_batch]
            if not todo:
                return False
            self.check()
            _create(plan, json.dumps(todo))
        began = time.monotonic()
        todo = json.loads(plan.read_text())
        rows = [row for name in todo for row in json.loads((self.copy.source / name).read_text())]
        time.sleep(self.copy.batch_seconds)
        _burn(self.copy.cpu_seconds)
        entry = sink / "_metadata" / str(number).zfill(8)
        if not entry.exists():
            part = f"part-{number}-{secrets.token_hex(4)}.json"
            (sink / part).write_text(json.dumps(rows))
            _create(entry, json.dumps({"file": part}))
        self.check()
        _create(root / "commits" / str(number), "")
        self.last_batch_at = time.time()
        self.first_batch_at = self.first_batch_at or self.last_batch_at
        self.batches += 1
        ended = time.monotonic()
        self.recent.append((ended, ended - began, len(rows)))
        return True

    def measured(self, query: str) -> Measures:
        now = time.monotonic()
        while self.recent and self.recent[0][0] < now - _RECENT:
            self.recent.popleft()
        batches = list(self.recent)
        rows = sum(count for _, _, count in batches)
        busy = sum(seconds for _, seconds, _ in batches)
        return Measures(
            query, rows / _RECENT, busy / rows if rows else 0.0, 8.0, batches=self.batches
        )

    @staticmethod
    def _done(root: Path, upto: int) -> list[str]:
        return [
            name
            for n in range(upto + 1)
            for name in json.loads((root / "offsets" / str(n)).read_text())
        ]


class FileEngine:
    """Queries as threads of the agent's process."""

    name = "files"
    cores = 1

    def __init__(self, version: str = "1.0.0", checkpoints: Path | None = None) -> None:
        self.version = version
        self._elsewhere = checkpoints
        self._pipelines: dict[str, Pipeline] = {}
        self._copies: dict[str, FileCopy] = {}
        self._runs: dict[str, _Run] = {}

    def prepare(self, pipeline: str, digest: str, query: str) -> Prepared:
        loaded = load_pipeline(pipeline)
        if loaded.digest != digest:
            raise PreparationError(f"{pipeline} is another version here")
        copy: FileCopy = loaded[query].build(self)
        if self._elsewhere is not None:  # a node that mounts something else there
            copy = FileCopy(**{**vars(copy), "checkpoint": self._elsewhere / query})
        time.sleep(copy.prepare_seconds)
        self._copies[query] = copy
        return Prepared(query, copy.checkpoint, loaded.digest)

    def start(self, query: str, guard: Guard) -> None:
        copy = self._copies[query]
        time.sleep(copy.start_seconds)
        run = _Run(copy, guard)
        run.check()
        for folder in (copy.checkpoint / "offsets", copy.checkpoint / "commits"):
            folder.mkdir(exist_ok=True)
        (copy.sink / "_metadata").mkdir(parents=True, exist_ok=True)
        run.thread = threading.Thread(target=run.run, name=f"copy-{query}", daemon=True)
        self._runs[query] = run
        run.thread.start()

    def stop(self, query: str, patience: float) -> float:
        run = self._runs.pop(query, None)
        if run is None or run.thread is None:
            return time.time()
        run.stop.set()
        run.thread.join(patience)
        return max(run.last_batch_at, time.time() if run.batches == 0 else run.last_batch_at)

    def abandon(self, query: str) -> None:
        self.stop(query, 0.0)

    def forget(self, query: str) -> None:
        self._copies.pop(query, None)

    def state(self, query: str) -> RunState:
        run = self._runs.get(query)
        if run is None or run.thread is None:
            return RunState(False, "not started")
        return RunState(run.thread.is_alive(), run.error, run.first_batch_at)

    def measures(self) -> list[Measures]:
        return [run.measured(query) for query, run in list(self._runs.items())]

    def processes(self) -> list[int]:
        return [os.getpid()]

    def close(self) -> None:
        for query in list(self._runs):
            self.abandon(query)


class CuttableProxy:
    """TCP on loopback to one port, until it is cut: then open connections hang, as packets do
    that nobody answers, and new ones are refused."""

    def __init__(self, to_port: int) -> None:
        self._to = to_port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._cut = threading.Event()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._cut.set()

    def heal(self) -> None:
        self._cut.clear()

    def close(self) -> None:
        self._closed = True
        self._listening.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            if self._cut.is_set():
                near.close()
                continue
            threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError):
            far = socket.create_connection(("127.0.0.1", self._to), timeout=5)
            with far:
                far.settimeout(None)
                self._both_ways(near, far)

    def _both_ways(self, near: socket.socket, far: socket.socket) -> None:
        while not self._closed:
            if self._cut.is_set():
                time.sleep(0.05)
                continue
            ready, _, _ = select.select([near, far], [], [], 0.1)
            for end in ready:
                data = end.recv(65536)
                if not data:
                    return
                (far if end is near else near).sendall(data)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="An agent on the file-to-file engine.")
    parser.add_argument("--name", required=True)
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--url")
    parser.add_argument("--zookeeper")
    parser.add_argument("--version", default="1.0.0")
    parser.add_argument("--checkpoints", type=Path)
    parser.add_argument("--ttl", type=float, default=2.0)
    parser.add_argument("--period", type=float, default=0.2)
    parser.add_argument("--cooling-down", type=float, default=30.0)
    parser.add_argument("--cpu", type=int, help="run on this CPU alone, as on a host of its own")
    options = parser.parse_args(arguments)
    if options.cpu is not None:
        os.sched_setaffinity(0, {options.cpu})
    locator: Locator = FolderLocator(options.state_dir)
    if options.url:
        locator = FixedLocator([options.url], read_token(options.state_dir / "token"))
    if options.zookeeper:
        token = read_token(options.state_dir / "token")
        locator = ZooKeeperLocator(options.zookeeper, token)
    agent = Agent(
        options.name,
        FileEngine(options.version, options.checkpoints),
        Client(locator, timeout=2.0),
        AgentSettings(period=options.period, ttl=options.ttl, stop_patience=20.0),
        assess=NodeLoad(
            options.name,
            default_decisions(cooling_down=options.cooling_down),
            step=options.period,
        ),
    )
    signal.signal(signal.SIGTERM, lambda *_: agent.stop())
    agent.run()


if __name__ == "__main__":
    main()
