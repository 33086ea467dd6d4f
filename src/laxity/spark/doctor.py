"""`laxity doctor`: would Laxity work here, and what to do where it would not."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib import metadata, util
from pathlib import Path

from rich.console import Console
from rich.table import Table

from laxity import __version__
from laxity.spark.bridge import SUPPORTED

LEAST_PYTHON = (3, 11)
LEAST_JAVA = 17
_SERVER = ("fastapi", "uvicorn", "dash", "prometheus_client", "a2wsgi")


class Verdict(StrEnum):
    GOOD = "good"
    WARN = "weak"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    verdict: Verdict
    found: str
    advice: str = ""


def examine(checkpoints: Path | None, address: str, *, quick: bool) -> list[Finding]:
    checks: list[Callable[[], Finding]] = [
        python,
        java,
        spark_version,
        server_packages,
        lambda: port(address),
        thread_priorities,
        control_groups,
        lambda: checkpoint_files(checkpoints or Path.cwd()),
        memory,
    ]
    if not quick:
        checks.append(hooks)
    return [_safely(check) for check in checks]


def _safely(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except Exception as error:
        return Finding("doctor", Verdict.WARN, f"a check broke: {type(error).__name__}: {error}")


def python() -> Finding:
    version = sys.version.split()[0]
    if sys.version_info < LEAST_PYTHON:
        return Finding("Python", Verdict.BAD, version, "install Python 3.11 or newer")
    return Finding("Python", Verdict.GOOD, f"{version}, Laxity {__version__}")


def java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = "install Java 17 or newer (apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    if command is None or not Path(command).exists():
        where = f"none in JAVA_HOME ({home})" if home else "none on the PATH"
        return Finding("Java", Verdict.BAD, where, advice)
    shown = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=30)
    match = re.search(r'version "(\d+)', shown.stderr + shown.stdout)
    major = int(match[1]) if match else 0
    if major < LEAST_JAVA:
        return Finding("Java", Verdict.BAD, f"version {major or 'unknown'}", advice)
    return Finding("Java", Verdict.GOOD, f"version {major} at {command}")


def spark_version() -> Finding:
    advice = f"pip install 'laxity[spark]' (Spark {', '.join(SUPPORTED)})"
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        try:
            version = metadata.version("pyspark-client")
            return Finding(
                "Spark", Verdict.BAD, f"{version}, the Connect client: it has no driver", advice
            )
        except metadata.PackageNotFoundError:
            return Finding("Spark", Verdict.BAD, "not installed", advice)
    if ".".join(version.split(".")[:2]) not in SUPPORTED:
        return Finding("Spark", Verdict.BAD, f"{version} is not supported", advice)
    home = os.environ.get("SPARK_HOME")
    return Finding("Spark", Verdict.GOOD, f"{version}, SPARK_HOME {home}" if home else version)


def server_packages() -> Finding:
    missing = [name for name in _SERVER if util.find_spec(name) is None]
    if missing:
        return Finding(
            "Server",
            Verdict.WARN,
            f"missing: {', '.join(missing)}",
            "pip install 'laxity[server]', or run with --no-server",
        )
    return Finding("Server", Verdict.GOOD, "all packages are there")


def port(address: str) -> Finding:
    host, _, number = address.rpartition(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host or "127.0.0.1", int(number)))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            return Finding(
                "Port",
                Verdict.WARN,
                f"{address}: {reason}",
                "choose another with --address, or port 0 for any that is free",
            )
    return Finding("Port", Verdict.GOOD, f"{address} is free")


def thread_priorities() -> Finding:
    from laxity.host.kernel import LinuxKernel

    if not sys.platform.startswith("linux"):
        return Finding("Priorities", Verdict.WARN, sys.platform, "thread priorities need Linux")
    least = LinuxKernel().most_urgent_nice()
    if least > -5:
        return Finding(
            "Priorities",
            Verdict.WARN,
            f"threads may go to nice {least}, not to -5",
            "works without; for all of it: setcap cap_sys_nice+ep on Java, or LimitNICE=-5 "
            "(systemd), or securityContext.capabilities.add SYS_NICE (Kubernetes)",
        )
    return Finding("Priorities", Verdict.GOOD, "nice values may be lowered")


def control_groups() -> Finding:
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        kind, writable = "v2", os.access(root / "cgroup.procs", os.W_OK)
    elif (root / "cpu").exists():
        kind, writable = "v1", os.access(root / "cpu", os.W_OK)
    else:
        return Finding("Control groups", Verdict.WARN, "none", "only `laxity host` could use them")
    if not writable:
        return Finding(
            "Control groups",
            Verdict.WARN,
            f"{kind}, not writable",
            "only `laxity host --translator shares` needs them: run it as root or delegate one",
        )
    return Finding("Control groups", Verdict.GOOD, f"{kind}, writable")


def checkpoint_files(folder: Path) -> Finding:
    """A commit writes a few small files and renames them: how long does that take?"""
    existing = next((p for p in (folder, *folder.absolute().parents) if p.is_dir()), Path("/"))
    try:
        with tempfile.TemporaryDirectory(dir=existing, prefix=".laxity-doctor-") as scratch:
            best = min(_commit(Path(scratch), number) for number in range(5))
    except OSError as error:
        return Finding(
            "Checkpoints",
            Verdict.BAD,
            f"{existing}: {error.strerror}",
            "choose a folder that can be written: --checkpoints DIR",
        )
    text = f"{_file_system(existing)}, a file is committed in {best * 1000:.1f} ms"
    if best > 0.05:
        return Finding(
            "Checkpoints",
            Verdict.WARN,
            text,
            "every batch commits several files: put checkpoints on a faster file system",
        )
    free = shutil.disk_usage(existing).free
    if free < 1 << 30:
        advice = "less than 1 GB is free: make room"
        return Finding("Checkpoints", Verdict.WARN, text, advice)
    return Finding("Checkpoints", Verdict.GOOD, text)


def _commit(folder: Path, number: int) -> float:
    began = time.perf_counter()
    part = folder / f"{number}.tmp"
    with part.open("wb") as file:
        file.write(b"x" * 1000)
        file.flush()
        os.fsync(file.fileno())
    part.rename(folder / str(number))
    return time.perf_counter() - began


def _file_system(folder: Path) -> str:
    best, kind = "", "unknown"
    try:
        for line in Path("/proc/mounts").read_text().splitlines():
            _, mount, found, *_ = line.split()
            if folder.resolve().is_relative_to(mount) and len(mount) >= len(best):
                best, kind = mount, found
    except (OSError, ValueError):
        pass
    return kind


def memory() -> Finding:
    try:
        pages = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return Finding("Memory", Verdict.WARN, "unknown")
    text = f"{pages / 2**30:.1f} GB free, {os.cpu_count()} cores"
    if pages < 1 << 30:
        return Finding("Memory", Verdict.WARN, text, "a local driver wants 1 GB or more")
    return Finding("Memory", Verdict.GOOD, text)


_TRY_HOOKS = """
import sys
from pyspark.sql import SparkSession
import laxity
spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.memory", "512m").config("spark.ui.showConsoleProgress", "false")
    .getOrCreate())
