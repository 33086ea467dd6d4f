"""How many latency-sensitive queries one driver holds, and what each more of them costs.

A driver *holds* a number of queries if at least 99 % of their answers meet the target. Numbers are
tried in one warm JVM: queries are added and taken away while bulk, if there is any, runs on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from laxity.bench.contest import CORES
from laxity.bench.modes import Mode
from laxity.bench.process import Say, run_apart
from laxity.bench.workloads.tenants import Tenant, alert, bulk

HELD = 0.99
FIRST = 4
"""Where a search begins, and how many warm up the JVM."""
LONGEST = 7200.0
"""Seconds for which rows arrive: more than any search takes."""


@dataclass(frozen=True, slots=True)
class Load:
    """What runs beside the latency-sensitive queries."""

    name: str
    queries: int = 0
    rows: float = 80_000

    @property
    def title(self) -> str:
        return f"{self.queries} bulk × {self.rows:,.0f} rows/s" if self.queries else "no bulk"

    def tenants(self) -> list[Tenant]:
        return [bulk(n, LONGEST, rows=self.rows) for n in range(self.queries)]


LOADS = {load.name: load for load in (Load("none"), Load("bulk", 3))}


@dataclass(frozen=True, slots=True)
class Probe:
    """So many queries for a while."""

    count: int
    met: float
    p50: float
    p99: float
    cpu_cores: float
    loop_cores: float
    batches_per_second: float
    """Of the latency-sensitive queries together."""
    cpu_per_batch: float
    """Of all batches, bulk's too."""
    bulk_rows_per_second: float

    @property
    def held(self) -> bool:
        return self.met >= HELD

    @property
    def cpu_per_query(self) -> float:
        return self.cpu_cores / self.count


def search(most: int) -> Generator[int, bool, int]:
    """Yields the number to try next, is sent whether it held, and returns the largest that did,
    to within an eighth: doubling until one fails, halving between the two from then on. A number
    that fails is tried once more, for one missed answer in a short while may be chance."""
    held, failed = 0, most + 1
    number = min(FIRST, most)
    while held < most and failed - held > max(1, held // 8):
        if (yield number) or (yield number):
            held = number
        else:
            failed = number
        doubled = failed > most and held < most
        number = min(most, 2 * held) if doubled and held else (held + failed) // 2
    return held


@dataclass(frozen=True, slots=True)
class DensityJob:
    """Searches, or tries the numbers it is given, in rising order."""

    mode: Mode
    load: Load
    counts: tuple[int, ...]
    most: int
    warmup: float
    settle: float
    seconds: float
    cores: int = CORES

    @property
    def label(self) -> str:
        return f"mode {self.mode.name!r}"

    @property
    def title(self) -> str:
        return f"{self.mode.title}, {self.load.title}"

    def perform(self, scratch: Path, say: Say) -> dict[str, Any]:
        """Says each probe as it is done."""
        from laxity.bench.stage import staged

        alerts = [alert(n, LONGEST) for n in range(max((self.most, *self.counts, FIRST)))]
        lax = self.load.tenants()
        with staged(self.mode, scratch, self.cores, [*alerts, *lax]) as stage:
            stage.start([*lax, *alerts[:FIRST]])
            stage.watch(self.warmup)

            def probe(count: int) -> Probe:
                running = [t.name for t in stage.tenants if t.sensitive]
                stage.stop(running[count:])
                stage.start(alerts[len(running) : count])
                # A second or so goes by for each query that starts on a full machine.
                stage.watch(self.settle + 0.2 * max(0, count - len(running)))
                found = _probe(stage, count, self.seconds)
                say(asdict(found))
                return found

            if self.counts:
                for count in sorted(self.counts):
                    probe(count)
                return {"held": None}
            return {"held": _search(self.most, lambda count: probe(count).held)}


def _search(most: int, holds: Callable[[int], bool]) -> int:
    steps = search(most)
    number = next(steps)
    while True:
        try:
            number = steps.send(holds(number))
        except StopIteration as end:
            return int(end.value)


def _probe(stage: Any, count: int, seconds: float) -> Probe:
    from laxity.bench.stage import batches_in, rows_in

    period = stage.watch(seconds)
    seen = stage.observe(period)
    by_name = {tenant.name: tenant for tenant in stage.tenants}
    target = next(t.target for t in by_name.values() if t.sensitive)
    ordered = sorted(latency for _, _, latency in stage.answers(seen, period)) or [seconds]
    batches = {name: len(batches_in(each, period)) for name, each in seen.items()}
    lax = [name for name, tenant in by_name.items() if not tenant.sensitive]
    return Probe(
        count=count,
        met=sum(latency <= target for latency in ordered) / len(ordered),
        p50=ordered[len(ordered) // 2],
        p99=ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
        cpu_cores=period.cpu_seconds / period.seconds,
        loop_cores=period.loop_seconds / period.seconds,
        batches_per_second=sum(n for name, n in batches.items() if name not in lax)
        / period.seconds,
        cpu_per_batch=period.cpu_seconds / max(1, sum(batches.values())),
        bulk_rows_per_second=sum(rows_in(seen[name], period) for name in lax) / period.seconds,
    )


@dataclass(slots=True)
class Curve:
    """All that was tried of a mode beside a load."""

    job: DensityJob
    probes: list[Probe]
    held: list[int]
    """What each search found."""

    @property
    def title(self) -> str:
        return self.job.title

    def by_count(self) -> dict[int, list[Probe]]:
        counts = sorted({probe.count for probe in self.probes})
        return {count: [p for p in self.probes if p.count == count] for count in counts}


def trace(job: DensityJob, curve: Curve, on_probe: Callable[[Probe], None]) -> None:
    """One more round of the curve."""

    def heard(said: dict[str, Any]) -> None:
        probe = Probe(**said)
        curve.probes.append(probe)
        on_probe(probe)

    result = run_apart(job, on_said=heard)
    if result["held"] is not None:
        curve.held.append(result["held"])
