from __future__ import annotations

import time

import pytest

from laxity.clock import SystemClock, VirtualClock


def test_virtual_time_moves_only_when_told_to() -> None:
    clock = VirtualClock(100.0)
    clock.sleep(2.5)
    clock.sleep(-1.0)
    assert clock.now() == 102.5
    clock.advance_to(110.0)
    with pytest.raises(ValueError, match=r"back from 110\.0 to 109\.0"):
        clock.advance_to(109.0)


def test_system_time_is_the_wall_clock() -> None:
    before = time.time()
    SystemClock().sleep(0.0)
    assert before <= SystemClock().now() <= time.time()
