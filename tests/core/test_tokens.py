"""Token fair sharing, §5.4."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laxity.core.contexts import Message
from laxity.core.events import EventsArrived, JobAdded
from laxity.core.jobs import Job, OperatorId, Stage
from laxity.core.policies import TokenFairSharing
from laxity.core.scheduler import Scheduler
from laxity.core.tokens import NO_TOKEN, InvalidTokenRateError, TokenBucket
from laxity.testing import VirtualNode


def test_tags_are_spread_over_the_interval() -> None:
    bucket = TokenBucket(rate=4)
    tokens = [bucket.draw(now=7.3) for _ in range(5)]
    assert [t.tag for t in tokens[:4]] == [7.0, 7.25, 7.5, 7.75]
    assert {t.interval for t in tokens[:4]} == {7.0}
    assert tokens[4] == NO_TOKEN


def test_what_was_not_drawn_expires() -> None:
    bucket = TokenBucket(rate=2)
    assert bucket.draw(0.9).tag == 0.0
    drawn = [bucket.draw(1.0) for _ in range(3)]
    assert [t.tag for t in drawn] == [1.0, 1.5, math.inf]


def test_fractions_carry_over() -> None:
    bucket = TokenBucket(rate=0.4)
    granted = [second for second in range(10) if bucket.draw(second + 0.5) != NO_TOKEN]
    assert len(granted) == 4


def test_longer_intervals() -> None:
    bucket = TokenBucket(rate=1, interval=10)
    assert [bucket.draw(23.0).tag for _ in range(10)] == [20.0 + i for i in range(10)]
    assert bucket.draw(29.9) == NO_TOKEN


@pytest.mark.parametrize(
    ("rate", "interval"), [(0, 1), (-3, 1), (1, 0), (math.nan, 1), (1, math.inf)]
)
def test_bad_rates_are_refused(rate: float, interval: float) -> None:
    with pytest.raises(InvalidTokenRateError, match="must be above zero, got"):
        TokenBucket(rate, interval)


@given(
    rate=st.floats(0.1, 50),
    draws=st.lists(st.floats(0, 30), max_size=300).map(sorted),
)
def test_no_interval_grants_more_than_its_rate(rate: float, draws: list[float]) -> None:
    bucket = TokenBucket(rate)
    granted = Counter(t.interval for t in map(bucket.draw, draws) if t != NO_TOKEN)
    assert all(n <= math.floor(rate) + 1 for n in granted.values())
    assert sum(granted.values()) <= 31 * rate + 1


def throughput(offered: dict[str, float], tokens: dict[str, float], seconds: int) -> Counter[str]:
    """Messages completed by job on one worker that takes 60 a second."""
    node = VirtualNode(Scheduler(TokenFairSharing(), quantum=0.0), lambda message: 1 / 60)
    for name, rate in tokens.items():
        node.at(
            0.0,
            JobAdded(
                Job.of(
                    name,
                    10,
                    [
                        Stage("read"),
                    ],
                ),
                tokens=rate,
            ),
        )
    for name, rate in offered.items():
        for i in range(int(rate * seconds)):
            node.at(i / rate, EventsArrived(OperatorId(name, "read"), i / rate))
    done = node.run(until=seconds)
    return Counter(c.message.operator.job for c in done)


def test_20_40_40_percent_of_tokens_are_20_40_40_percent_of_throughput() -> None:
    """Figure 6: 12, 24 and 24 tokens a second, each source offers far more than its share."""
    tokens = {"one": 12.0, "two": 24.0, "three": 24.0}
    done = throughput(dict.fromkeys(tokens, 100.0), tokens, seconds=20)
    assert done.total() == pytest.approx(60 * 20, abs=2), "at capacity"
    shares = {name: n / done.total() for name, n in done.items()}
    assert shares == pytest.approx({"one": 0.2, "two": 0.4, "three": 0.4}, abs=0.01)


def test_alone_a_job_receives_full_capacity() -> None:
    tokens = {"one": 12.0, "two": 24.0, "three": 24.0}
    done = throughput({"one": 100.0}, tokens, seconds=10)
    assert done["one"] == pytest.approx(600, abs=2)


def test_short_capacity_is_short_for_all_alike() -> None:
    """Twice as many tokens as the worker can serve: everybody gets half of what was granted."""
    tokens = {"one": 24.0, "two": 48.0, "three": 48.0}
    done = throughput(dict.fromkeys(tokens, 100.0), tokens, seconds=20)
    granted = {name: rate * 20 for name, rate in tokens.items()}
    assert {name: done[name] / granted[name] for name in tokens} == pytest.approx(
        dict.fromkeys(tokens, 0.5), abs=0.02
    )


def test_downstream_work_without_a_token_waits_too() -> None:
    jobs = {name: Job.of(name, 10, [Stage("read"), Stage("write")]) for name in ("rich", "poor")}

    def emits(message: Message) -> list[OperatorId]:
        job, stage, _ = message.operator
        return [OperatorId(job, "write")] if stage == "read" else []

    node = VirtualNode(Scheduler(TokenFairSharing(), quantum=0.0), lambda message: 0.01, emits)
    node.at(0.0, JobAdded(jobs["rich"], tokens=100.0), JobAdded(jobs["poor"]))
    for name in ("poor", "rich"):
        node.at(0.5, *(EventsArrived(OperatorId(name, "read"), 0.5) for _ in range(10)))
    order = [c.message.operator.job for c in node.run()]
    assert order[0] == "poor", "it was there first, on an idle worker"
    assert order[1:21] == ["rich"] * 20
    assert order[21:] == ["poor"] * 19
