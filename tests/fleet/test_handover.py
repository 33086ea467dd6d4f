"""What is known of a query goes where it goes, by way of its checkpoint."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from laxity.fleet.engine import Measures
from laxity.fleet.handover import FILE, Knowledge, find, leave
from laxity.fleet.hostload import HostLoad
from laxity.fleet.load import NodeLoad, default_decisions
from laxity.fleet.rings import PredictionRing

IDLE = HostLoad(cores=2, load=0.0, busy=0.0, own=0.0, external_cpu=0.0, network=0.0)
SEASON = 60


def wave(second: float) -> float:
    return 100 + 80 * math.sin(2 * math.pi * second / SEASON)


def ring_after(node: NodeLoad, begin: int, seconds: int) -> PredictionRing:
    for now in range(begin, begin + seconds):
        said = node([Measures("q", wave(now), 0.001, 8.0)], IDLE, float(now))
    return PredictionRing.from_wire(said["ring"])


def error(ring: PredictionRing, now: float) -> float:
    """Of the first 30 seconds that the ring expects, as a fraction of the usual rate."""
    expected = ring.values[:30] / 0.001
    return float(sum(abs(e - wave(now + 1 + i)) for i, e in enumerate(expected)) / 30 / 100)


def test_a_forecast_goes_on_where_the_query_goes_on(tmp_path: Path) -> None:
    source, target, stranger = (NodeLoad(n, default_decisions()) for n in "abc")
    begin, moved = 1_000, 1_000 + 3 * SEASON
    ring_after(source, begin, 3 * SEASON)
    packed = source.pack("q", moved - 1.0)
    assert packed is not None
    leave(tmp_path, packed)
    found = find(tmp_path)
    assert found is not None
    target.unpack("q", found, moved + 3.0)  # it took some seconds
    a_moment = 5
    with_it = ring_after(target, moved + 4, a_moment)
    without = ring_after(stranger, moved + 4, a_moment)
    now = moved + 4 + a_moment - 1
    assert error(with_it, now) < 0.1
    assert error(without, now) > 0.3
    assert source.pack("q", moved) is None  # it is not there any more


def test_a_season_nobody_counted_is_too_long(tmp_path: Path) -> None:
    known = Knowledge(1.0, 500.0, 0.001, [wave(s) for s in range(120)])
    assert len(known.continued(1.0, SEASON, 500.4)) == 120
    assert known.continued(1.0, SEASON, 510.0)[-10:] == pytest.approx(
        [wave(s) for s in range(120, 130)]
    )
    assert known.continued(1.0, SEASON, 561.0) == []
    assert known.continued(0.3, SEASON, 500.0) == []  # another step: another clock


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"step": 1, "at": "x"}', '{"rates": 3}'])
def test_what_cannot_be_read_is_not_known(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert find(tmp_path) is None
    assert find(tmp_path / "away") is None
    leave(tmp_path / "away", Knowledge(1.0, 0.0, 0.0, []))  # costs a forecast, nothing else
