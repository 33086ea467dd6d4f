"""A pretend engine in a process of its own: named threads, and a metrics file.

Usage: engine.py METRICS_FILE THREAD... — a thread named busy-* burns CPU, others sleep.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
import time


def operate(name: str, ready: threading.Barrier) -> None:
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME
    ready.wait()
    while True:
        if name.startswith("busy"):
            sum(range(10_000))
        else:
            time.sleep(60)


def main() -> None:
    metrics, *names = sys.argv[1:]
    ready = threading.Barrier(len(names) + 1)
    for name in names:
        threading.Thread(target=operate, args=(name, ready), daemon=True).start()
    ready.wait()
    page: dict[str, dict[str, dict[str, float]]] = {}
    for i, name in enumerate(names):
        query, _, operator = name.partition("-")
        page.setdefault(query, {})[operator] = {"queue_size": float(i), "records_in": 0.0}
    with open(metrics, "w") as file:
        json.dump(page, file)
    print("ready", flush=True)
    time.sleep(600)


main()
