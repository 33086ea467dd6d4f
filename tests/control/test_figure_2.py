"""Figure 2: word count gets a third reducer, in six stages.

Stage II of the text gives R2 [i-p] and R3 [q-z]; stages IV and V give R3 [i-p], which R1 and R2
both ship a part of. The latter is what the figure shows and what consistent hashing would do: it is
tested here stage by stage, the former at the end.
"""

from __future__ import annotations

from collections import Counter

import pytest

from control.flows import running, word_count
from laxity.control.instructions import LoadFunction, MergeState, Reconnect, SplitState
from laxity.control.keys import KeyRange
from laxity.control.memory import Item, MemoryDataflow
from laxity.control.operations import ScaleTo

LETTERS = KeyRange.letters
LINES = {
    "a@map": [Item("a0", "a", "apple kiwi melon"), Item("a1", "a", "zebra kiwi orange lemon")],
    "z@map": [Item("z0", "z", "kiwi banana orange"), Item("z1", "z", "apple melon zebra")],
}


def scale_out(r1: KeyRange, r2: KeyRange, r3: KeyRange) -> ScaleTo:
    owners = {"R1": r1, "R2": r2, "R3": r3}
    return ScaleTo(
        "reduce", 3, {name: [list(i) for i in keys.intervals] for name, keys in owners.items()}
    )


def state(flow: MemoryDataflow, name: str) -> dict[str, int]:
    return flow.operators[name].state.get("counts", {})


def waiting(flow: MemoryDataflow) -> set[tuple[str, str]]:
    """Channels with a control message on them."""
    return {
        ends
        for ends, channel in flow.channels.items()
        if any(not isinstance(item, Item) for item in channel)
    }


def test_the_six_stages() -> None:
    flow = running(word_count(), LINES)

    # (I) Two mappers, two reducers; each mapper has read one line, each reducer has counted it.
    for step in [("read", "M1", "a@map"), ("read", "M2", "z@map")]:
        flow.step(step)
    while ("take", "M1", "R1") in flow.steps():
        flow.step(("take", "M1", "R1"))
    for mapper, reducer, words in [("M1", "R2", 1), ("M2", "R1", 2), ("M2", "R2", 1)]:
        for _ in range(words):
            flow.step(("take", mapper, reducer))
    assert state(flow, "R1") == {"apple": 1, "kiwi": 2, "banana": 1}
    assert state(flow, "R2") == {"melon": 1, "orange": 1}

    # (II) The controller decides on a third reducer and tells all sources.
    operation = flow.submit(
        scale_out(LETTERS("a", "h"), LETTERS("q", "z"), LETTERS("i", "p")), controller="C"
    )
    assert operation is not None
    assert waiting(flow) == {("C", "M1"), ("C", "M2")}
    told = flow.ledger.plan(operation).configurations
    assert {type(i) for i in told["M1"].instructions} == {Reconnect}
    assert told["R1"].instructions == (SplitState(LETTERS("a", "h"), (("R3", LETTERS("i", "l")),)),)
    assert told["R2"].instructions == (SplitState(LETTERS("q", "z"), (("R3", LETTERS("m", "p")),)),)
    assert MergeState(LETTERS("i", "p")) in told["R3"].instructions
    assert LoadFunction("count") in told["R3"].instructions

    # (III) M1 takes the message, routes anew and tells R1, R2, R3. M2 has not heard yet.
    flow.step(("take", "C", "M1"))
    assert waiting(flow) == {("C", "M2"), ("M1", "R1"), ("M1", "R2"), ("M1", "R3")}
    flow.step(("read", "M1", "a@map"))  # zebra → R2; kiwi, orange, lemon → R3 by the new routes
    flow.step(("read", "M2", "z@map"))  # apple → R1; melon, zebra → R2 by the old ones

    # (IV) R1 blocks the channel its first message came on, but not the other.
    flow.step(("take", "M1", "R1"))
    assert flow.processors["R1"].blocked == {"M1"}
    flow.step(("take", "M2", "R1"))  # apple, before the barrier
    flow.step(("take", "C", "M2"))
    flow.step(("take", "M2", "R1"))  # the second message: R1 splits its state
    assert flow.processors["R1"].blocked == frozenset()
    assert state(flow, "R1") == {"apple": 2, "banana": 1}
    assert {("R1", "R3"), ("R1", "C")} <= waiting(flow)

    # (V) R3 blocks channel by channel, records what R1 sends, and processes no data meanwhile.
    for sender in ("M1", "M2", "R1"):
        flow.step(("take", sender, "R3"))
    assert flow.processors["R3"].blocked == {"M1", "M2", "R1"}
    assert ("take", "M1", "R3") not in flow.steps()
    assert state(flow, "R3") == {}
    for _ in range(3):
        flow.step(("take", "M2", "R2"))  # melon, zebra, then the message
    flow.step(("take", "M1", "R2"))
    flow.step(("take", "R2", "R3"))  # the last one: R3 merges [i-l] and [m-p]
    assert state(flow, "R3") == {"kiwi": 2, "melon": 2, "orange": 1}

    # (VI) The controller has heard from R1, R2 and R3: complete. Data has never stopped.
    assert flow.completed == []
    for reducer in ("R1", "R2", "R3"):
        flow.step(("take", reducer, "C"))
    assert flow.completed == [operation]
    flow.run()
    assert state(flow, "R1") == {"apple": 2, "banana": 1}
    assert state(flow, "R2") == {"zebra": 2}
    assert state(flow, "R3") == {"kiwi": 3, "melon": 2, "orange": 2, "lemon": 1}


@pytest.mark.parametrize(
    ("r1", "r2", "r3"),
    [
        (LETTERS("a", "h"), LETTERS("i", "p"), LETTERS("q", "z")),  # as in stage II of the text
        (LETTERS("m", "z"), LETTERS("a", "f"), LETTERS("g", "l")),  # R1 and R2 change places
    ],
)
def test_any_other_division_of_the_keys(r1: KeyRange, r2: KeyRange, r3: KeyRange) -> None:
    flow = running(word_count(), LINES)
    flow.step(("read", "M1", "a@map"))
    flow.step(("take", "M1", "R1"))
    flow.submit(scale_out(r1, r2, r3))
    flow.run(lambda steps: steps[-1])
    words = Counter(w for lines in LINES.values() for line in lines for w in line.value.split())
    assert flow.state("counts") == words
