"""What many clients cost the server: pages polled as the dashboard does, and a scrape a second.

The server runs in this process on scripted queries, the clients in another, so that this
process's CPU time is the server's alone. First without clients, then with them.
"""

from __future__ import annotations

import asyncio
import json as jsonlib
import subprocess
import sys
import threading
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table


def run(*, clients: int, seconds: float, queries: int, json: Path | None) -> None:
    from laxity.server.serving import Server
    from laxity.server.testing import ScriptedQuery, ScriptedService

    console = Console(highlight=False)
    service = ScriptedService(
        *(ScriptedQuery(f"query-{n}", f"tenant-{n % 5}", target=0.8) for n in range(queries))
    )
    for query in service.queries.values():
        for second in range(300):
            query.emit(time.time() - 300 + second, 0.2 + 0.001 * (second % 50))
    done = threading.Event()
    emitting = threading.Thread(target=_emit, args=(service, done), daemon=True)
    emitting.start()
    with Server(service, "127.0.0.1:0") as server:
        idle = _share(seconds)
        command = [sys.executable, "-m", "laxity.bench.server_load", server.url, str(clients)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.readline()  # all are connected
            busy = _share(seconds)
            process.stdin.close()
            counted = jsonlib.loads(process.stdout.readline())
    done.set()
    emitting.join()
    table = Table(box=None, pad_edge=False)
    for column in ("what", "share of a core"):
        table.add_column(column)
    table.add_row("taking snapshots, nobody looks", f"{idle:.2%}")
    table.add_row(f"with {clients} clients and a scrape a second", f"{busy:.2%}")
    table.add_row("what they add", f"{busy - idle:.2%}")
    console.print(table)
    rate = counted["answers"] / counted["seconds"]
    console.print(
        f"{rate:.0f} answers a second, {counted['bytes'] / counted['answers']:.0f} bytes each, "
        f"{counted['failures']} failures"
    )
    if json is not None:
        numbers = {"clients": clients, "idle": idle, "busy": busy, **counted}
        json.write_text(jsonlib.dumps(numbers, indent=2))


def _emit(service: object, done: threading.Event) -> None:
    from laxity.server.testing import ScriptedService

    assert isinstance(service, ScriptedService)
    while not done.wait(1.0):
        with service.lock:
            for query in service.queries.values():
                query.emit(time.time(), 0.3)


def _share(seconds: float) -> float:
    began, cpu = time.perf_counter(), time.process_time()
    time.sleep(seconds)
    return (time.process_time() - cpu) / (time.perf_counter() - began)


async def _clients(url: str, count: int) -> None:
    """Keep-alive connections that ask as the dashboard's script does, until stdin ends."""
    host, _, port = url.removeprefix("http://").partition(":")
    counted = {"answers": 0, "bytes": 0, "failures": 0}
    connected = asyncio.Semaphore(0)
    stop = asyncio.Event()

    async def client(number: int, path: str, every: float) -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        connected.release()
        await asyncio.sleep(every * number / count)  # people do not open pages all at once
        request = (
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAccept-Encoding: gzip\r\n\r\n"
        ).encode()
        while not stop.is_set():
            began = time.monotonic()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = 0
            for line in head.split(b"\r\n"):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            await reader.readexactly(length)
            counted["answers"] += 1
            counted["bytes"] += length
            counted["failures"] += not head.startswith(b"HTTP/1.1 200")
            await asyncio.sleep(max(0.0, every - (time.monotonic() - began)))
        writer.close()

    tasks = [asyncio.create_task(client(n, "/api/v1/overview", 2.0)) for n in range(count)]
    tasks.append(asyncio.create_task(client(0, "/metrics", 1.0)))
    for _ in tasks:
        await connected.acquire()
    print("connected", flush=True)
    began = time.monotonic()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    stop.set()
    seconds = time.monotonic() - began
    print(jsonlib.dumps({**counted, "seconds": seconds}), flush=True)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(_clients(sys.argv[1], int(sys.argv[2])))
