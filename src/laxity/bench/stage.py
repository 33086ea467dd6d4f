"""A Spark session in one mode, with tenants that come and go, and what is measured of them.

Everything comes from outside of what is compared: Spark's own progress reports, the schedule of
arrivals and /proc. Nothing that Laxity measures itself goes into a figure.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laxity.bench.modes import Mode
from laxity.bench.sessions import local_session
from laxity.bench.workloads.tenants import Batch, Observation, Tenant, due_in, ended_at, observe
from laxity.bench.workloads.ticks import read_ticks

if TYPE_CHECKING:
    from laxity.spark import Laxity

PARTITIONS = 2
DRAIN = 15.0
"""How long a batch that was running at the end is waited for, so that its rows can be counted."""


@dataclass(frozen=True, slots=True)
class Period:
    """A measured span, in seconds since 1970."""

    began: float
    until: float
    cpu_seconds: float
    """CPU time of the driver's JVM, of what it started, and of this process."""
    loop_seconds: float
    """Of that, what Laxity's own loop took."""
    cpu_by_second: list[tuple[float, float]] = field(default_factory=list)
    """(seconds into the period, cores in use since the sample before)"""

    @property
    def seconds(self) -> float:
        return self.until - self.began


@dataclass(frozen=True, slots=True)
class _Running:
    tenant: Tenant
    origin: float
    query: Any


class Stage:
    def __init__(self, mode: Mode, scratch: Path, cores: int, pools: Iterable[Tenant] = ()) -> None:
        """`pools` are those who may ever run: FAIR's pools are fixed when Spark starts."""
        # Enough reports to cover the whole run: they are what is measured.
        conf = {"spark.sql.streaming.numRecentProgressUpdates": "5000"} | mode.conf
        if mode.pools is not None:
            file = scratch / "pools.xml"
            file.write_text(_pools(mode, pools, cores))
            conf["spark.scheduler.allocation.file"] = file.as_uri()
        self.mode = mode
        self._scratch = scratch
        self._starts = itertools.count()
        self.spark = local_session(
            f"local[{cores}]",
            str(scratch),
            name=f"laxity bench: {mode.name}",
            partitions=PARTITIONS,
            conf=conf,
        )
        self._laxity: Laxity | None = None
        self._running: dict[str, _Running] = {}
        self._jvm: int = self.spark._jvm.java.lang.ProcessHandle.current().pid()
        self.attach(mode.laxity)

    @property
    def laxity(self) -> Laxity | None:
        return self._laxity

    def attach(self, options: Mapping[str, Any] | None) -> None:
        """Laxity with these options, or stock Spark. For queries started from now on."""
        import laxity

        self.detach()
        if options is not None:
            self._laxity = laxity.attach(self.spark, **options)

    def detach(self) -> None:
        if self._laxity is not None:
            self._laxity.detach()
            self._laxity = None

    def close(self) -> None:
        self.detach()
        self.stop(list(self._running))
        self.spark.stop()

    # Tenants.

    @property
    def tenants(self) -> list[Tenant]:
        return [running.tenant for running in self._running.values()]

    def start(self, tenants: Iterable[Tenant]) -> None:
        """Their schedules begin together, at the next whole second but one."""
        origin = math.ceil(time.time()) + 1.0
        for tenant in tenants:
            self._running[tenant.name] = _Running(tenant, origin, self._start(tenant, origin))

    def _start(self, tenant: Tenant, origin: float) -> Any:
        if self.mode.pools is not None:
            self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", tenant.name)
        rows = read_ticks(
            self.spark,
            tenant.schedule,
            origin,
            partitions=PARTITIONS,
            most_rows=tenant.most_rows,
        )
        writer = tenant.dataframe(rows).writeStream.outputMode(tenant.output_mode).format("noop")
        # Its own: from a checkpoint of the same name it would go on where that one ended.
        place = self._scratch / "checkpoints" / f"{tenant.name}-{next(self._starts)}"
        writer = writer.option("checkpointLocation", str(place))
        if self.mode.triggers is not None:
            sensitive, bulk = self.mode.triggers
            writer = writer.trigger(processingTime=sensitive if tenant.sensitive else bulk)
        if self._laxity is None:
            return writer.queryName(tenant.name).start()
        return self._laxity.start(writer, name=tenant.name, target=tenant.target).streaming_query

    def stop(self, names: Iterable[str]) -> None:
        for name in names:
            self._running.pop(name).query.stop()

    # Measuring.

    def watch(self, seconds: float, on_second: Callable[[float], None] = lambda at: None) -> Period:
        """Let it run for a while. Samples of CPU use are taken every second."""
        began, used, own = time.time(), self._cpu_seconds(), self._loop_seconds()
        samples: list[tuple[float, float]] = []
        at, before = 0.0, used
        while (left := began + seconds - time.time()) > 0:
            on_second(at)
            time.sleep(min(1.0, left))
            now, then = time.time() - began, at
            total = self._cpu_seconds()
            samples.append((now, (total - before) / max(now - then, 1e-3)))
            at, before = now, total
        return Period(began, time.time(), before - used, self._loop_seconds() - own, samples)

    def _cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._jvm}/stat").read_text().rpartition(")")[2].split()
        # Its own and that of children it has waited for: Hadoop's shell commands are among them.
        jvm = sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
        return jvm + time.process_time()

    def _loop_seconds(self) -> float:
        return 0.0 if self._laxity is None else self._laxity.status().loop_cpu

    def drain(self, within: float = DRAIN) -> None:
        """Wait until each query has reported a batch that ended after now."""
        give_up = time.time() + within
        waiting = {name: _batch(r.query) for name, r in self._running.items()}
        while waiting and time.time() < give_up:
            time.sleep(0.1)
            for name, before in list(waiting.items()):
                if _batch(self._running[name].query) != before:
                    del waiting[name]

    def observe(self, period: Period) -> dict[str, Observation]:
        """What each query did from the period's begin to now."""
        return {
            name: observe(r.tenant, r.origin, _reports_since(r.query, period.began))
            for name, r in self._running.items()
        }

    def answers(
        self, seen: Mapping[str, Observation], period: Period, *, sensitive: bool = True
    ) -> list[tuple[str, float, float]]:
        """(tenant, seconds into the period, latency) of each answer that was due in it, of the
        latency-sensitive or of the others."""
        return [
            answer
            for name, r in self._running.items()
            if r.tenant.sensitive == sensitive
            for answer in due_in(r.tenant, seen[name].answers, r.origin, period.began, period.until)
        ]

    def offered(self, period: Period) -> float:
        """Bulk rows that arrived."""
        return sum(
            r.tenant.schedule.rows_between(period.began - r.origin, period.until - r.origin)
            for r in self._running.values()
            if not r.tenant.sensitive
        )


