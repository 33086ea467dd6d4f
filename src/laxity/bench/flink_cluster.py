"""A standalone Flink from PyPI's `apache-flink`, for tests and benchmarks.

It is large and brings its own pins, so it lives in an environment of its own, which
`LAXITY_FLINK_HOME` points to: the folder `pyflink` inside that environment's site-packages.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from urllib.request import urlopen

from laxity.core.errors import LaxityError

HOME_VARIABLE = "LAXITY_FLINK_HOME"


_SUBMIT = """
import json, sys
from pyflink.table import EnvironmentSettings, TableEnvironment
work = json.load(sys.stdin)
for name, statements in work["jobs"]:
    table = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in {
        "execution.target": "remote",
        "rest.address": "localhost",
        "rest.port": str(work["port"]),
        "pipeline.name": name,
        "parallelism.default": str(work["parallelism"]),
        "pipeline.operator-chaining.enabled": "false",
    }.items():
        table.get_config().set(key, value)
    for statement in statements:
        table.execute_sql(statement)
"""


class FlinkUnavailableError(LaxityError, RuntimeError):
    """No Flink is installed, or it does not come up."""


def flink_home() -> Path:
    named = os.environ.get(HOME_VARIABLE)
    home = Path(named) if named else next(iter(_beside()), None)
    if home is None or not (home / "bin" / "jobmanager.sh").exists():
        raise FlinkUnavailableError(
            f"no Flink: run `make flink`, or install apache-flink into an environment of its own "
            f"and set {HOME_VARIABLE} to its site-packages/pyflink folder (now {named!r})"
        )
    return home


def _beside() -> list[Path]:
    """Where `make flink` puts it."""
    return sorted(Path.cwd().glob(".venv-flink/lib/python*/site-packages/pyflink"))


class FlinkCluster:
    """One job manager and one task manager on free local ports, gone at the end."""

    def __init__(
        self,
        folder: Path,
        *,
        slots: int = 32,
        memory: str = "1400m",
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """`settings` go into Flink's configuration and win over those made here."""
        self._home = flink_home()
        self.folder = folder
        self._slots = slots
        self._memory = memory
        self._settings = dict(settings or {})
        self._processes: list[subprocess.Popen[bytes]] = []
        self.port = _free_port()
        self.url = f"http://localhost:{self.port}"

    def __enter__(self) -> FlinkCluster:
        conf = self.folder / "conf"
        shutil.copytree(self._home / "conf", conf)
        (conf / "config.yaml").write_text(self._configuration())
        try:
            for script in ("jobmanager.sh", "taskmanager.sh"):
                self._start(script)
            self._wait_for_slots()
        except BaseException:
            self.stop()
            raise
        return self

    def _configuration(self) -> str:
        settings = {
            "jobmanager.rpc.address": "localhost",
            "jobmanager.rpc.port": _free_port(),
            "jobmanager.memory.process.size": "900m",
            "taskmanager.host": "localhost",
            "taskmanager.memory.process.size": self._memory,
            "taskmanager.memory.managed.size": "64m",
            "taskmanager.numberOfTaskSlots": self._slots,
            "taskmanager.memory.network.min": "128m",
            "taskmanager.memory.network.max": "128m",
            "rest.port": self.port,
            "rest.address": "localhost",
            "rest.bind-address": "localhost",
            # Values younger than this are served from a cache; the default is 10 s.
            "metrics.fetcher.update-interval": "500 ms",
            "metrics.latency.interval": "50 ms",
            "pipeline.operator-chaining.enabled": "false",
            "io.tmp.dirs": self.folder / "tmp",
            **self._settings,
        }
        (self.folder / "tmp").mkdir()
        return "".join(f"{key}: {value}\n" for key, value in settings.items())

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "FLINK_HOME": str(self._home),
            "FLINK_CONF_DIR": str(self.folder / "conf"),
            "FLINK_LOG_DIR": str(self.folder),
            "FLINK_PID_DIR": str(self.folder),
        }

    def _start(self, script: str) -> None:
        with (self.folder / f"{script}.out").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    ["bash", str(self._home / "bin" / script), "start-foreground"],
                    env=self._environment(),
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )

    def _wait_for_slots(self) -> None:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            if any(process.poll() is not None for process in self._processes):
                break
            try:
                with urlopen(f"{self.url}/overview", timeout=2) as answer:
                    if json.load(answer).get("slots-available"):
                        return
            except OSError:
                pass
            time.sleep(0.2)
        logs = "\n".join(p.read_text()[-800:] for p in self.folder.glob("*.out"))
        raise FlinkUnavailableError(f"Flink did not come up: {logs}")

    @property
    def task_manager(self) -> int:
        return self._processes[1].pid

    def cpu_seconds(self) -> float:
        """CPU time of both managers."""
        total = 0
        for process in self._processes:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")

    def submit_sql(self, jobs: Mapping[str, Sequence[str]], *, parallelism: int = 1) -> None:
        """Job name → SQL statements, the last of them an INSERT. Returns when all are submitted.

        PyPI's Flink has no SQL client, so its own Python runs them.
        """
        work = {
            "home": str(self._home),
            "port": self.port,
            "parallelism": parallelism,
            "jobs": [[name, list(statements)] for name, statements in jobs.items()],
        }
        python = self._home.parents[3] / "bin" / "python"
        done = subprocess.run(
            [str(python), "-c", _SUBMIT],
            input=json.dumps(work),
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=240,
        )
        if done.returncode:
            raise FlinkUnavailableError(f"Flink refused a job: {done.stderr[-1500:]}")

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])
