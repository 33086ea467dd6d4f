"""One mode of a contest in a fresh process and JVM: `python -m laxity.bench.worker PLAN`.

Prints JSON lines: {"progress": seconds done} while it runs, {"outcome": …} at the end.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import pickle
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laxity.bench.contest import Plan
from laxity.bench.sessions import local_session
from laxity.bench.tenants import MOST_ROWS, Observation, Tenant, observe
from laxity.bench.ticks import read_ticks

if TYPE_CHECKING:
    from laxity.spark import Laxity

PARTITIONS = 2
DRAIN = 20.0
"""How long a batch that was running at the end is waited for, so that its rows can be counted."""


def main(plan_file: str) -> None:
    plan: Plan = pickle.loads(Path(plan_file).read_bytes())
    scratch = tempfile.mkdtemp(prefix="laxity-contest-")
    try:
        outcome = _run(plan, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _say(outcome=outcome)


def _say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def _run(plan: Plan, scratch: str) -> dict[str, Any]:
    import laxity

    # Enough reports to cover the whole run: they are what is measured.
    conf = {"spark.sql.streaming.numRecentProgressUpdates": "5000"} | plan.mode.conf
    if plan.mode.pools is not None:
        conf["spark.scheduler.allocation.file"] = _pools(plan, Path(scratch, "pools.xml"))
    name = f"laxity contest: {plan.mode.name}"
    master = f"local[{plan.cores}]"
    spark = local_session(master, scratch, name=name, partitions=PARTITIONS, conf=conf)
    lx = laxity.attach(spark, **plan.mode.laxity) if plan.mode.laxity is not None else None
    origin = math.ceil(time.time()) + 1.0
    queries = {t.name: _start(spark, lx, plan, t, origin) for t in plan.tenants}
    began = time.time() + plan.warmup
    until = began + plan.seconds
    used = 0.0
    own = 0.0
    for elapsed in _ticks(plan.warmup + plan.seconds):
        if not used and elapsed >= plan.warmup:
            used, own = _cpu_seconds(spark), _loop_seconds(lx)
        _say(progress=elapsed)
    used, own = _cpu_seconds(spark) - used, _loop_seconds(lx) - own
    _drain(queries, until)
    seen = {t.name: observe(t, origin, queries[t.name].recentProgress) for t in plan.tenants}
    outcome = _measure(plan.tenants, seen, origin, began, until)
    outcome |= {
        "cpu_cores": used / plan.seconds,
        "spark": spark.version,
        "loop_share": None if lx is None else own / plan.seconds,
        "notes": [] if lx is None else _notes(lx, plan.tenants),
    }
    if lx is not None:
        lx.detach()
    for query in queries.values():
        query.stop()
    spark.stop()
    return outcome


def _start(spark: Any, lx: Laxity | None, plan: Plan, tenant: Tenant, origin: float) -> Any:
    if plan.mode.pools is not None:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", tenant.name)
    rows = read_ticks(spark, tenant.schedule, origin, partitions=PARTITIONS, most_rows=MOST_ROWS)
    writer = tenant.dataframe(rows).writeStream.outputMode("append").format("noop")
    if plan.mode.triggers is not None:
        sensitive, bulk = plan.mode.triggers
        writer = writer.trigger(processingTime=sensitive if tenant.sensitive else bulk)
    if lx is None:
        return writer.queryName(tenant.name).start()
    return lx.start(writer, name=tenant.name, target=tenant.target)


def _pools(plan: Plan, file: Path) -> str:
    """An allocation file: with weights and minimum shares if the pools are tuned."""
    pools = []
    for tenant in plan.tenants:
        ahead = plan.mode.pools == "tuned" and tenant.sensitive
        weight, share = (100, plan.cores) if ahead else (1, 0)
        pools.append(
            f'<pool name="{tenant.name}"><schedulingMode>FIFO</schedulingMode>'
            f"<weight>{weight}</weight><minShare>{share}</minShare></pool>"
        )
    file.write_text(f"<allocations>{''.join(pools)}</allocations>")
    return file.as_uri()


def _ticks(seconds: float) -> Iterator[float]:
    start = time.monotonic()
    while (elapsed := time.monotonic() - start) < seconds:
        yield elapsed
        time.sleep(min(1.0, seconds - elapsed))


def _cpu_seconds(spark: Any) -> float:
    """CPU time of the JVM and of this process."""
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    # Its own and that of children it has waited for: Hadoop's shell commands are among them.
    jvm = sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    return jvm + time.process_time()


def _loop_seconds(lx: Laxity | None) -> float:
    return 0.0 if lx is None else lx.status().loop_cpu


def _drain(queries: Mapping[str, Any], until: float) -> None:
    """Wait until each query has reported a batch that ended after the period."""
    give_up = time.time() + DRAIN
    for query in queries.values():
        before = len(query.recentProgress)
        while len(query.recentProgress) <= before and time.time() < give_up:
            time.sleep(0.1)


def _measure(
    tenants: tuple[Tenant, ...],
    seen: Mapping[str, Observation],
    origin: float,
    began: float,
    until: float,
) -> dict[str, Any]:
    answers = []
    rows = offered = 0.0
    for tenant in tenants:
        if tenant.sensitive:
            answers += _due(tenant, seen[tenant.name], origin, began, until)
        else:
            rows += _rows_done(seen[tenant.name].taken, began, until)
            offered += tenant.schedule.rows_between(began - origin, until - origin)
    batches = {t.name: sum(began <= at < until for at, _ in seen[t.name].taken) for t in tenants}
    return {
        "answers": answers,
        "bulk_rows_per_second": rows / (until - began),
        "bulk_offered": offered / (until - began),
        "batches": batches,
        "target": next((t.target for t in tenants if t.sensitive), 0.0),
    }


def _due(
    tenant: Tenant, seen: Observation, origin: float, began: float, until: float
) -> list[tuple[str, float, float]]:
    """Every answer that was due in the period. One that has not left by its end is as late as that
    at least: without it, a query that produces nothing would have no latency to be blamed for."""
    found = [(a.arrival, min(a.emitted, until)) for a in seen.answers]
    if tenant.window is not None:
        last = found[-1][0] if found else 0.0
        due = (arrival for _, arrival in tenant.schedule.completions(tenant.window, origin))
        found += [(arrival, until) for arrival in due if last < arrival]
    return [
        (tenant.name, arrival - began, emitted - arrival)
        for arrival, emitted in found
        if began <= arrival < until - tenant.target
    ]


def _rows_done(taken: list[tuple[float, int]], began: float, until: float) -> float:
    """Rows of the period. A batch's rows are spread over the time since the one before ended:
    bulk batches can be as long as a tenth of the period."""
    total = 0.0
    for (before, _), (ended, rows) in itertools.pairwise(taken):
        inside = min(ended, until) - max(before, began)
        if inside > 0:
            total += rows * inside / max(ended - before, 1e-3)
    return total


def _notes(lx: Laxity, tenants: tuple[Tenant, ...]) -> list[str]:
    """What Laxity itself has to say of the run."""
    status = lx.status()
    missed = [lx.query(t.name).explain() for t in tenants if t.sensitive]
    return [str(status), *status.notices, *(m for m in missed if "missed" in m)]


if __name__ == "__main__":
    main(sys.argv[1])
