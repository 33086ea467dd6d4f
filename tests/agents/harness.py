"""A fleet of real processes on this machine, for tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from laxity.fleet.client import Client, FixedLocator, FolderLocator
from laxity.fleet.refusals import FleetError

PIPELINE = """
import os
from pathlib import Path
import laxity
from laxity.fleet.testing import FileCopy

ROOT = Path({root!r})

def copy_of(name):
    @laxity.query(name=name, target="1s")
    def build(session):
        knobs = {{"batch_seconds": 0.0}}
        knob_file = ROOT / "knobs.json"
        if knob_file.exists():
            import json
            knobs.update(json.loads(knob_file.read_text()).get(os.environ.get("NODE"), {{}}))
        return FileCopy(ROOT / "in" / name, ROOT / "out" / name, ROOT / "store" / name, **knobs)
    return build

for _name in {names!r}:
    globals()[_name] = copy_of(_name)
"""


class Fleet:
    """Starts processes and remembers which; ends those, and only those."""

    def __init__(self, root: Path, queries: list[str]) -> None:
        self.root = root
        self.state = root / "state"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.fed: dict[str, int] = dict.fromkeys(queries, 0)
        self.store = root / "store"
        (root / "real-store").mkdir(parents=True)
        self.store.symlink_to(root / "real-store")
        for query in queries:
            (root / "in" / query).mkdir(parents=True)
        self.pipeline = root / "pipeline.py"
        self.pipeline.write_text(
            textwrap.dedent(PIPELINE).format(root=str(root), names=list(queries))
        )
        self.client = Client(FolderLocator(self.state), timeout=5.0)

    # Processes.

    def orchestrator(self, name: str = "orchestrator", *arguments: str) -> None:
        command = [sys.executable, "-m", "laxity", "fleet", "start", "--lost-after", "3s"]
        self.spawn(name, [*command, "--state-dir", str(self.state), *arguments])

    def agent(self, name: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "laxity.fleet.testing", "--name", name]
        self.spawn(name, [*command, "--state-dir", str(self.state), *arguments], NODE=name)

    def spawn(self, name: str, command: list[str], **environment: str) -> None:
        with open(self.root / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, **environment}
            )

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def signal(self, name: str, what: signal.Signals) -> None:
        self.processes[name].send_signal(what)

    def stop(self, name: str) -> None:
        process = self.processes.pop(name)
        process.terminate()
        process.wait(60)

    def close(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
        for process in self.processes.values():
            process.wait()

    def log(self, name: str) -> str:
        return (self.root / f"{name}.log").read_text()

    # Data.

    def feed(self, query: str, files: int = 1, rows: int = 10) -> None:
        for _ in range(files):
            first = self.fed[query]
            self.fed[query] += rows
            draft = self.root / "in" / query / f".{first:09}"
            draft.write_text(json.dumps(list(range(first, first + rows))))
            draft.rename(draft.with_name(f"{first:09}.json"))

    def knobs(self, **by_node: dict[str, Any]) -> None:
        (self.root / "knobs.json").write_text(json.dumps(by_node))

    # Looking.

    def show(self) -> dict[str, Any]:
        try:
            return self.client.fleet()
        except FleetError:
            return {"nodes": [], "queries": [], "moves": [], "events": []}

    def query(self, name: str) -> dict[str, Any]:
        for query in self.show()["queries"]:
            if query["name"] == name:
                return query
        return {"node": None, "state": "unknown", "moving": None, "reason": ""}

    def node(self, name: str) -> dict[str, Any]:
        for node in self.show()["nodes"]:
            if node["name"] == name:
                return node
        return {"reach": "unknown", "runs": []}

    def runs(self, query: str, node: str | None = None) -> bool:
        seen = self.query(query)
        return seen["state"] == "running" and node in (None, seen["node"]) and not seen["moving"]

    def last_move(self, query: str) -> dict[str, Any] | None:
        for move in self.show()["moves"]:
            if move["query"] == query and move["ended"]:
                return move
        return None

    def wait(self, condition: Callable[[], Any], what: str, seconds: float = 60.0) -> Any:
        until = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > until:
                told = {name: self.log(name)[-1500:] for name in self.processes}
                raise AssertionError(f"not within {seconds} s: {what}\n{self.show()}\n{told}")
            time.sleep(0.05)

    def moving(self, query: str, step: str) -> bool:
        moving = self.query(query)["moving"]
        return bool(moving and moving["step"] == step)

    def up(self, *names: str) -> None:
        self.wait(
            lambda: all(self.node(n)["reach"] == "up" for n in names), f"{names} up", seconds=120
        )

    def through(self, url: str) -> Client:
        return Client(FixedLocator([url], (self.state / "token").read_text()))
