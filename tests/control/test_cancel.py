"""An operation that is given up leaves no trace: over random dataflows and interleavings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.test_properties import Case, cases, check_nothing_lost_doubled_or_mixed, start
from laxity.control.errors import InvalidOperationError
from laxity.control.graph import Dataflow
from laxity.control.ledger import Ledger, Status
from laxity.control.memory import MemoryDataflow
from laxity.control.operations import BlockingNoOp, Checkpoint, Monitor, NoOp, Tune


@given(
    case=cases(),
    operation=st.sampled_from([NoOp(), BlockingNoOp(), Checkpoint(), Monitor()]),
    random=st.randoms(use_true_random=False),
    before=st.integers(0, 25),
    lost=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_whatever_stage_it_is_at(
    case: Case, operation: Any, random: Any, before: int, lost: bool
) -> None:
    flow = start(case)
    id_ = flow.submit(operation)
    assert id_ is not None
    if lost:  # why somebody would give it up: a source has never heard of it
        flow.lose("main", flow.ledger.plan(id_).roots[0])
    for _ in range(before):
        possible = flow.steps()
        if not possible or flow.ledger.entry(id_).status is not Status.RUNNING:
            break
        flow.step(random.choice(possible))
    if flow.ledger.entry(id_).status is Status.RUNNING:
        flow.cancel(id_)
        assert flow.ledger.entry(id_).status is Status.CANCELLED
    changed = flow.submit(Tune({name: {"version": 1} for name in case.graph.stages}))
    flow.run(lambda steps: random.choice(steps))
    check_nothing_lost_doubled_or_mixed(flow, case)
    assert changed is not None
    assert flow.ledger.entry(changed).status is Status.COMPLETED
    for processor in flow.processors.values():
        assert processor.blocked == frozenset()
        assert processor.visits == {}


def test_what_changes_operators_is_not_given_up() -> None:
    graph = Dataflow.of("d", {"q": 1}, [], parameters={"q": {"A": 1}})
    flow = MemoryDataflow(Ledger(graph), {}, {})
    id_ = flow.submit(Tune({"q": {"A": 2}}))
    assert id_ is not None
    with pytest.raises(InvalidOperationError, match="roll back to a checkpoint instead"):
        flow.cancel(id_)
    flow.run()
    with pytest.raises(InvalidOperationError, match="is completed already"):
        flow.cancel(id_)
