from __future__ import annotations

from laxity.sim.engine import Engine


def test_events_come_in_order_of_time_then_of_scheduling() -> None:
    engine, seen = Engine(), []
    for instant, label in ((2.0, "c"), (1.0, "a"), (1.0, "b")):
        engine.at(instant, lambda now, what: seen.append((now, what)), label)
    engine.run(10.0)
    assert seen == [(1.0, "a"), (1.0, "b"), (2.0, "c")]
    assert engine.handled == 3


def test_run_stops_before_its_end_and_goes_on_from_there() -> None:
    engine, seen = Engine(), []

    def again(now: float, _: object) -> None:
        seen.append(now)
        engine.at(now + 1.0, again)

    engine.at(0.0, again)
    engine.run(3.0)
    assert (seen, engine.now) == ([0.0, 1.0, 2.0], 3.0)
    engine.run(4.5)
    assert seen[-1] == 4.0
