"""Keys, meta-topologies, trees, stores, ready operations, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.flows import FUNCTIONS, running, word_count
from laxity.control.contexts import OperatorContext
from laxity.control.controller import DataflowController
from laxity.control.errors import (
    ControlError,
    InvalidDataflowError,
    InvalidOperationError,
    OperationInProgressError,
    ProtocolError,
    StoreError,
    UnknownOperationError,
    UnknownParameterError,
    UnknownVertexError,
    UnsafeOperationError,
    UnsupportedInstructionError,
)
from laxity.control.global_controller import GlobalController
from laxity.control.graph import Dataflow, Vertex
from laxity.control.keys import EVERY_KEY, KeyRange, consistent_ranges, hashed, take_over
from laxity.control.ledger import Ledger, Status
from laxity.control.machines import AT_OPERATOR, Machine, Phase, Step
from laxity.control.memory import Item, MemoryDataflow, MemoryOperator
from laxity.control.messages import CONTROLLER, ControlMessage
from laxity.control.operation import ControlOperation, operation_from
from laxity.control.operations import Checkpoint, Monitor, NoOp, RepairSkew, ScaleTo, Tune
from laxity.control.store import MemoryStore, SqliteStore
from laxity.control.transition import Transition
from laxity.control.trees import Tree, is_tree_node

names = st.sets(st.sampled_from([f"r{i}" for i in range(8)]), min_size=1)


@given(names, names)
def test_consistent_hashing_moves_state_in_one_direction(old: set[str], new: set[str]) -> None:
    before = consistent_ranges(sorted(old))
    after = take_over(before, sorted(new))
    assert sum(keys.width for keys in after.values()) == EVERY_KEY.width
    whole = KeyRange()
    for keys in after.values():
        whole = whole | keys
    assert whole == EVERY_KEY
    for name in old & new:  # nobody who stays takes from one who stays
        for other in (old & new) - {name}:
            assert not after[name] & before[other]


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 50)), max_size=5), st.integers(0, 200))
def test_key_ranges_are_sets(parts: list[tuple[int, int]], position: int) -> None:
    keys = KeyRange(tuple((low, low + width) for low, width in parts))
    assert (position in keys) == any(low <= position < low + w for low, w in parts)
    assert (position in ~keys) != (position in keys)
    assert not keys & ~keys


def test_figure_3a_prunes_to_stage_iv_of_figure_2() -> None:
    graph = word_count()
    keys = {"R1": ("a", "h"), "R2": ("q", "z"), "R3": ("i", "p")}
    after = graph.with_stage(
        "reduce", [Vertex(n, "reduce", KeyRange.letters(*k), "count") for n, k in keys.items()]
    )
    meta = Transition.between(graph, after)
    assert meta.unpruned_size == 9
    assert set(meta.vertices) == {"M1", "M2", "R1", "R2", "R3"}
    maps = {(m, r) for m in ("M1", "M2") for r in ("R1", "R2", "R3")}
    assert meta.edges == maps | {("R1", "R3"), ("R2", "R3")}
    assert meta.reporters == ("R1", "R2", "R3")


def test_operators_that_swap_their_keys_cannot_both_be_merged() -> None:
    graph = word_count()
    r1, r2 = graph.stage("reduce")
    swapped = [Vertex("R1", "reduce", r2.keys, "count"), Vertex("R2", "reduce", r1.keys, "count")]
    meta = Transition.between(graph, graph.with_stage("reduce", swapped))
    assert len(meta.vertices) == 5
    assert any("~" in name for name in meta.after.vertices)


@given(st.integers(1, 300), st.integers(2, 9))
def test_a_tree_reaches_every_leaf_once(size: int, fan_out: int) -> None:
    tree = Tree(tuple(f"s{i}" for i in range(size)), fan_out)
    reached: list[str] = []

    def walk(parent: str, children: tuple[str, ...]) -> None:
        assert len(children) <= fan_out
        for child in children:
            assert tree.above(child) == parent
            if is_tree_node(child):
                walk(child, tree.below(child))
            else:
                reached.append(child)

    walk(CONTROLLER, tree.top)
    assert reached == list(tree.leaves)


def test_the_store_survives_its_process(tmp_path: Path) -> None:
    first = Ledger(word_count(), SqliteStore(tmp_path / "control.db"))
    flow = MemoryDataflow(first, FUNCTIONS, {})
    flow.submit(ScaleTo("reduce", 3))
    again = Ledger(word_count(), SqliteStore(tmp_path / "control.db"))
    (entry,) = again.running()
    assert (entry.name, entry.status) == ("scale", Status.RUNNING)
    assert len(again.graph.stages["reduce"]) == 3
    assert DataflowController("main", again).recover(1.0)
    with pytest.raises(StoreError, match="folder that can be written"):
        SqliteStore(tmp_path / "absent" / "control.db")
    with pytest.raises(StoreError, match="JSON"):
        MemoryStore().put("t", "k", {1, 2})


def test_monitoring_asks_everybody_once() -> None:
    flow = running(word_count(), {"a@map": [Item("1", "a", "apple zebra")]})
    flow.run()
    flow.submit(Monitor(only=("processed",)))
    flow.run()
    result = flow.ledger.history()[0].result
    assert result == {n: {"processed": 1 if n != "M2" else 0} for n in ("M1", "M2", "R1", "R2")}


def test_a_global_controller_changes_all_dataflows_or_none() -> None:
    def controller(name: str) -> DataflowController:
        graph = Dataflow.of(name, {"q": 1}, [], parameters={"q": {"A": 1}})
        return DataflowController("c", Ledger(graph))

    controllers = {name: controller(name) for name in ("x", "y")}
    everywhere = GlobalController(controllers)
    with pytest.raises(UnknownParameterError, match="has no parameter 'B'"):
        everywhere.submit({"x": Tune({"q": {"A": 2}}), "y": Tune({"q": {"B": 2}})}, 0.0)
    assert controllers["x"].ledger.history() == ()
    group = everywhere.submit({n: Tune({"q": {"A": 2}}) for n in ("x", "y")}, 0.0)
    assert not everywhere.completed(group)
    with pytest.raises(OperationInProgressError):
        everywhere.submit({"x": Tune({"q": {"A": 3}})}, 0.0)


def join(operator: MemoryOperator, item: Item) -> Iterable[Item]:
    other = "B" if item.side == "A" else "A"
    mine = operator.state.setdefault(item.side, {}).setdefault(item.key, [])
    mine.append([item.id])
    met = operator.state.get(other, {}).get(item.key, [])
    pairs = [sorted([item.id, row[0]]) for row in met]
    operator.parameters["met"] = operator.parameters.get("met", []) + pairs
    return ()


@given(st.randoms(use_true_random=False), st.lists(st.sampled_from("abc"), max_size=8))
def test_skew_repair_lets_every_pair_meet_once(random: object, keys: list[str]) -> None:
    graph = Dataflow.of(
        "join",
        {"A": 1, "B": 1, "join": 2},
        [("A", "join"), ("B", "join")],
        functions={"A": "pass", "B": "pass"},
    )
    inputs = {f"0@{s}": [Item(f"{s}{i}", k) for i, k in enumerate(keys)] for s in "AB"}
    functions = {"pass": lambda operator, item: (item,), "join": join}
    flow = MemoryDataflow(Ledger(graph), functions, inputs)
    choose = random.choice  # type: ignore[attr-defined]
    for _ in range(choose(range(12))):
        if steps := flow.steps():
            flow.step(choose(steps))
    flow.submit(RepairSkew("join-0", 2, "A", "B"))
    flow.run(choose)
    met = Counter(
        tuple(pair) for o in flow.operators.values() for pair in o.parameters.get("met", [])
    )
    expected = {
        (f"A{i}", f"B{j}") for i, a in enumerate(keys) for j, b in enumerate(keys) if a == b
    }
    assert met == Counter(expected)
    assert hashed("a") != hashed("b")


@dataclass(frozen=True)
class TouchesTooEarly(ControlOperation):
    name = "test-touches-too-early"

    def on_begin_at_operator(self, ctx: OperatorContext, message: ControlMessage) -> None:
        ctx.snapshot()


def test_an_unsafe_operation_is_stopped() -> None:
    flow = running(word_count())
    flow.submit(TouchesTooEarly())
    with pytest.raises(UnsafeOperationError, match="outside on_complete_at_operator"):
        flow.run()


def test_a_checkpoint_is_what_a_crash_goes_back_to() -> None:
    flow = running(word_count(), {"a@map": [Item(str(i), "a", "apple zebra") for i in range(4)]})
    flow.step(("read", "M1", "a@map"))
    flow.submit(Checkpoint())
    flow.run()
    flow.crash("R2")
    flow.run()
    assert flow.ledger.epoch == 1
    assert flow.state("counts") == {"apple": 4, "zebra": 4}


@pytest.mark.parametrize(
    ("operation", "error", "says"),
    [
        (ScaleTo("reduce", 0), InvalidOperationError, "at least one operator"),
        (ScaleTo("reduce", 2), InvalidOperationError, "change nothing"),
        (ScaleTo("absent", 2), UnknownVertexError, "it has map, reduce"),
        (Tune({"map": {"A": 1}}), UnknownParameterError, "no parameters"),
        (Tune({}), InvalidOperationError, "nothing to tune"),
        (RepairSkew("R1", 1, "map", "map"), InvalidOperationError, "must differ"),
        (ControlOperation(), InvalidOperationError, "needs a name"),
    ],
)
def test_what_is_wrong_is_said_before_anything_changes(
    operation: ControlOperation, error: type[ControlError], says: str
) -> None:
    flow = running(word_count())
    with pytest.raises(error, match=says):
        flow.submit(operation)
    assert flow.ledger.history() == ()
    assert not any(flow.channels.values())


def test_more_that_is_refused() -> None:
    limited = DataflowController("c", Ledger(word_count()), capabilities=frozenset({"Custom"}))
    with pytest.raises(UnsupportedInstructionError, match="this engine cannot do"):
        limited.submit(ScaleTo("reduce", 3), 0.0)
    with pytest.raises(UnknownOperationError, match="import the module"):
        operation_from("nobody's", {})
    with pytest.raises(InvalidOperationError, match="takes"):
        operation_from("no-op", {"size": 1})
    with pytest.raises(InvalidDataflowError, match="cycle"):
        Dataflow.of("x", {"a": 1, "b": 1}, [("a", "b"), ("b", "a")])
    with pytest.raises(InvalidDataflowError, match="lost"):
        word_count().with_stage("reduce", [Vertex("R1", "reduce", KeyRange.letters("a", "l"))])
    machine = Machine(AT_OPERATOR, Phase.WAITING, frozenset({"M1"}), "no-op at 'R1'")
    with pytest.raises(ProtocolError, match="complete cannot follow"):
        machine.step(Step.COMPLETE)
    with pytest.raises(ProtocolError, match="not among its inputs"):
        machine.hear("M9")
    with pytest.raises(InvalidOperationError, match="has taken"):

        class Another(ControlOperation):
            name = NoOp.name
