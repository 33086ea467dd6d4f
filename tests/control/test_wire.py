"""The binary form of control messages, and groups of a global controller in the store."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laxity.control import wire
from laxity.control.controller import DataflowController
from laxity.control.errors import ProtocolError
from laxity.control.global_controller import GlobalController
from laxity.control.graph import Dataflow
from laxity.control.ledger import Ledger
from laxity.control.messages import ControlMessage
from laxity.control.operations import ScaleTo, Tune
from laxity.control.processor import SendMessage
from laxity.control.store import MemoryStore


def scaling() -> ControlMessage:
    graph = Dataflow.of("d", {"map": 2, "reduce": 2}, [("map", "reduce")])
    controller = DataflowController("c", Ledger(graph))
    effects = controller.submit(ScaleTo("reduce", 3), 0.0).effects
    return next(e.message for e in effects if isinstance(e, SendMessage))


def test_a_message_comes_back_as_it_went() -> None:
    message = scaling()
    assert wire.decode(wire.encode(message)) == message
    assert len(message.configurations) == 5


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=4))
def test_forwarding_changes_the_channel_and_the_payload_alone(payload: dict[str, object]) -> None:
    message = scaling()
    sent = wire.forward(wire.encode(message), "map-0", "reduce-2", payload)
    assert wire.decode(sent) == message.forwarded("map-0", "reduce-2", payload)


def test_an_operator_reads_its_own_part_and_no_other() -> None:
    message = scaling()
    data = bytearray(wire.encode(message))
    own = wire.decode(bytes(data), "reduce-0")
    assert own.configurations == {"reduce-0": message.configurations["reduce-0"]}
    # What is meant for somebody else may be anything.
    start = data.index(wire._json(message.configurations["map-0"].as_document()))
    data[start : start + 4] = b"\xff\xff\xff\xff"
    assert wire.decode(bytes(data), "reduce-0") == own
    forwarded = wire.forward(bytes(data), "map-0", "reduce-1")
    assert wire.decode(forwarded, "reduce-1").destination == "reduce-1"
    with pytest.raises(ProtocolError):
        wire.decode(bytes(data))


@pytest.mark.parametrize("data", [b"", b"LXC1", b"nonsense that is long", b"LXC1\0\0\0\2{}"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="no control message"):
        wire.decode(data)


def test_only_json_data_is_carried() -> None:
    with pytest.raises(ProtocolError, match="JSON data only"):
        wire.encode(replace(scaling(), payload={"x": object()}))


def test_a_group_cut_short_is_finished_by_the_next_controller() -> None:
    def controller(name: str) -> DataflowController:
        graph = Dataflow.of(name, {"q": 1}, [], parameters={"q": {"A": 1}})
        return DataflowController("c", Ledger(graph))

    controllers = {name: controller(name) for name in ("x", "y", "z")}
    store = MemoryStore()
    group = GlobalController(controllers, store).submit(
        {n: Tune({"q": {"A": 2}}) for n in controllers}, 0.0, by="ann"
    )
    # It dies when x has its operation and has been written down, and y's has only been sent.
    kept = store.get("groups", group.id)
    operations = {"x": kept["operations"]["x"]}
    store.put("groups", group.id, {**kept, "operations": operations})
    fresh = {"x": controllers["x"], "y": controllers["y"], "z": controller("z")}
    successor = GlobalController(fresh, store)
    (finished,) = successor.recover(1.0)
    assert dict(finished.operations) == dict(group.operations)
    assert set(finished.effects) == {"z"}
    assert [len(c.ledger.history()) for c in fresh.values()] == [1, 1, 1]
    assert successor.recover(2.0) == []
    assert [g.id for g in successor.groups()] == [group.id]
    assert not successor.completed(finished)
