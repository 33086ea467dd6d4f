"""What must hold under every scheduler: the same seed gives the same run, nothing is lost, channels
do not reorder, results are right, queues are bounded."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from laxity.core.jobs import Job, Stage
from laxity.core.windows import Window
from laxity.sim import Cluster, Dataflow, Simulation, SourceSpec, StageCost, simulate
from laxity.sim.dataflow import Routing
from laxity.sim.errors import InvalidSimulationError
from laxity.sim.operators import Message
from laxity.sim.schedulers import Cameo, Fifo, Orleans, Scheduler, Slots
from laxity.sim.workloads import mixed
from sim.flows import ONE_WORKER, chain

ALL = [Cameo(), Fifo(), Orleans(), Slots()]
CLUSTER = Cluster(nodes=2, workers=2)


@pytest.fixture(params=ALL, ids=lambda s: s.name)
def scheduler(request: pytest.FixtureRequest) -> Scheduler:
    return request.param


def _starts(scheduler: Scheduler, seed: int) -> list[tuple[float, int, float]]:
    seen: list[tuple[float, int, float]] = []

    def note(now: float, node: int, worker: int, message: Message, cost: float) -> None:
        seen.append((now, message.operator.number, cost))

    flows = [chain("a", noise=0.3, jitter=0.1), chain("b", noise=0.3, jitter=0.1, target=9.0)]
    Simulation(flows, CLUSTER, scheduler, seed=seed, on_start=note).run(5.0)
    return seen


def test_the_same_seed_gives_the_same_run(scheduler: Scheduler) -> None:
    first = _starts(scheduler, seed=1)
    assert len(first) > 50
    assert first == _starts(scheduler, seed=1)
    assert first != _starts(scheduler, seed=2)


def test_nothing_is_lost(scheduler: Scheduler) -> None:
    """Sources that stop, then time to drain: every batch processed, every window emitted once."""
    results: dict[str, list[float]] = defaultdict(list)
    flows = [
        replace(chain(name, noise=0.5, cost=0.01, stop=6.0, jitter=0.2, sources=8), group=name)
        for name in ("a", "b", "c")
    ]
    simulation = Simulation(
        flows,
        CLUSTER,
        scheduler,
        on_result=lambda now, job, progress, latency: results[job.name].append(progress),
    )
    result = simulation.run(30.0)
    assert result.queued == 0
    assert simulation.submitted == simulation.done
    for flow in flows:
        assert results[flow.job.name] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        assert result.jobs[flow.job.name].rows == 8 * 24 * 1000


def test_channels_do_not_reorder(scheduler: Scheduler) -> None:
    """Messages of a channel start in order of progress, under load and over the network."""
    seen: dict[tuple[int, int], list[float]] = defaultdict(list)

    def note(now: float, node: int, worker: int, message: Message, cost: float) -> None:
        seen[message.operator.number, message.channel].append(message.progress)

    flows = [chain(n, noise=0.5, cost=0.02, interval=0.05, jitter=0.2) for n in ("a", "b", "c")]
    slow = Cluster(nodes=2, workers=1, bandwidth=1e6)
    Simulation(flows, slow, scheduler, on_start=note).run(10.0)
    assert len(seen) == 12
    for order in seen.values():
        assert len(order) > 2
        assert order == sorted(order)


def test_an_idle_machine_takes_exactly_the_cost_of_the_critical_path(scheduler: Scheduler) -> None:
    flow = chain(sources=1, cost=0.010, interval=1.0)
    result = simulate([flow], ONE_WORKER, scheduler, duration=10.5)
    latencies = result.jobs["job"].latencies
    assert latencies.count == 10
    assert latencies.worst == pytest.approx(0.020)
    assert result.busy == pytest.approx(10 * 0.020 / 10.5)


def test_latency_counts_from_the_last_arrival() -> None:
    """The slower of two sources decides, and its delay is not the system's latency."""
    flow = chain(sources=2, cost=0.001, interval=1.0)
    late = SourceSpec(interval=1.0, delay=0.4, jitter=0.0)
    flow = replace(flow, sources={"scan": (flow.sources["scan"][0], late)})
    result = simulate([flow], ONE_WORKER, Cameo(), duration=5.5)
    assert result.jobs["job"].latencies.worst == pytest.approx(0.002)


def test_a_watermark_delay_holds_a_window_open() -> None:
    progresses: list[tuple[float, float]] = []
    flow = chain(sources=1, interval=0.5)
    window = Window.tumbling(1.0, delay=1.0)
    job = Job.of("job", 1.0, [Stage("scan"), Stage("sum", 1, window)])
    simulation = Simulation(
        [replace(flow, job=job)],
        ONE_WORKER,
        Cameo(),
        on_result=lambda now, job, progress, latency: progresses.append((now, progress)),
    )
    simulation.run(4.2)
    assert [(round(now), progress) for now, progress in progresses] == [
        (2, 1.0),
        (3, 2.0),
        (4, 3.0),
    ]


def test_sliding_windows_and_batches_that_span_windows() -> None:
    ends: list[float] = []
    job = Job.of("job", 1.0, [Stage("sum", 1, Window.sliding(1.0, 0.1))])
    flow = Dataflow(job, {"sum": StageCost()}, {"sum": (SourceSpec(interval=0.5, jitter=0.0),)})
    Simulation(
        [flow], ONE_WORKER, Cameo(),
        on_result=lambda now, job, progress, latency: ends.append(progress),
    ).run(3.2)  # fmt: skip
    assert ends == pytest.approx([0.1 * n for n in range(1, 31)])


