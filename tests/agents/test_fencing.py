"""Two never hold one checkpoint, whatever order things happen in."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laxity.fleet.fencing import Fence, Lease, Process
from laxity.fleet.refusals import FencedError, LeaseHeldError, StaleOrderError, StoreAwayError


class Now:
    at = 0.0

    def __call__(self) -> float:
        return self.at


def elsewhere(fence: Fence, lease: Lease) -> Lease:
    """As if the claim were another host's: nothing is known of its process."""
    stranger = replace(lease, process=Process("another-host", 1, "1"))
    fence.path(lease.epoch).write_text(stranger.to_json())
    return stranger


def test_the_first_claim_is_free_and_a_live_one_is_not(tmp_path: Path) -> None:
    now = Now()
    one = Fence(tmp_path, "n1", ttl=10, monotonic=now)
    two = Fence(tmp_path, "n2", ttl=10, monotonic=now)
    lease = elsewhere(one, one.acquire(1))
    for _ in range(5):
        with pytest.raises(LeaseHeldError, match="n1 holds epoch 1"):
            two.acquire(2)
        now.at += 6
        lease = one.renew(lease)  # it beats, so it never lapses
    one.release(lease)
    assert two.acquire(2).epoch == 2


def test_a_silent_lease_lapses_on_the_watchers_own_clock(tmp_path: Path) -> None:
    now = Now()
    one = Fence(tmp_path, "n1", ttl=10, monotonic=now)
    two = Fence(tmp_path, "n2", ttl=10, monotonic=now)
    lease = elsewhere(one, one.acquire(1))
    now.at = 1000.0  # silence nobody watched proves nothing
    with pytest.raises(LeaseHeldError):
        two.acquire(2)
    now.at += 9.9
    with pytest.raises(LeaseHeldError):
        two.acquire(2)
    now.at += 0.1
    two.acquire(2)
    for act in (one.check, one.renew, one.release):  # the sleeper wakes up
        with pytest.raises(FencedError):
            act(lease)


def test_a_process_that_is_gone_from_this_machine_holds_nothing(tmp_path: Path) -> None:
    one, two = Fence(tmp_path, "n1"), Fence(tmp_path, "n2")
    lease = one.acquire(1)
    dead = replace(lease, process=replace(lease.process, born="0"))
    one.path(1).write_text(dead.to_json())
    assert two.acquire(2).epoch == 2


def test_an_old_order_opens_nothing(tmp_path: Path) -> None:
    one, two = Fence(tmp_path, "n1"), Fence(tmp_path, "n2")
    two.release(two.acquire(7))
    with pytest.raises(StaleOrderError) as caught:
        one.acquire(6)
    assert caught.value.newest == 7


def test_a_store_that_is_away_is_told_from_one_that_is_new(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fence = Fence(store, "n1")
    lease = fence.acquire(1)
    os.rename(store, tmp_path / "away")
    with pytest.raises(StoreAwayError):
        fence.renew(lease)
    with pytest.raises(StoreAwayError, match="not mounted here"):
        fence.acquire(1, expect=lease.token)
    assert not store.exists()


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["acquire", "renew", "release"]))))
def test_at_most_one_passes_the_check(steps: list[tuple[int, str]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        now = Now()
        fences = [Fence(Path(folder), f"n{i}", ttl=3, monotonic=now) for i in range(3)]
        held: list[Lease | None] = [None, None, None]
        for order, (who, what) in enumerate(steps):
            now.at += 1
            fence, lease = fences[who], held[who]
            try:
                if what == "acquire":
                    held[who] = elsewhere(fence, fence.acquire(order))
                elif lease is not None and what == "renew":
                    held[who] = fence.renew(lease)
                elif lease is not None:
                    fence.release(lease)
                    held[who] = None
            except (LeaseHeldError, FencedError):
                pass
            assert sum(passes(f, h) for f, h in zip(fences, held, strict=True)) <= 1


def passes(fence: Fence, lease: Lease | None) -> bool:
    if lease is None:
        return False
    try:
        fence.check(lease)
    except FencedError:
        return False
    return True
