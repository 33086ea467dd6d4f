"""The synthetic engine of the host benchmark, in a JVM of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from types import TracebackType
from typing import Any

from laxity.core.errors import LaxityError

THREAD_PATTERN = r"^(?P<query>q\d+)-(?P<operator>o\d+)$"


class EngineFailedError(LaxityError, RuntimeError):
    """The synthetic engine did not start or broke off."""


class SyntheticEngine:
    """20 pipelines of 5 operators, unless told otherwise; see java/Pipelines.java."""

    def __init__(
        self, metrics: Path, *, pipelines: int = 20, operators: int = 5, seed: int = 1
    ) -> None:
        self.metrics = metrics
        self._arguments = [str(metrics), str(pipelines), str(operators), str(seed)]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> SyntheticEngine:
        if shutil.which("java") is None:
            raise EngineFailedError("the synthetic engine needs a JDK 17 or newer: no java found")
        resource = files("laxity.bench") / "java" / "Pipelines.java"
        with as_file(resource) as source:
            self._process = subprocess.Popen(
                ["java", "-Xms1g", "-Xmx1g", "-XX:+UseSerialGC", str(source), *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self.calibration = self._ask("calibrate")
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def rate(self, load: float) -> float:
        """Tuples/s into each pipeline under which the operators want `load` of all cores."""
        cores = len(os.sched_getaffinity(0))
        return float(load * cores / self.calibration["demand"])

    def run(
        self,
        rate: float,
        *,
        settle: float,
        seconds: float,
        blocking: bool,
        targets: Sequence[float],
    ) -> dict[str, float]:
        wanted = ",".join(map(str, targets))
        return self._ask(f"run {rate} {settle} {seconds} {str(blocking).lower()} {wanted}")

    def _ask(self, command: str) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(command + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise EngineFailedError(
                f"the synthetic engine ended with code {process.wait()}; it needs a JDK 17+ "
                f"(`java File.java`), a runtime alone is not enough"
            )
        result: dict[str, Any] = json.loads(answer)
        return result

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