@pytest.mark.parametrize(("routing", "messages"), [(Routing.MERGE, 4), (Routing.SHUFFLE, 8)])
def test_routing(routing: Routing, messages: int) -> None:
    stages = [Stage("scan", 4, Window.tumbling(1.0)), Stage("sum", 2, Window.tumbling(1.0))]
    specs = (SourceSpec(interval=1.0, stop=1.0),) * 4
    flow = Dataflow(
        Job.of("job", 1.0, stages), {"scan": StageCost(), "sum": StageCost()}, {"scan": specs},
        {"scan": routing},
    )  # fmt: skip
    simulation = Simulation([flow], CLUSTER, Cameo())
    simulation.run(5.0)
    assert simulation.done == 4 + messages


def test_a_join_waits_for_both_sides() -> None:
    stages = [Stage("left"), Stage("right"), Stage("join", 1, Window.tumbling(1.0))]
    job = Job.of("job", 1.0, stages, [("left", "join"), ("right", "join")])
    costs = {stage.name: StageCost(noise=0.0) for stage in stages}
    sources = {"left": (SourceSpec(),), "right": (SourceSpec(stop=2.0),)}
    result = simulate([Dataflow(job, costs, sources)], ONE_WORKER, Cameo(), duration=6.5)
    assert result.jobs["job"].latencies.count == 2


# Back-pressure.


def test_a_source_never_has_more_under_way_than_its_credit(scheduler: Scheduler) -> None:
    cluster = replace(ONE_WORKER, mailbox=3)
    worst = 0

    def note(now: float, node: int, worker: int, message: Message, cost: float) -> None:
        nonlocal worst
        worst = max(worst, *(operator.pending for operator in simulation.jobs[0].stages["scan"]))

    flow = chain(sources=4, cost=0.1, interval=0.05, window=None)
    simulation = Simulation([flow], cluster, scheduler, on_start=note)
    result = simulation.run(20.0)
    assert worst == 3
    assert result.queued <= 4 * 3 + 4 * 3
    assert result.busy == pytest.approx(1.0, abs=0.03)
    assert result.jobs["job"].behind > 10.0


def test_a_full_operator_further_down_holds_the_sources(scheduler: Scheduler) -> None:
    """Scans are cheap and the sum is dear: without back-pressure its queue would grow for ever."""
    flow = chain(sources=4, cost=0.0001, interval=0.01, window=None)
    dear = {"scan": StageCost(fixed=0.0001), "sum": StageCost(fixed=0.1)}
    cluster = Cluster(nodes=2, workers=2, mailbox=2)
    simulation = Simulation([replace(flow, costs=dear)], cluster, scheduler)
    result = simulation.run(20.0)
    assert result.queued < 50
    assert result.jobs["job"].latencies.count == pytest.approx(200, rel=0.1)


def test_a_held_source_catches_up() -> None:
    """A second job hogs the worker for a while; afterwards all that was held back is processed."""
    light = chain("light", target=1000.0, cost=0.001, interval=0.1, stop=20.0)
    heavy = chain("heavy", target=0.1, cost=0.1, interval=0.1, stop=5.0)
    simulation = Simulation([light, heavy], ONE_WORKER, Cameo())
    simulation.run(60.0)
    assert simulation.submitted == simulation.done
    assert simulation.jobs[0].result.rows == 2 * 200 * 1000
    assert simulation.jobs[0].result.behind == 0.0


def test_queues_do_not_grow_with_time_under_overload(scheduler: Scheduler) -> None:
    flows = mixed(2, 20_000.0, sensitive=1)
    cluster = Cluster(nodes=1, workers=2)
    sizes = []
    simulation = Simulation(flows, cluster, scheduler)
    for end in (2.0, 4.0, 8.0):
        simulation.engine.run(end)
        sizes.append(simulation.submitted - simulation.done)
    assert sizes[2] <= 1.5 * max(sizes[:2]) + 50


# Mistakes.


def test_mistakes_are_named() -> None:
    with pytest.raises(InvalidSimulationError, match="two jobs are named 'job'"):
        Simulation([chain(), chain()], CLUSTER, Cameo())
    with pytest.raises(InvalidSimulationError, match="nodes of at least 1"):
        Cluster(nodes=0)
    with pytest.raises(InvalidSimulationError, match="no cost for stage 'sum'"):
        replace(chain(), costs={"scan": StageCost()})
    with pytest.raises(InvalidSimulationError, match="2 operators and 0 sources"):
        replace(chain(), sources={})
    with pytest.raises(InvalidSimulationError, match="interval must be above zero"):
        SourceSpec(interval=0.0)


def test_demand_is_what_a_run_needs() -> None:
    """Widening, shuffles, windows and selectivities included."""
    stages = [Stage("scan", 2), Stage("wide", 4, Window.tumbling(1.0)), Stage("sum", 2)]
    costs = {
        "scan": StageCost(0.001, 1e-6, noise=0.0, selectivity=0.5),
        "wide": StageCost(0.002, 1e-6, noise=0.0, groups=100),
        "sum": StageCost(0.003, 1e-6, noise=0.0),
    }
    specs = (SourceSpec(interval=0.25),) * 2
    routing = {"wide": Routing.SHUFFLE}
    flow = Dataflow(Job.of("job", 1.0, stages), costs, {"scan": specs}, routing)
    cluster = replace(ONE_WORKER, workers=4)
    result = simulate([flow], cluster, Fifo(), duration=50.0, warmup=5.0)
    assert flow.demand() / cluster.cores == pytest.approx(result.busy, rel=0.02)