spark.sparkContext.setLogLevel("OFF")
lx = laxity.attach(spark)
notices = lx.status().notices
lx.detach()
print("notices:" + " | ".join(notices))
spark.stop()
"""


def hooks() -> Finding:
    """A small session in a process of its own: attach and detach."""
    done = subprocess.run(
        [sys.executable, "-c", _TRY_HOOKS], capture_output=True, text=True, timeout=180
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("notices:")]
    if done.returncode != 0 or not told:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        reason = lines[-1] if lines else "no reason given"
        return Finding(
            "Hooks", Verdict.BAD, reason[:200], "mend Java and Spark above; then try again"
        )
    notice = told[-1].removeprefix("notices:")
    if notice:
        return Finding("Hooks", Verdict.WARN, notice, "Laxity works, with this part left to Spark")
    return Finding("Hooks", Verdict.GOOD, "attached to a local Spark and detached again")


_COLOURS = {Verdict.GOOD: "green", Verdict.WARN: "yellow", Verdict.BAD: "bold red"}


def show(findings: Iterable[Finding], *, as_json: bool) -> int:
    """Print them; returns the exit code."""
    found = list(findings)
    if as_json:
        print(json.dumps([asdict(f) for f in found], indent=2))
    else:
        table = Table(box=None, pad_edge=False)
        for column in ("check", "", "found", "what to do"):
            table.add_column(column, overflow="fold")
        for f in found:
            colour = _COLOURS[f.verdict]
            table.add_row(f.check, f"[{colour}]{f.verdict}[/]", f.found, f.advice)
        Console(highlight=False).print(table)
    return 1 if any(f.verdict is Verdict.BAD for f in found) else 0
