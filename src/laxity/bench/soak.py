"""Does memory stay flat? `laxity run` on its own example, scraped every second, for long.

Prints three sizes, those of the second quarter of the time (the first is warming up) beside those
of the last, as medians: what the Python process and the JVM keep resident, and what the JVM's heap
holds after a full collection (asked for every two minutes, where there is a `jcmd`). The heap is
resident as a whole from the start, or its growth into the memory it was given would look like a
leak.
"""

from __future__ import annotations

import json as jsonlib
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from laxity.bench.running import Running, resident
from laxity.templates import write_example

_COLLECT_EVERY = 120.0


def run(*, minutes: float, every: float, json: Path | None) -> None:
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="laxity-soak-") as scratch:
        folder = Path(scratch)
        write_example(folder)
        if every:
            _spread(folder / "pipeline.py", every)
        samples = _soak(folder, minutes * 60.0, console)
        live = _after_collections(folder / "gc.log")
    table = Table(box=None, pad_edge=False)
    for column in ("memory", "second quarter", "last quarter", "growth"):
        table.add_column(column, justify="left" if column == "memory" else "right")
    found: dict[str, dict[str, float]] = {}
    for name, sizes in (
        ("Python, resident", [(s["at"], s["python"]) for s in samples]),
        ("JVM, resident", [(s["at"], s["jvm"]) for s in samples]),
        ("JVM, heap in use", live),
    ):
        early, late = _quarters(sizes, minutes * 60.0)
        if not early or not late:
            continue
        before, after = median(early), median(late)
        found[name] = {"second quarter": before, "last quarter": after}
        growth = f"{after / before - 1:+.1%}"
        table.add_row(name, f"{before / 2**20:.0f} MB", f"{after / 2**20:.0f} MB", growth)
    console.print(table)
    last = samples[-1]
    console.print(
        f"{minutes:g} minutes, {len(samples)} scrapes, {last['batches']:.0f} batches, "
        f"{last['results']:.0f} results"
    )
    if json is not None:
        numbers = {"minutes": minutes, "every": every, "sizes": found, "samples": samples}
        json.write_text(jsonlib.dumps(numbers))


def _spread(pipeline: Path, every: float) -> None:
    """Let batches start so far apart, so that the soak leaves the machine to others."""
    trigger = f'.writeStream.trigger(processingTime="{every:g} seconds")'
    pipeline.write_text(pipeline.read_text().replace(".writeStream", trigger))


def _soak(folder: Path, seconds: float, console: Console) -> list[dict[str, float]]:
    samples: list[dict[str, float]] = []
    log = f"-Xlog:gc:file={folder}/gc.log:uptime"
    java = f"-Xms1g -XX:+AlwaysPreTouch {log}"
    conf = ("spark.driver.memory=1g", f"spark.driver.extraJavaOptions={java}")
    with (
        Running(folder / "pipeline.py", folder, conf=conf) as running,
        console.status("soaking …"),
    ):
        began = collected = time.monotonic()
        while (at := time.monotonic() - began) < seconds:
            samples.append(
                {
                    **_look(running),
                    "at": at,
                    "python": resident(running.pid),
                    "jvm": resident(running.jvm),
                }
            )
            if time.monotonic() - collected >= _COLLECT_EVERY:
                collected = time.monotonic()
                _collect(running.jvm)
            time.sleep(1.0)
    return samples


def _collect(jvm: int) -> None:
    if jcmd := shutil.which("jcmd"):
        subprocess.run([jcmd, str(jvm), "GC.run"], capture_output=True, timeout=60, check=False)


def _quarters(sizes: list[tuple[float, float]], seconds: float) -> tuple[list[float], list[float]]:
    early = [size for at, size in sizes if seconds / 4 <= at < seconds / 2]
    return early, [size for at, size in sizes if at >= seconds * 3 / 4]


def _after_collections(log: Path) -> list[tuple[float, float]]:
    """(seconds, bytes) from the JVM's own log: `[61.2s] GC(9) Pause Full … 300M->120M(1024M)`."""
    pattern = r"^\[([\d.]+)s\].*Pause Full.* \d+M->(\d+)M\("
    found = re.findall(pattern, log.read_text(), re.MULTILINE)
    return [(float(at), float(megabytes) * 2**20) for at, megabytes in found]


def _look(running: Running) -> dict[str, float]:
    """As a scrape and a dashboard do; what all queries have done so far."""
    running.get("/metrics")
    running.get("/api/v1/queries/errors")
    totals = [query["totals"] for query in running.overview()["queries"]]
    return {key: sum(t[key] for t in totals) for key in ("batches", "results")}
