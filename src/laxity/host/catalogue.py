"""The metrics Laxity knows, and how each follows from others.

| metric | unit | computed from |
| --- | --- | --- |
| queue_size | tuples waiting | primitive |
| records_in, records_out | tuples since start | primitive |
| cpu_seconds | CPU time since start | primitive (every driver has it, from /proc) |
| target | seconds | primitive (every driver has it, from the configuration) |
| input_rate, output_rate | tuples/s | records_in, records_out |
| cpu_use | CPU seconds/s | cpu_seconds |
| cost | CPU seconds/tuple | cpu_use, input_rate |
| selectivity | tuples out/tuple in | output_rate, input_rate |
| path_cost | CPU seconds/tuple from here to the egress | cost, selectivity |
| path_selectivity | egress tuples/tuple here | selectivity |
| highest_rate | egress tuples/CPU second | path_selectivity, path_cost |
| queue_wait | seconds | queue_size, input_rate (Little's law) |
| head_age | seconds the head of the queue has spent in the system | queue_wait |
| latency | seconds the head will have taken at the egress, waiting no more | head_age, path_cost |
| laxity | seconds it can still wait | target, latency |
"""

from __future__ import annotations

from collections.abc import Callable

from laxity.host.entities import Deployment
from laxity.host.metrics import Inputs, Metric, Values

PRIMITIVES = ("queue_size", "records_in", "records_out", "cpu_seconds", "target")


def _rate(counter: str) -> Callable[[Inputs], Values]:
    def rate(inputs: Inputs) -> Values:
        before = inputs.before.get(counter, {})
        if inputs.elapsed <= 0:
            return {}
        # A counter that went back belongs to a restarted operator: unknown for one period.
        return {
            entity: (value - before[entity]) / inputs.elapsed
            for entity, value in inputs.now[counter].items()
            if entity in before and value >= before[entity]
        }

    return rate


def _ratio(above: str, below: str) -> Callable[[Inputs], Values]:
    def ratio(inputs: Inputs) -> Values:
        under = inputs.now[below]
        return {
            entity: value / under[entity]
            for entity, value in inputs.now[above].items()
            if under.get(entity, 0.0) > 0
        }

    return ratio


def _selectivity(inputs: Inputs) -> Values:
    """An egress sends its tuples out of the system: it counts as 1, whatever its counter says."""
    known = dict(_ratio("output_rate", "input_rate")(inputs))
    for entity, destinations in inputs.deployment.downstream.items():
        if not destinations and entity in inputs.now["input_rate"]:
            known[entity] = 1.0
    return known


def _down_the_path(
    deployment: Deployment,
    own: Values,
    step: Callable[[float, float, float], float],
    weight: Values,
) -> Values:
    """Fold `own` from the egresses up: step(own value, weight, sum over destinations).

    A tuple goes to every destination and to one replica of each: sum over destinations, mean
    over replicas.
    """
    done: dict[str, float] = {}
    for entity in deployment.downstream_first:
        if entity not in own or entity not in weight:
            continue
        total, reached = 0.0, False
        for replicas in deployment.downstream.get(entity, ()):
            below = [done[replica] for replica in replicas if replica in done]
            if below:
                total += sum(below) / len(below)
                reached = True
        done[entity] = step(own[entity], weight[entity], total if reached else -1.0)
    return done


def _path_cost(inputs: Inputs) -> Values:
    def step(cost: float, selectivity: float, below: float) -> float:
        return cost + (selectivity * below if below >= 0 else 0.0)

    return _down_the_path(inputs.deployment, inputs.now["cost"], step, inputs.now["selectivity"])


def _path_selectivity(inputs: Inputs) -> Values:
    def step(selectivity: float, _: float, below: float) -> float:
        return selectivity * (below if below >= 0 else 1.0)

    own = inputs.now["selectivity"]
    return _down_the_path(inputs.deployment, own, step, own)


def _queue_wait(inputs: Inputs) -> Values:
    """Little's law. Where nothing was taken in a whole period, one tuple a period is assumed: the
    wait is then at least that long."""
    slowest = 1.0 / inputs.elapsed if inputs.elapsed > 0 else 1.0
    rates = inputs.now["input_rate"]
    return {
        entity: size / max(rates.get(entity, 0.0), slowest)
        for entity, size in inputs.now["queue_size"].items()
    }


def _head_age(inputs: Inputs) -> Values:
    """The waits from the ingress to here add up; of several ways in, the slowest counts."""
    wait = inputs.now["queue_wait"]
    upstream = inputs.deployment.upstream
    age: dict[str, float] = {}
    for entity in reversed(inputs.deployment.downstream_first):
        before = max((age.get(above, 0.0) for above in upstream.get(entity, ())), default=0.0)
        age[entity] = wait.get(entity, 0.0) + before
    return {entity: age.get(entity, wait[entity]) for entity in wait}


def _latency(inputs: Inputs) -> Values:
    costs = inputs.now["path_cost"]
    return {entity: age + costs.get(entity, 0.0) for entity, age in inputs.now["head_age"].items()}


def _laxity(inputs: Inputs) -> Values:
    """Without a measured latency the whole target is left."""
    latency = inputs.now["latency"]
    return {
        entity: target - latency.get(entity, 0.0) for entity, target in inputs.now["target"].items()
    }


CATALOGUE: tuple[Metric, ...] = (
    *(Metric(name) for name in PRIMITIVES),
    Metric("input_rate", ("records_in",), _rate("records_in")),
    Metric("output_rate", ("records_out",), _rate("records_out")),
    Metric("cpu_use", ("cpu_seconds",), _rate("cpu_seconds")),
    Metric("cost", ("cpu_use", "input_rate"), _ratio("cpu_use", "input_rate")),
    Metric("selectivity", ("output_rate", "input_rate"), _selectivity),
    Metric("path_cost", ("cost", "selectivity"), _path_cost),
    Metric("path_selectivity", ("selectivity",), _path_selectivity),
    Metric(
        "highest_rate",
        ("path_selectivity", "path_cost"),
        _ratio("path_selectivity", "path_cost"),
    ),
    Metric("queue_wait", ("queue_size", "input_rate"), _queue_wait),
    Metric("head_age", ("queue_wait",), _head_age),
    Metric("latency", ("head_age", "path_cost"), _latency),
    Metric("laxity", ("target", "latency"), _laxity),
)
