"""What the core costs: the two-level queue and priority generation, beside a bare `heapq`.

The work is the classical hold model. N messages wait; a worker takes the most urgent one and a
new one arrives, over and over, so that N stays. The bare heap does the same with one heap of
(priority, sequence, message): it knows no operators, so it may hand out two messages of one
operator at once, cannot move or remove a message, and has one order instead of two. Both are
timed in turns within one run, so that a noisy machine disturbs both alike; medians count.
"""

from __future__ import annotations

import gc
import math
import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from statistics import median
from time import perf_counter

from laxity.core.contexts import Message, PriorityContext
from laxity.core.converter import ContextConverter
from laxity.core.jobs import Job, OperatorId, Stage
from laxity.core.policies import LeastLaxityFirst
from laxity.core.progress import EventTimeMap
from laxity.core.queue import TwoLevelQueue
from laxity.core.windows import Window

PENDING = (100, 10_000, 1_000_000)
OPERATORS = (10, 1_000, 50_000)

_EPOCH = 1_790_000_000.0


@dataclass(frozen=True, slots=True)
class CoreCost:
    """One row: medians over the repeats. `ratio` is the median of the repeats' own ratios."""

    pending: int
    operators: int
    queue_pairs_per_second: float
    heapq_pairs_per_second: float
    ratio: float
    priority_microseconds: float
    bytes_per_message: float


@dataclass(frozen=True, slots=True)
class Goals:
    """What the issue that asked for the core calls good enough."""

    ratio: float = 3.0
    bytes_per_message: float = 300.0


class _Work:
    """The same messages for both sides: which operator, and how much later its priority is."""

    def __init__(self, pending: int, operators: int, pairs: int, rng: random.Random) -> None:
        self.keys = [OperatorId("bench", "sum", i) for i in range(operators)]
        self.initial = [self._message(rng.choice(self.keys), rng.random()) for _ in range(pending)]
        self.arriving = [
            (self._message(key, 0.0), key, rng.expovariate(1.0))
            for key in rng.choices(self.keys, k=pairs)
        ]

    @staticmethod
    def _message(operator: OperatorId, priority: float) -> Message:
        context = PriorityContext(0, priority, priority, priority, priority, 1.0)
        return Message(operator, priority, priority, context)


def _fill_heap(work: _Work) -> list[tuple[float, int, Message]]:
    heap = [(m.context.priority, i, m) for i, m in enumerate(work.initial)]
    heapify(heap)
    return heap


def _fill_queue(work: _Work) -> TwoLevelQueue[Message]:
    queue: TwoLevelQueue[Message] = TwoLevelQueue()
    for key in work.keys:
        queue.add_operator(key)
    _push_all(queue, work.initial)
    return queue


def _push_all(queue: TwoLevelQueue[Message], messages: list[Message]) -> None:
    for message in messages:
        context = message.context
        queue.push(message.operator, message, context.local, context.priority)


def _hold_heap(heap: list[tuple[float, int, Message]], work: _Work) -> float:
    sequence = len(heap)
    now = 0.0
    begin = perf_counter()
    for message, _, later in work.arriving:
        sequence += 1
        heappush(heap, (now + later, sequence, message))
        now, _, _ = heappop(heap)
    return perf_counter() - begin


def _hold_queue(queue: TwoLevelQueue[Message], work: _Work) -> float:
    chosen = queue.pop()
    assert chosen is not None
    now = 0.0
    begin = perf_counter()
    for message, key, later in work.arriving:
        time = now + later
        queue.push(key, message, time, time)
        chosen = queue.release_and_pop(chosen[0])
        assert chosen is not None  # a pair leaves as many as it found
        now = chosen[2]
    elapsed = perf_counter() - begin
    queue.release(chosen[0])
    return elapsed


def _generate_priorities(work: _Work, pairs: int) -> Callable[[], float]:
    """Times the context of a message sent from a regular operator to a windowed one, in event
    time: the dearest case. As many converters are in use as there are operators."""
    job = Job.of("bench", 1, [Stage("parse"), Stage("sum", window=Window.tumbling(10))])
    progress = EventTimeMap()
    for i in range(100):
        progress.observe(_EPOCH + i, _EPOCH + i + 0.25)
    ids = count()
    converters = [
        ContextConverter(job, "parse", LeastLaxityFirst(), progress, ids) for _ in work.keys
    ]
    context = PriorityContext(0, _EPOCH, _EPOCH, _EPOCH, _EPOCH, 1.0)
    message = Message(OperatorId("bench", "parse"), _EPOCH, _EPOCH, context, _EPOCH - 0.5)
    senders = [converters[key.partition] for _, key, _ in work.arriving[:pairs]]

    def run() -> float:
        begin = perf_counter()
        for sender in senders:
            sender.build_at_operator(message, "sum")
        return perf_counter() - begin

    return run


def _bytes_per_message(work: _Work) -> float:
    """What the queue adds to messages that exist already. Operators are added before."""
    queue: TwoLevelQueue[Message] = TwoLevelQueue()
    for key in work.keys:
        queue.add_operator(key)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        _push_all(queue, work.initial)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / len(work.initial)


@contextmanager
def _no_collector() -> Iterator[None]:
    """A collection in the middle of one side's turn would be blamed on that side."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def measure(
    pending: int, operators: int, *, pairs: int = 50_000, repeats: int = 7, seed: int = 1
) -> CoreCost:
    """One row of the table. The first turn of each side warms up and is not counted."""
    work = _Work(pending, operators, pairs, random.Random(seed))
    heap, queue = _fill_heap(work), _fill_queue(work)
    generate = _generate_priorities(work, pairs)
    heaps, queues, priorities = [], [], []
    with _no_collector():
        for turn in range(repeats + 1):
            timings = (_hold_heap(heap, work), _hold_queue(queue, work), generate())
            if turn:
                heaps.append(timings[0])
                queues.append(timings[1])
                priorities.append(timings[2])
    del heap, queue
    return CoreCost(
        pending=pending,
        operators=operators,
        queue_pairs_per_second=pairs / median(queues),
        heapq_pairs_per_second=pairs / median(heaps),
        ratio=median(q / h for q, h in zip(queues, heaps, strict=True)),
        priority_microseconds=1e6 * median(priorities) / pairs,
        bytes_per_message=_bytes_per_message(work),
    )


def growth_per_doubling(few: CoreCost, many: CoreCost) -> float:
    """Microseconds a pair gains each time the number of pending messages doubles. Logarithmic
    growth keeps this constant."""
    gained = 1e6 / many.queue_pairs_per_second - 1e6 / few.queue_pairs_per_second
    return gained / math.log2(many.pending / few.pending)
