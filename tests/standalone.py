"""A standalone Spark of this machine's own: a master and workers, each a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

HOST = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")

Worker = subprocess.Popen[bytes]


@contextlib.contextmanager
def standalone(folder: Path, *, workers: int, cores: int) -> Iterator[tuple[str, list[Worker]]]:
    """The master's address and the workers, all of which are registered."""
    started = [_spark_class(folder, "master", "master.Master", *HOST)]
    try:
        url = _logged(folder, "master", r"Starting Spark master at (spark://\S+)")[1]
        size = ("--cores", str(cores), "--memory", "1g")
        names = [f"worker-{i}" for i in range(workers)]
        for name in names:
            started.append(_spark_class(folder, name, "worker.Worker", *HOST, *size, url))
        for name in names:
            _logged(folder, name, "Successfully registered with master")
        yield url, started[1:]
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _spark_class(folder: Path, name: str, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments],
            env=os.environ
            | {
                "SPARK_HOME": str(home),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_WORKER_DIR": str(folder / name),
            },
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a worker dies together with its executors
        )


def _logged(folder: Path, name: str, pattern: str, seconds: float = 90) -> re.Match[str]:
    until = time.monotonic() + seconds
    while True:
        text = (folder / f"{name}.log").read_text(errors="replace")
        found = re.search(pattern, text)
        if found:
            return found
        assert time.monotonic() < until, text[-3000:]
        time.sleep(0.1)
