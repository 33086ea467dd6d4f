"""`laxity run` as a process that a benchmark starts, looks at and ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from laxity.core.errors import LaxityError

_LOCAL = ("spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1")
_START = 120.0
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class RunError(LaxityError, RuntimeError):
    """The run did not start, or ended early."""


class Running:
    """With a server on a free port of loopback. Times are CPU seconds, sizes bytes."""

    def __init__(
        self, pipeline: Path, scratch: Path, *flags: str, conf: Sequence[str] = ()
    ) -> None:
        self._log = scratch / "log"
        command = [sys.executable, "-m", "laxity", "run", str(pipeline), *flags]
        command += ["--address", "127.0.0.1:0"]
        for setting in (*_LOCAL, "spark.ui.enabled=false", *conf):
            command += ["--conf", setting]
        with self._log.open("w") as out:
            self._process = subprocess.Popen(command, cwd=scratch, stdout=out, stderr=out)
        self.url, self.token = "", ""

    def __enter__(self) -> Running:
        until = time.monotonic() + _START
        while not (match := re.search(r"(http://[\d.:]+)/#token=(\S+)", self._said())):
            if self._process.poll() is not None or time.monotonic() > until:
                self.end()
                raise RunError(f"the run did not start: {self._said()[-500:]}")
            time.sleep(0.1)
        self.url, self.token = match[1], match[2]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def end(self) -> int:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _said(self) -> str:
        return self._log.read_text()

    def get(self, path: str) -> bytes:
        if self._process.poll() is not None:
            raise RunError(f"the run ended early: {self._said()[-500:]}")
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return bytes(answer.read())

    def overview(self) -> dict[str, Any]:
        return dict(json.loads(self.get("/api/v1/overview")))

    @property
    def pid(self) -> int:
        """Python: Laxity's loop and the server."""
        return self._process.pid

    @property
    def jvm(self) -> int:
        """Spark's driver, here with its executor."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return int(children[0])


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
