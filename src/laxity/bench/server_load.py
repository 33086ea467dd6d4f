"""What many clients cost beside a full Spark load: pages polled as the dashboard polls them, and a
scrape a second.

`laxity run` carries `bench/shop.py`; the clients are another process. Spells without and with them
take turns. The CPU time of the serving process is counted, and the results that missed.
"""

from __future__ import annotations

import asyncio
import itertools
import json as jsonlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from laxity.bench.running import Running, cpu_seconds

PIPELINE = Path(__file__).with_name("shop.py")
SENSITIVE = ("fraud", "outages")
POLL = 2.0
"""Seconds between two looks of a dashboard."""


@dataclass(frozen=True, slots=True)
class Spell:
    """A stretch of time with or without clients."""

    clients: int
    served: float
    """CPU of the process that serves (and decides), as a share of a core."""
    spark: float
    """CPU of Spark's driver with its executor, in cores."""
    results: int
    missed: int
    answers: int = 0
    failures: int = 0


def run(*, clients: int, seconds: float, rounds: int, warmup: float, json: Path | None) -> None:
    console = Console(highlight=False)
    spells: list[Spell] = []
    with tempfile.TemporaryDirectory(prefix="laxity-server-") as scratch:
        conf = ("spark.driver.memory=2g", "spark.sql.shuffle.partitions=2")
        flags = ("--checkpoints", f"file://{scratch}/checkpoints", "--master", "local[2]")
        with (
            Running(PIPELINE, Path(scratch), *flags, conf=conf) as running,
            console.status("warming up …") as status,
        ):
            time.sleep(warmup)
            for number in range(rounds):
                status.update(f"round {number + 1} of {rounds}, without clients …")
                spells.append(_spell(running, seconds))
                status.update(f"round {number + 1} of {rounds}, {clients} clients …")
                with _Clients(running.url, clients) as looking:
                    spells.append(_spell(running, seconds, looking))
    _show(console, spells, clients)
    if json is not None:
        json.write_text(jsonlib.dumps({"spells": [asdict(s) for s in spells]}, indent=2))


def _show(console: Console, spells: list[Spell], clients: int) -> None:
    without = [s for s in spells if not s.clients]
    looked = [s for s in spells if s.clients]
    table = Table(box=None, pad_edge=False)
    for column in ("", "serving process", "Spark", "alerts", "missed"):
        table.add_column(column, justify="right" if column else "left")
    for name, group in (
        ("nobody looks", without),
        (f"{clients} clients and a scrape a second", looked),
    ):
        table.add_row(
            name,
            f"{_median(group, lambda s: s.served):.2%} of a core",
            f"{_median(group, lambda s: s.spark):.2f} cores",
            str(sum(s.results for s in group)),
            str(sum(s.missed for s in group)),
        )
    console.print(table)
    added = median(
        with_clients.served - alone.served
        for alone, with_clients in zip(without, looked, strict=True)
    )
    console.print(f"what they add: {added:.2%} of a core (median of {len(looked)} rounds)")
    asked, failed = sum(s.answers for s in looked), sum(s.failures for s in looked)
    console.print(f"{asked} answers, {failed} failures")


def _median(spells: list[Spell], what: Callable[[Spell], float]) -> float:
    return median(what(spell) for spell in spells)


def _spell(running: Running, seconds: float, looking: _Clients | None = None) -> Spell:
    jvm = running.jvm
    began, served, spark = time.perf_counter(), cpu_seconds(running.pid), cpu_seconds(jvm)
    results, met = _totals(running)
    before = looking.counted() if looking else (0, 0)
    time.sleep(seconds)
    took = time.perf_counter() - began
    after = looking.counted() if looking else (0, 0)
    now_results, now_met = _totals(running)
    missed = (now_results - now_met) - (results - met)
    return Spell(
        looking.count if looking else 0,
        (cpu_seconds(running.pid) - served) / took,
        (cpu_seconds(jvm) - spark) / took,
        now_results - results,
        missed,
        after[0] - before[0],
        after[1] - before[1],
    )


def _totals(running: Running) -> tuple[int, int]:
    alerts = [q["totals"] for q in running.overview()["queries"] if q["name"] in SENSITIVE]
    return sum(t["results"] for t in alerts), sum(t["met"] for t in alerts)


class _Clients:
    """The process of the clients; leaving ends it."""

    def __init__(self, url: str, count: int) -> None:
        self.count = count
        self._process: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, "-m", "laxity.bench.server_load", url, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> _Clients:
        self.counted()  # answers when all are connected
        return self

    def counted(self) -> tuple[int, int]:
        """(answers, failures) so far."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("count\n")
        self._process.stdin.flush()
        found: dict[str, Any] = jsonlib.loads(self._process.stdout.readline())
        return int(found["answers"]), int(found["failures"])

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


OVERVIEW = "/api/v1/overview"
PAGES = (
    (OVERVIEW,) * 5
    + ("/api/v1/queries/fraud", "/api/v1/queries/sales", "/api/v1/queries/pages")
    + ("/api/v1/timeline?seconds=30", "/api/v1/events?limit=200")
)
"""What ten people look at: half at all queries, three at one, one at the timeline, one at events.
Other pages ask for the overview every third time, as the dashboard's script does."""


async def _clients(url: str, count: int) -> None:
    """Keep-alive connections, until stdin ends; a line on stdin asks for the counts."""
    host, _, port = url.removeprefix("http://").partition(":")
    counted = {"answers": 0, "failures": 0}
    connected = asyncio.Semaphore(0)

    async def client(number: int, page: str, every: float) -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        connected.release()
        await asyncio.sleep(every * number / count)  # people do not open pages all at once
        for look in itertools.count(number):
            began = time.monotonic()
            for path in _asked(page, look):
                writer.write(f"GET {path}{rest}".encode())
                counted["failures"] += not await _answered(reader)
                counted["answers"] += 1
            await asyncio.sleep(max(0.0, every - (time.monotonic() - began)))

    rest = f" HTTP/1.1\r\nHost: {host}:{port}\r\nAccept-Encoding: gzip\r\n\r\n"
    seen = [PAGES[n % len(PAGES)] for n in range(count)]
    tasks = [asyncio.create_task(client(n, page, POLL)) for n, page in enumerate(seen)]
    tasks.append(asyncio.create_task(client(0, "/metrics", 1.0)))
    for _ in tasks:
        await connected.acquire()
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(jsonlib.dumps(counted), flush=True)
    for task in tasks:
        task.cancel()


def _asked(page: str, look: int) -> tuple[str, ...]:
    if page in (OVERVIEW, "/metrics") or look % 3:
        return (page,)
    return (OVERVIEW, page)


async def _answered(reader: asyncio.StreamReader) -> bool:
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    await reader.readexactly(length)
    return head.startswith(b"HTTP/1.1 200")


if __name__ == "__main__":
    asyncio.run(_clients(sys.argv[1], int(sys.argv[2])))
