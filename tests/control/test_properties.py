"""Theorem 1, and "a safe blocking operation equals freezing the world": over random dataflows,
random interleavings and random failures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.flows import FUNCTIONS, counts, kept
from laxity.control.errors import OperationInProgressError
from laxity.control.graph import Dataflow
from laxity.control.ledger import Ledger, Status
from laxity.control.memory import OFFSETS, Item, MemoryDataflow, Step
from laxity.control.messages import CONTROLLER
from laxity.control.operation import ControlOperation
from laxity.control.operations import BlockingNoOp, Checkpoint, Monitor, NoOp, ScaleTo, Tune

KEYS = "abcdefgh"


@dataclass(frozen=True)
class Case:
    graph: Dataflow
    inputs: dict[str, list[Item]]
    capacity: int | None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A random DAG of stages, each with one to three operators, and something to read."""
    number = draw(st.integers(2, 5))
    names = [f"s{i}" for i in range(number)]
    links = []
    for i, name in enumerate(names[1:], 1):
        feeders = draw(st.sets(st.integers(0, i - 1), min_size=0 if i < number - 1 else 1))
        links += [(names[f], name) for f in sorted(feeders)]
    graph = Dataflow.of(
        "random",
        {name: draw(st.integers(1, 3)) for name in names},
        links,
        functions=dict.fromkeys(names, "passing"),
        parameters={name: {"version": 0} for name in names},
    )
    sources = sorted({graph.vertices[v].stage for v in graph.sources})
    inputs = {}
    for stage in sources:
        for partition in range(draw(st.integers(1, 3))):
            keys = draw(st.lists(st.sampled_from(KEYS), max_size=6))
            name = f"{partition}@{stage}"
            inputs[name] = [Item(f"{name}.{i}", key) for i, key in enumerate(keys)]
    return Case(graph, inputs, draw(st.sampled_from([None, 1, 3])))


@st.composite
def changes(draw: st.DrawFn, graph: Dataflow, version: int) -> ControlOperation:
    """A safe blocking operation: new values for everybody, or another number of operators."""
    stage = draw(st.sampled_from(sorted(graph.stages)))
    size = draw(st.integers(1, 4))
    if draw(st.booleans()) and size != len(graph.stages[stage]):
        return ScaleTo(stage, size)
    return Tune({name: {"version": version} for name in graph.stages})


def start(case: Case, **options: Any) -> MemoryDataflow:
    return MemoryDataflow(
        Ledger(case.graph), FUNCTIONS, case.inputs, capacity=case.capacity, **options
    )


def chooser(random: Any) -> Any:
    return lambda steps: random.choice(steps)


def expected_ways(case: Case) -> Counter[tuple[str, tuple[str, ...]]]:
    """Each item goes every way through the stages once."""
    after: dict[str, list[str]] = {stage: [] for stage in case.graph.stages}
    for source, target in case.graph.links:
        after[source].append(target)

    def ways(stage: str) -> list[tuple[str, ...]]:
        rest = [way for target in after[stage] for way in ways(target)]
        return [(stage, *way) for way in rest] if after[stage] else [(stage,)]

    return Counter(
        (item.id, way)
        for partition, items in case.inputs.items()
        for item in items
        for way in ways(partition.partition("@")[2])
    )


def check_nothing_lost_doubled_or_mixed(flow: MemoryDataflow, case: Case) -> None:
    found = kept(flow)
    by_way = Counter({(i, tuple(s for s, _ in trail)): n for (i, trail), n in found.items()})
    assert by_way == expected_ways(case)
    versions: dict[str, set[int]] = {}
    for id_, trail in found:
        versions.setdefault(id_, set()).update(version for _, version in trail)
    assert all(len(met) == 1 for met in versions.values()), versions


