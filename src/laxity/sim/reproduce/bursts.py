"""Figure 9: volume that varies in time, by a power law."""

from __future__ import annotations

from typing import Any, NamedTuple

from laxity.sim.cluster import Cluster
from laxity.sim.dataflow import Dataflow
from laxity.sim.reproduce import plots
from laxity.sim.reproduce.mix import rows_of, scheduler
from laxity.sim.reproduce.report import Claim, Report, factor
from laxity.sim.reproduce.runner import Bench
from laxity.sim.results import RunResult
from laxity.sim.simulation import Simulation
from laxity.sim.workloads import GROUP_1, GROUP_2, ParetoVolume, bulk, latency_sensitive

_SCHEDULERS = ("cameo", "orleans", "fifo")
_PARETO_RATE = 7500.0
"""Mean rows a second of each group 2 source: it keeps the cluster below half load."""

Sample = tuple[float, str, float]
"""(time, group, latency) of a result."""


def pareto_mix(seed: int, **law: float) -> list[Dataflow]:
    """Four group 1 jobs, eight group 2 jobs whose volume follows a power law."""
    flows = [latency_sensitive(n) for n in range(4)]
    for n in range(8):
        volume = ParetoVolume(1000.0, f"{seed}/ba{n}", **law)
        flows.append(bulk(n, _PARETO_RATE, volume=volume))
    return flows


def run_pareto(
    name: str, duration: float, seed: int, mailbox: int = Cluster().mailbox
) -> tuple[RunResult, list[Sample]]:
    samples: list[Sample] = []

    def note(now: float, job: Any, progress: float, latency: float) -> None:
        samples.append((now, job.result.group, latency))

    simulation = Simulation(
        pareto_mix(seed),
        Cluster(mailbox=mailbox),
        scheduler(name, seed),
        seed=seed,
        on_result=note,
    )
    return simulation.run(duration, warmup=11.0), samples


class ParetoArrivals(NamedTuple):
    name: str = "9"
    title: str = "Pareto volume, utilisation below 50 %"

    def run(self, bench: Bench) -> Report:
        duration = bench.pick(400.0, 60.0)
        found = bench.compute(
            run_pareto, {("9", name): (name, duration, bench.seed) for name in _SCHEDULERS}
        )
        results: dict[Any, RunResult] = {key: value[0] for key, value in found.items()}
        own = {name: result.group(GROUP_1).latencies for (_, name), result in results.items()}
        why = (
            "below half load an idle worker is found at once, and the median is what a group 1 "
            "window costs to compute; what made Orleans' four times Cameo's is not in the model"
        )
        tail = self._why_tail(bench)
        cameo = own["cameo"]
        report = Report(self.name, self.title, rows_of("figure", results), [
            factor("Orleans against Cameo, group 1 median", 3.9, own["orleans"].p50 / cameo.p50,
                   why),
            factor("Orleans against Cameo, group 1 p99", 29.7, own["orleans"].p99 / cameo.p99,
                   tail),
            factor("FIFO against Cameo, group 1 median", 1.3, own["fifo"].p50 / cameo.p50),
            factor("FIFO against Cameo, group 1 p99", 21.1, own["fifo"].p99 / cameo.p99, tail),
            factor("Orleans against Cameo, standard deviation", 23.2,
                   own["orleans"].deviation / cameo.deviation, tail),
            factor("FIFO against Cameo, standard deviation", 12.7,
                   own["fifo"].deviation / cameo.deviation, tail),
            Claim("utilisation", "below 50 %", f"{results['9', 'cameo'].busy:.0%}",
                  results["9", "cameo"].busy < 0.5),
        ], "The law has shape 1.3: a tenth of the draws make up 59 % of the volume (figure 2a: 10 "
           "% of the streams process a majority). A draw lasts 2 s (figure 2c: spikes last one to "
           "a few seconds). `laxity reproduce sensitivity` prints others.")  # fmt: skip
        path = bench.out / f"{self.name}.png"
        with plots.figure(path, 4, title=f"Figure 9: {self.title}", claims=report.claims) as axes:
            for axis, name in zip(axes, _SCHEDULERS, strict=False):
                for group, shade in ((GROUP_2, "#bbbbbb"), (GROUP_1, plots.colour(name))):
                    chosen = [s for s in found["9", name][1] if s[1] == group]
                    axis.plot([s[0] for s in chosen], [s[2] for s in chosen], ".", ms=3,
                              color=shade, label=group)  # fmt: skip
                axis.set_yscale("log")
                axis.set_title(name, fontsize=9)
                axis.set_xlabel("time (s)")
                axis.legend(fontsize=7)
            axes[0].set_ylabel("latency (s)")
            limits = [axis.get_ylim() for axis in axes[:3]]
            for axis in axes[:3]:
                axis.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
            for name, latencies in own.items():
                curve = latencies.cdf()
                axes[3].step(*zip(*curve, strict=True), label=name, color=plots.colour(name))
            axes[3].set_xscale("log")
            axes[3].set_title("group 1 distribution", fontsize=9)
            axes[3].legend(fontsize=7)
        report.files.append(path)
        return report

    def _why_tail(self, bench: Bench) -> str:
        """The factors where more may be under way than one message a channel."""
        tried = bench.pick((8, 32), (8,))
        duration = bench.pick(100.0, 40.0)
        found = bench.compute(run_pareto, {
            (mailbox, name): (name, duration, bench.seed, mailbox)
            for mailbox in tried for name in _SCHEDULERS
        })  # fmt: skip
        parts = []
        for mailbox in tried:
            own = {n: found[mailbox, n][0].group(GROUP_1).latencies for n in _SCHEDULERS}
            factors = [
                f"{name} {own[name].p99 / own['cameo'].p99:.1f} ×" for name in _SCHEDULERS[1:]
            ]
            parts.append(f"{' and '.join(factors)} with {mailbox}")
        return (
            "a spike waits at its source while one message a channel is under way; the longer the "
            "queues a node may hold, the longer group 1 waits in them (p99 against Cameo: "
            f"{', '.join(parts)} messages a channel). Neither this nor the law is in the paper"
        )


EXPERIMENTS = (ParetoArrivals(),)