@contextmanager
def staged(mode: Mode, scratch: Path, cores: int, pools: Iterable[Tenant] = ()) -> Iterator[Stage]:
    stage = Stage(mode, scratch, cores, pools)
    try:
        yield stage
    finally:
        stage.close()


def _pools(mode: Mode, tenants: Iterable[Tenant], cores: int) -> str:
    """An allocation file: with weights and minimum shares if the pools are tuned."""
    pools = []
    for tenant in tenants:
        ahead = mode.pools == "tuned" and tenant.sensitive
        weight, share = (100, cores) if ahead else (1, 0)
        pools.append(
            f'<pool name="{tenant.name}"><schedulingMode>FIFO</schedulingMode>'
            f"<weight>{weight}</weight><minShare>{share}</minShare></pool>"
        )
    return f"<allocations>{''.join(pools)}</allocations>"


def _batch(query: Any) -> int:
    last = query._jsq.lastProgress()
    return -1 if last is None else int(last.batchId())


def _reports_since(query: Any, began: float) -> list[dict[str, Any]]:
    """From the newest back: a report costs a call and a parse, and there can be thousands."""
    reports = query._jsq.recentProgress()
    found: list[dict[str, Any]] = []
    for index in range(len(reports) - 1, -1, -1):
        report = json.loads(reports[index].json())
        found.append(report)
        if ended_at(report) < began:
            break  # this one too: what the first batch of the period took counts from its end
    return found[::-1]


def batches_in(seen: Observation, period: Period) -> list[Batch]:
    return [b for b in seen.batches if period.began <= b.ended < period.until]


def rows_in(seen: Observation, period: Period) -> float:
    """Rows of the period. A batch's rows are spread over the time since the one before ended:
    bulk batches can be as long as a tenth of the period."""
    total = 0.0
    for before, batch in itertools.pairwise(seen.batches):
        inside = min(batch.ended, period.until) - max(before.ended, period.began)
        if inside > 0:
            total += batch.rows * inside / max(batch.ended - before.ended, 1e-3)
    return total