def freeze_the_world(
    case: Case, read_before: dict[str, int], operation: ControlOperation
) -> MemoryDataflow:
    """Stop reading at the same places, let everything drain, change, go on."""
    first = {p: items[: read_before.get(p, 0)] for p, items in case.inputs.items()}
    flow = MemoryDataflow(Ledger(case.graph), FUNCTIONS, first)
    flow.run()
    flow.submit(operation)
    flow.run()
    flow._inputs = case.inputs
    flow.run()
    return flow


@settings(max_examples=60)
@given(data=st.data(), case=cases(), random=st.randoms(use_true_random=False))
def test_a_safe_blocking_operation_equals_freezing_the_world(
    data: st.DataObject, case: Case, random: Any
) -> None:
    flow = start(case)
    operation = data.draw(changes(case.graph, 1))
    wait = data.draw(st.integers(0, 30))
    for _ in range(wait):
        if steps := flow.steps():
            flow.step(random.choice(steps))
    flow.submit(operation)
    read_before: dict[str, int] = {}
    while steps := flow.steps():
        step: Step = random.choice(steps)
        if step[0] == "take" and step[1] == "main":
            # The boundary of a source is what it had read when the message came.
            offsets = flow.operators[step[2]].state.get(OFFSETS, {})
            for partition, offset in offsets.items():
                read_before.setdefault(partition, offset)
        flow.step(step)
    flow.run()
    frozen = freeze_the_world(case, read_before, operation)
    assert kept(flow) == kept(frozen)
    assert counts(flow) == counts(frozen)
    check_nothing_lost_doubled_or_mixed(flow, case)


@settings(max_examples=60)
@given(data=st.data(), case=cases(), random=st.randoms(use_true_random=False))
def test_theorem_1_it_terminates_and_completes_in_order(
    data: st.DataObject, case: Case, random: Any
) -> None:
    flow = start(case)
    operation = data.draw(changes(case.graph, 1) | st.sampled_from([NoOp(), Checkpoint()]))
    id_ = flow.submit(operation)
    assert id_ is not None
    flow.run(chooser(random))
    assert flow.ledger.entry(id_).status is Status.COMPLETED  # 1: it terminates
    order = [who for who, op, phase in flow.log if op == id_ and phase == "completed"]
    place = {who: i for i, who in enumerate(order)}
    plan = flow.ledger.plan(id_)
    assert len(order) == len(place) == len(plan.configurations)  # each exactly once
    pairs = [*plan.before.graph.edges, *plan.after.graph.edges]
    pairs += [
        (u, v)
        for v, told in plan.configurations.items()
        for u in told.inputs
        if u != CONTROLLER  # E(V, V*) among them
    ]
    assert all(place[u] < place[v] for u, v in pairs)  # 2: v completes before v′
    assert set(flow.operators) == set(plan.after.vertices)


class Trouble:
    """Operations of several controllers and failures of every kind, at random moments."""

    def __init__(self, flow: MemoryDataflow, data: st.DataObject, random: Any) -> None:
        self.flow, self.data, self.random = flow, data, random
        self.version = 0
        self.submitted: list[str | None] = []

    def run(self, troubles: list[str]) -> None:
        for trouble in troubles:
            for _ in range(self.random.randrange(25)):
                if steps := self.flow.steps():
                    self.flow.step(self.random.choice(steps))
            getattr(self, trouble)()
        self.flow.run(chooser(self.random))

    def _submit(self, operation: ControlOperation) -> None:
        controller = self.random.choice(["one", "two"])
        self.submitted.append(self.flow.submit(operation, controller=controller, queue=True))

    def change(self) -> None:
        self.version += 1
        graph = self.flow.ledger.graph
        self._submit(self.data.draw(changes(graph, self.version)))

    def look(self) -> None:
        self._submit(self.random.choice([NoOp(), BlockingNoOp(), Monitor()]))

    def checkpoint(self) -> None:
        self._submit(Checkpoint())

    def crash(self) -> None:
        self.flow.crash(self.random.choice(sorted(self.flow.operators)))

    def crash_controller(self) -> None:
        if self.flow.controllers:
            self.flow.crash_controller(self.random.choice(sorted(self.flow.controllers)))

    def lose(self) -> None:
        links = [e for e, c in self.flow.channels.items() if c and set(e) & {"one", "two"}]
        if links:
            assert self.flow.lose(*self.random.choice(links))


