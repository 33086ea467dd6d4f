"""A mix of tenants on Flink: one job a query, the same arrivals, the same way to count.

Flink gets what serves it: a watermark after every tick, a buffer timeout of 5 ms, no checkpoints,
and the same query in its own SQL, which aggregates before the exchange.
"""

from __future__ import annotations

import itertools
import math
import shutil
import subprocess
import time
import zipfile
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path

from laxity.bench.contest import Outcome, Plan
from laxity.bench.flink_cluster import FlinkCluster, FlinkUnavailableError, flink_home
from laxity.bench.process import Say
from laxity.bench.workloads.tenants import Answer, Tenant, due_in
from laxity.core.errors import LaxityError

_HASHED = (
    "create temporary view hashed as select ts, substring("
    "sha2(sha2(sha2(cast(f0 as string), 256), 256), 256), 1, 1) as bucket from ticks"
)


def _counted(seconds: int, rows: str, *keys: str) -> str:
    groups = ", ".join(("window_start", "window_end", *keys))
    return (
        f"select window_end, count(*) from table(tumble(table {rows}, descriptor(ts), "
        f"interval '{seconds}' second)) group by {groups}"
    )


SQL = {
    "counts": _counted(1, "ticks"),
    "digests": f"{_HASHED};{_counted(10, 'hashed', 'bucket')}",
    "heavy-counts": f"{_HASHED};{_counted(1, 'hashed', 'bucket')}",
}
"""The queries of `workloads.groups`."""


class NotOnFlinkError(LaxityError, ValueError):
    """A query that is written for Spark only."""


def check(queries: Iterable[str]) -> None:
    """Before anything else runs: is there a Flink, and can it run these?"""
    unknown = sorted(set(queries) - set(SQL))
    if unknown:
        raise NotOnFlinkError(
            f"mode 'flink' has no SQL for {', '.join(unknown)}; it runs {', '.join(SQL)}"
        )
    flink_home()
    if shutil.which("javac") is None:
        raise FlinkUnavailableError("no javac: jobs for Flink are compiled with a JDK, 17 or newer")


def perform(plan: Plan, scratch: Path, say: Say) -> Outcome:
    check(tenant.query for tenant in plan.tenants)
    folder = scratch / "flink"
    folder.mkdir()
    settings = {"pipeline.operator-chaining.enabled": "true", "metrics.latency.interval": "0 ms"}
    with FlinkCluster(folder, slots=len(plan.tenants), memory="2g", settings=settings) as cluster:
        # All have been submitted by then.
        origin = math.ceil(time.time()) + 15.0 + 1.5 * len(plan.tenants)
        _submit(cluster, plan.tenants, origin, folder)
        time.sleep(max(0.0, origin - time.time()))
        for _ in _seconds(plan.warmup, say, 0.0):
            pass
        samples = [(time.time(), cluster.cpu_seconds())]
        for _ in _seconds(plan.seconds, say, plan.warmup):
            samples.append((time.time(), cluster.cpu_seconds()))
    return _outcome(plan, folder, origin, samples)


def _seconds(span: float, say: Say, before: float) -> Iterator[float]:
    start = time.time()
    while (left := start + span - time.time()) > 0:
        say(before + span - left)
        time.sleep(min(1.0, left))
        yield time.time() - start


def _submit(cluster: FlinkCluster, tenants: Iterable[Tenant], origin: float, folder: Path) -> None:
    jar = _compiled(folder)
    jobs = folder / "jobs"
    jobs.write_text(
        "".join(
            "\t".join(
                (
                    tenant.name,
                    str(round(origin * 1000)),
                    str(round(tenant.schedule.tick * 1000)),
                    tenant.schedule.text(),
                    SQL[tenant.query],
                )
            )
            + "\n"
            for tenant in tenants
        )
    )
    classes = f"{jar}:{flink_home()}/lib/*"
    program = ["java", "-cp", classes, "laxity.bench.FlinkTicks"]
    _run([*program, str(cluster.port), str(jar), str(folder), str(jobs)])


def _compiled(folder: Path) -> Path:
    """The jobs' classes, as a jar that Flink sends to where they run."""
    classes = folder / "classes"
    source = resources.files("laxity.bench").joinpath("java", "FlinkTicks.java")
    with resources.as_file(source) as file:
        _run(["javac", "-nowarn", "-cp", f"{flink_home()}/lib/*", "-d", str(classes), str(file)])
    jar = folder / "jobs.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for compiled in classes.rglob("*.class"):
            archive.write(compiled, compiled.relative_to(classes))
    return jar


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    if done.returncode:
        raise FlinkUnavailableError(f"{command[0]} failed: {done.stderr[-1500:]}")


def _outcome(
    plan: Plan, folder: Path, origin: float, samples: list[tuple[float, float]]
) -> Outcome:
    (began, before), (until, after) = samples[0], samples[-1]
    seconds = until - began
    answers: dict[bool, list[tuple[str, float, float]]] = {True: [], False: []}
    rows = offered = 0.0
    for tenant in plan.tenants:
        seen = _answers(tenant, origin, folder)
        answers[tenant.sensitive] += due_in(tenant, seen, origin, began, until)
        if not tenant.sensitive:
            rows += _rows_between(folder / f"{tenant.name}.rows", began, until)
            offered += tenant.schedule.rows_between(began - origin, until - origin)
    return Outcome(
        mode=plan.mode.name,
        seconds=seconds,
        answers=answers[True],
        bulk_answers=answers[False],
        bulk_rows_per_second=rows / seconds,
        bulk_offered=offered / seconds,
        cpu_cores=(after - before) / seconds,
        batches={},
        target=next((t.target for t in plan.tenants if t.sensitive), 0.0),
        version=f"Flink {_version()}",
        cpu_by_second=[
            (at - began, (used - used_before) / (at - at_before))
            for (at_before, used_before), (at, used) in itertools.pairwise(samples)
        ],
    )


def _answers(tenant: Tenant, origin: float, folder: Path) -> list[Answer]:
    """A window is answered when its last group has left."""
    left: dict[int, float] = {}
    for end, emitted in _pairs(folder / f"{tenant.name}.answers"):
        left[round(end)] = max(emitted / 1000, left.get(round(end), 0.0))
    found = []
    for final, arrival in tenant.due(origin):
        if round(final * 1000) not in left:
            break
        found.append(Answer(arrival, left[round(final * 1000)]))
    return found


def _rows_between(file: Path, began: float, until: float) -> float:
    inside = [(at, rows) for at, rows in _pairs(file) if began <= at / 1000 < until]
    return inside[-1][1] - inside[0][1] if inside else 0.0


def _pairs(file: Path) -> Iterator[tuple[float, float]]:
    if file.exists():
        for line in file.read_text().splitlines():
            first, _, second = line.partition(",")
            if second:  # the last line may have been cut short
                yield float(first), float(second)


def _version() -> str:
    (jar,) = (flink_home() / "lib").glob("flink-dist-*.jar")
    return jar.stem.removeprefix("flink-dist-")
