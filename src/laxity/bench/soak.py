"""Does memory stay flat? `laxity run` on its own example, scraped every second, for long.

Prints the resident memory of the Python process and of the driver's JVM: the median of the second
quarter of the run (the first is warming up) beside that of the last.
"""

from __future__ import annotations

import json as jsonlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from laxity.core.errors import LaxityError
from laxity.templates import write_example


class SoakError(LaxityError, RuntimeError):
    """What was to be watched did not start, or ended early."""


def run(*, minutes: float, every: float, json: Path | None) -> None:
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="laxity-soak-") as scratch:
        folder = Path(scratch)
        write_example(folder)
        if every:
            _spread(folder / "pipeline.py", every)
        samples = _soak(folder, minutes * 60.0, console)
    table = Table(box=None, pad_edge=False)
    for column in ("process", "second quarter", "last quarter", "growth"):
        table.add_column(column, justify="left" if column == "process" else "right")
    found = {}
    for name in ("python", "jvm"):
        values = [sample[name] for sample in samples]
        quarter = max(1, len(values) // 4)
        early, late = median(values[quarter : 2 * quarter]), median(values[-quarter:])
        found[name] = {"early": early, "late": late}
        growth = f"{late / early - 1:+.1%}"
        table.add_row(name, f"{early / 2**20:.0f} MB", f"{late / 2**20:.0f} MB", growth)
    console.print(table)
    last = samples[-1]
    console.print(
        f"{minutes:g} minutes, {len(samples)} scrapes, {last['batches']:.0f} batches, "
        f"{last['results']:.0f} results"
    )
    if json is not None:
        numbers = {"minutes": minutes, "every": every, **found, "samples": samples}
        json.write_text(jsonlib.dumps(numbers))


def _spread(pipeline: Path, every: float) -> None:
    """Let batches start so far apart, so that the soak leaves the machine to others."""
    trigger = f'.writeStream.trigger(processingTime="{every:g} seconds")'
    pipeline.write_text(pipeline.read_text().replace(".writeStream", trigger))


def _soak(folder: Path, seconds: float, console: Console) -> list[dict[str, float]]:
    log = folder / "log"
    flags = ["--address", "127.0.0.1:0", "-c", "spark.driver.memory=1g"]
    flags += ["-c", "spark.driver.host=127.0.0.1", "-c", "spark.ui.enabled=false"]
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "laxity", "run", "pipeline.py", *flags],
            cwd=folder,
            stdout=out,
            stderr=out,
        )
    samples: list[dict[str, float]] = []
    try:
        url = _address(process, log)
        began = time.monotonic()
        with console.status("soaking …"):
            while time.monotonic() - began < seconds:
                if process.poll() is not None:
                    raise SoakError(f"the run ended early: {log.read_text()[-500:]}")
                samples.append(
                    {
                        **_look(url),
                        "at": time.monotonic() - began,
                        "python": _resident(process.pid),
                        "jvm": _resident(_child(process.pid)),
                    }
                )
                time.sleep(1.0)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    return samples


def _look(url: str) -> dict[str, float]:
    """As a dashboard and a scrape do; what all queries have done so far."""
    for path in ("/metrics", "/api/v1/queries/errors"):
        with urllib.request.urlopen(url + path, timeout=60) as answer:
            answer.read()
    with urllib.request.urlopen(url + "/api/v1/overview", timeout=60) as answer:
        totals = [query["totals"] for query in jsonlib.load(answer)["queries"]]
    return {key: sum(t[key] for t in totals) for key in ("batches", "results")}


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(1200):
        match = re.search(r"metrics +(http://\S+)/metrics", log.read_text())
        if match:
            return match[1]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise SoakError(f"the run did not start: {log.read_text()[-500:]}")


def _resident(pid: int) -> float:
    text = Path(f"/proc/{pid}/statm").read_text()
    return float(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
