"""One mode of a contest in a fresh process and JVM: `python -m laxity.bench.worker PLAN.json`.

Prints JSON lines: {"progress": seconds done, …} while it runs, {"outcome": …} at the end.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from laxity.bench.sessions import local_session
from laxity.bench.tenants import PARTITIONS, Emission, Observation, Tenant, dataframe, observe


def main(plan_file: str) -> None:
    plan = json.loads(Path(plan_file).read_text())
    tenants = [Tenant(**fields) for fields in plan["tenants"]]
    scratch = tempfile.mkdtemp(prefix="laxity-contest-")
    try:
        outcome = _run(plan, tenants, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _say(outcome=outcome)


def _say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def _run(plan: dict[str, Any], tenants: list[Tenant], scratch: str) -> dict[str, Any]:
    import laxity

    # Enough reports to cover the whole run: they are what is measured.
    conf = {"spark.sql.streaming.numRecentProgressUpdates": "2000"} | plan["conf"]
    name = f"laxity contest: {plan['mode']}"
    spark = local_session(plan["master"], scratch, name=name, partitions=PARTITIONS, conf=conf)
    lx = laxity.attach(spark, **plan["laxity"]) if plan["laxity"] is not None else None
    queries: dict[str, Any] = {}
    for tenant in tenants:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", _pool(plan, tenant))
        writer = dataframe(spark, tenant).writeStream.outputMode("append").format("noop")
        if lx is None:
            queries[tenant.name] = writer.queryName(tenant.name).start()
        else:
            queries[tenant.name] = lx.start(writer, name=tenant.name, target=tenant.target)
    began = time.time() + plan["warmup"]
    cpu_before = 0.0
    for elapsed in _ticks(plan["warmup"] + plan["seconds"]):
        if not cpu_before and elapsed >= plan["warmup"]:
            cpu_before = _cpu_seconds(spark)
        _say(progress=elapsed)
    until = began + plan["seconds"]
    cpu = _cpu_seconds(spark) - cpu_before
    outcome = _measure(tenants, queries, began, until)
    outcome |= {"cpu_cores": cpu / plan["seconds"], "spark": spark.version}
    if lx is not None:
        outcome["status"] = str(lx.status())
        outcome["notices"] = list(lx.status().notices)
        outcome["explain"] = [lx.query(t.name).explain() for t in tenants if t.sensitive]
        lx.detach()
    for query in queries.values():
        query.stop()
    spark.stop()
    return outcome


def _pool(plan: dict[str, Any], tenant: Tenant) -> str:
    return tenant.name if plan["conf"].get("spark.scheduler.mode") == "FAIR" else "default"


def _ticks(seconds: float) -> Iterator[float]:
    start = time.monotonic()
    while (elapsed := time.monotonic() - start) < seconds:
        yield elapsed
        time.sleep(min(1.0, seconds - elapsed))


def _cpu_seconds(spark: Any) -> float:
    """CPU time of the JVM and of this process."""
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    jvm = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return jvm + time.process_time()


def _measure(
    tenants: list[Tenant], queries: dict[str, Any], began: float, until: float
) -> dict[str, Any]:
    answers: list[Emission] = []
    bulk_rows = 0
    batches = {}
    for tenant in tenants:
        seen = observe(tenant, queries[tenant.name].recentProgress)
        inside = [(at, rows) for at, rows in seen.taken if began <= at < until]
        batches[tenant.name] = len(inside)
        if tenant.sensitive:
            answers += [e for e in seen.emissions if began <= e.emitted < until]
            answers += _missing(tenant, seen, began, until)
        else:
            bulk_rows += sum(rows for _, rows in inside)
    target = next((t.target for t in tenants if t.sensitive), None)
    return {
        "answers": [(e.tenant, e.emitted - began, e.latency) for e in answers],
        "bulk_rows_per_second": bulk_rows / (until - began),
        "batches": batches,
        "target": target,
    }


def _missing(tenant: Tenant, seen: Observation, began: float, until: float) -> list[Emission]:
    """Windows that were due and have not left by the end: each at least as late as that. Without
    them, a query that produces nothing would have no latency to be blamed for."""
    last = max((e.window_end for e in seen.emissions), default=began)
    due = max(last, began) // tenant.window * tenant.window + tenant.window
    found = []
    while (arrival := seen.arrival(due)) + tenant.target < until:
        found.append(Emission(tenant.name, due, arrival, until))
        due += tenant.window
    return found


if __name__ == "__main__":
    main(sys.argv[1])
