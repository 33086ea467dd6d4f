"""Work in a process and a JVM of its own, so that no measurement inherits another's warm caches.

The child is `python -m laxity.bench.process JOB`. It prints JSON lines: `{"said": …}` while it
works, and `{"result": …}` at the end.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from laxity.core.errors import LaxityError

Say = Callable[[Any], None]


class Job(Protocol):
    """Pickled into the child. Results and whatever is said must survive JSON."""

    @property
    def label(self) -> str: ...

    def perform(self, scratch: Path, say: Say) -> Any:
        """Files go to `scratch`, which is removed afterwards."""


class JobError(LaxityError, RuntimeError):
    """A job's process ended without a result."""


def run_apart(job: Job, *, on_said: Say = lambda line: None) -> Any:
    with tempfile.TemporaryDirectory(prefix="laxity-bench-", ignore_cleanup_errors=True) as folder:
        file = Path(folder, "job")
        file.write_bytes(pickle.dumps(job))
        errors = Path(folder, "stderr.txt")
        with (
            errors.open("w") as stderr,
            subprocess.Popen(
                [sys.executable, "-m", "laxity.bench.process", str(file)],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            ) as child,
        ):
            try:
                answered, result = _follow(child, on_said)
            finally:
                child.terminate()
        if not answered:
            last = errors.read_text().strip().splitlines()[-1:] or ["no output"]
            raise JobError(f"{job.label} ended without a result: {last[0]}")
        return result


def _follow(child: subprocess.Popen[str], on_said: Say) -> tuple[bool, Any]:
    assert child.stdout is not None
    answered, result = False, None
    for text in child.stdout:
        try:
            line = json.loads(text)
        except ValueError:
            continue  # Spark prints a line of its own now and then
        if "said" in line:
            on_said(line["said"])
        if "result" in line:
            answered, result = True, line["result"]
    child.wait()
    return answered, result


def _main(file: Path) -> None:
    job: Job = pickle.loads(file.read_bytes())

    def tell(kind: str, what: Any) -> None:
        print(json.dumps({kind: what}), flush=True)

    tell("result", job.perform(file.parent, lambda what: tell("said", what)))


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
