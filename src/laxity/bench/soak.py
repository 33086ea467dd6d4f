"""Does memory stay flat? `laxity run` on its own example, scraped every second, for long.

Prints the resident memory of the Python process and of the driver's JVM: the median of the second
quarter of the run (the first is warming up) beside that of the last.
"""

from __future__ import annotations

import json as jsonlib
import tempfile
import time
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from laxity.bench.running import Running, resident
from laxity.templates import write_example


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
    samples: list[dict[str, float]] = []
    conf = ("spark.driver.memory=1g",)
    with (
        Running(folder / "pipeline.py", folder, conf=conf) as running,
        console.status("soaking …"),
    ):
        began = time.monotonic()
        while (at := time.monotonic() - began) < seconds:
            samples.append(
                {
                    **_look(running),
                    "at": at,
                    "python": resident(running.pid),
                    "jvm": resident(running.jvm),
                }
            )
            time.sleep(1.0)
    return samples


def _look(running: Running) -> dict[str, float]:
    """As a scrape and a dashboard do; what all queries have done so far."""
    running.get("/metrics")
    running.get("/api/v1/queries/errors")
    totals = [query["totals"] for query in running.overview()["queries"]]
    return {key: sum(t[key] for t in totals) for key in ("batches", "results")}