@settings(max_examples=60)
@given(
    data=st.data(),
    case=cases(),
    random=st.randoms(use_true_random=False),
    troubles=st.lists(
        st.sampled_from(["change", "look", "checkpoint", "crash", "crash_controller", "lose"]),
        max_size=8,
    ),
)
def test_nothing_is_lost_doubled_or_mixed_whatever_fails(
    data: st.DataObject, case: Case, random: Any, troubles: list[str]
) -> None:
    flow = start(case)
    trouble = Trouble(flow, data, random)
    trouble.run(troubles)
    check_nothing_lost_doubled_or_mixed(flow, case)
    history = flow.ledger.history()
    assert all(entry.status is Status.COMPLETED for entry in history)
    graph = flow.ledger.graph
    at_work = {name for name, operator in flow.operators.items() if operator.started}
    assert at_work == set(graph.vertices)
    for name in at_work:
        operator, vertex = flow.operators[name], graph.vertices[name]
        assert operator.parameters == vertex.parameters
        assert operator.routes == graph.routes(name)
        assert not flow.processors[name].blocked


@settings(max_examples=60)
@given(case=cases(), random=st.randoms(use_true_random=False))
def test_two_controllers_never_see_two_orders(case: Case, random: Any) -> None:
    flow = start(case)
    ids = [flow.submit(random.choice([NoOp(), BlockingNoOp()]), controller=c) for c in "abcabc"]
    flow.run(chooser(random))
    for name in flow.operators:
        mine = [op for who, op, phase in flow.log if who == name and phase == "completed"]
        assert mine == ids


@settings(max_examples=40)
@given(case=cases(), seed=st.integers())
def test_the_same_choices_give_the_same_run(case: Case, seed: int) -> None:
    import random as library

    logs = []
    for _ in range(2):
        flow = start(case)
        flow.submit(Tune({stage: {"version": 1} for stage in case.graph.stages}))
        flow.run(chooser(library.Random(seed)))
        logs.append((flow.log, flow.now, kept(flow)))
    assert logs[0] == logs[1]


@settings(max_examples=40)
@given(case=cases(), random=st.randoms(use_true_random=False), fan_out=st.integers(2, 3))
def test_trees_change_nothing(case: Case, random: Any, fan_out: int) -> None:
    flow = start(case, fan_out=fan_out)
    flow.submit(Tune({stage: {"version": 1} for stage in case.graph.stages}))
    flow.submit(Monitor())
    flow.run(chooser(random))
    check_nothing_lost_doubled_or_mixed(flow, case)
    assert len(flow.completed) == 2
    assert set(flow.ledger.history()[1].result) == set(case.graph.vertices)


def test_a_second_exclusive_operation_is_refused_and_a_queued_one_waits() -> None:
    case = Case(
        Dataflow.of("random", {"s0": 2, "s1": 2}, [("s0", "s1")], functions={"s0": "passing"}),
        {},
        None,
    )
    flow = start(case)
    flow.submit(ScaleTo("s1", 3))
    with pytest.raises(OperationInProgressError, match="queue=True"):
        flow.submit(ScaleTo("s1", 4), controller="other")
    assert flow.submit(ScaleTo("s1", 4), controller="other", queue=True) is None
    flow.crash_controller("other")  # the queue is on disk
    flow.run()
    flow.tick()
    flow.run()
    assert len(flow.ledger.graph.stages["s1"]) == 4
    first, second = flow.ledger.history()
    assert (first.controller, second.controller) == ("main", "other")
    assert all(a.order < b.order for a, b in pairwise(flow.ledger.history()))
