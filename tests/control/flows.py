"""Dataflows for the tests of the control plane, and the functions their operators compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from laxity.control.graph import Dataflow, Vertex
from laxity.control.keys import KeyRange
from laxity.control.ledger import Ledger
from laxity.control.memory import Function, Item, MemoryDataflow, MemoryOperator


def word_count() -> Dataflow:
    """Figure 2, stage I."""
    return Dataflow.of(
        "words",
        {
            "map": [
                Vertex("M1", "map", KeyRange(((0, 2**31),)), "tokenize"),
                Vertex("M2", "map", KeyRange(((2**31, 2**32),)), "tokenize"),
            ],
            "reduce": [
                Vertex("R1", "reduce", KeyRange.letters("a", "l"), "count"),
                Vertex("R2", "reduce", KeyRange.letters("m", "z"), "count"),
            ],
        },
        [("map", "reduce")],
        positions="alphabetical",
    )


def tokenize(operator: MemoryOperator, item: Item) -> Iterable[Item]:
    for i, word in enumerate(str(item.value).split()):
        yield Item(f"{item.id}.{i}", word)


def count(operator: MemoryOperator, item: Item) -> Iterable[Item]:
    counts = operator.state.setdefault("counts", {})
    counts[item.key] = counts.get(item.key, 0) + 1
    return ()


def passing(operator: MemoryOperator, item: Item) -> Iterable[Item]:
    """Counts each key in the stage's own table, notes where the item has been and which
    configuration it met there, and passes it on. A sink (no routes) keeps it."""
    version = operator.parameters.get("version")
    # A source owns partitions, the others own keys.
    owned = item.key if item.trail else item.id.rpartition(".")[0]
    counts = operator.state.setdefault(f"counts:{operator.stage}", {})
    counts[owned] = counts.get(owned, 0) + 1
    seen = Item(item.id, item.key, item.value, (*item.trail, (operator.stage, version)))
    if operator.routes:
        return (seen,)
    kept = operator.state.setdefault(f"kept:{operator.stage}", {}).setdefault(owned, [])
    kept.append([item.id, [list(mark) for mark in seen.trail]])
    return ()


FUNCTIONS: dict[str, Function] = {"tokenize": tokenize, "count": count, "passing": passing}


def running(
    graph: Dataflow, inputs: dict[str, list[Item]] | None = None, **options: Any
) -> MemoryDataflow:
    return MemoryDataflow(Ledger(graph), FUNCTIONS, inputs or {}, **options)


def kept(flow: MemoryDataflow) -> Counter[tuple[str, tuple[Any, ...]]]:
    """What the sinks hold: how often which item came on which way."""
    found: Counter[tuple[str, tuple[Any, ...]]] = Counter()
    for operator in flow.operators.values():
        for table, rows in operator.state.items():
            if table.startswith("kept:"):
                for items in rows.values():
                    found.update((id_, tuple(map(tuple, trail))) for id_, trail in items)
    return found


def counts(flow: MemoryDataflow) -> dict[str, dict[str, int]]:
    """Every stage's counts, over all its operators."""
    tables = {t for o in flow.operators.values() for t in o.state if t.startswith("counts")}
    return {table: dict(sorted(flow.state(table).items())) for table in sorted(tables)}
