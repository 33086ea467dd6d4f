"""Run the Spark tests on every Spark version Laxity supports: `make compat`.

Each version gets an environment of its own under .compat/, made once. What follows `--` goes to
pytest. The exit code says whether all versions passed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("4.0", "4.1", "4.2", "4.3")
_COUNTS = re.compile(r"(\d+) (passed|failed|errors?|skipped|deselected)")


@dataclass(frozen=True)
class Outcome:
    asked: str
    pyspark: str
    passed: bool
    summary: str
    seconds: float


def environment(version: str) -> Path:
    """The Python of an environment with the newest patch of that Spark version."""
    home = ROOT / ".compat" / version
    python, stamp = home / "bin" / "python", home / ".installed"
    if stamp.exists() and stamp.stat().st_mtime >= (ROOT / "pyproject.toml").stat().st_mtime:
        return python
    print(f"Setting up Spark {version} ...", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--upgrade", "pip>=25.1"], check=True)
    subprocess.run(
        [*pip, "--group", "dev", "-e", ".", f"pyspark=={version}.*"], cwd=ROOT, check=True
    )
    subprocess.run([*pip, "-e", "examples/deadline-monotonic"], cwd=ROOT, check=True)
    stamp.touch()
    return python


def pyspark_version(python: Path) -> str:
    command = [str(python), "-c", "import pyspark; print(pyspark.__version__)"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def run(version: str, pytest_arguments: list[str]) -> Outcome:
    python = environment(version)
    exact = pyspark_version(python)
    print(f"\n=== Spark {exact} ===", flush=True)
    started = time.monotonic()
    command = [str(python), "-m", "pytest", "-m", "not slow", "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [*command, *(pytest_arguments or ["tests/spark"])],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        if _COUNTS.search(line):
            last = line
    code = process.wait()
    counts = ", ".join(f"{n} {what}" for n, what in _COUNTS.findall(last)) or f"exit code {code}"
    return Outcome(version, exact, code == 0, counts, time.monotonic() - started)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--versions", nargs="+", default=VERSIONS, metavar="X.Y")
    parser.add_argument("--setup-only", action="store_true", help="make the environments and stop")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    given = parser.parse_args()
    if given.setup_only:
        for version in given.versions:
            print(version, pyspark_version(environment(version)))
        return 0
    outcomes = [run(version, given.pytest) for version in given.versions]
    print(f"\n{'Spark':<8} {'result':<8} {'tests':<40} {'time':>7}")
    for outcome in outcomes:
        result = "works" if outcome.passed else "FAILS"
        print(f"{outcome.pyspark:<8} {result:<8} {outcome.summary:<40} {outcome.seconds:>5.0f} s")
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
