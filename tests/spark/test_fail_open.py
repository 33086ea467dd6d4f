"""Whatever happens to Laxity, the queries go on as on stock Spark, and the user is told once."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

import laxity
from laxity.spark import bridge as bridge_module

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from laxity.spark import Laxity
    from laxity.spark.bridge import Bridge

pytestmark = pytest.mark.spark

WaitFor = Callable[..., Any]
Attach = Callable[..., "Laxity"]
HOOKS = (
    *("order", "submit", "caps", "moment", "backlog", "plans"),
    *("size", "slots", "files", "threads", "measure", "broadcasts"),
)


def counted(spark: SparkSession, lx: Laxity, feed: Any, name: str, target: str) -> Any:
    frame = feed.read(spark, maxFilesPerTrigger=1).groupBy("key").count()
    writer = frame.writeStream.format("memory").outputMode("complete")
    return lx.start(writer, name=name, target=target)


def counts(spark: SparkSession, name: str) -> dict[str, int]:
    return {row["key"]: row["count"] for row in spark.table(name).collect()}


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_throws_stops_nothing(
    spark: SparkSession, attach: Attach, feed: Any, wait_for: WaitFor, hook: str
) -> None:
    lx = attach(quantum="1ms")  # every task is longer than that: sizes are set at once
    lx._bridge.inject_fault(hook)
    urgent = counted(spark, lx, feed, f"urgent_{hook}", "1s")
    lax = counted(spark, lx, feed, f"lax_{hook}", "1h")
    for value in range(6):
        feed.add([(float(value), key, value) for key in "ab"])
    for query in (urgent, lax):
        query.processAllAvailable()
        assert counts(spark, query.name) == {"a": 6, "b": 6}
    told = f"fault injected into {hook}"
    wait_for(lambda: any(told in notice for notice in lx.status().notices), "the notice")
    feed.add([(9.0, "a", 9)])
    urgent.processAllAvailable()
    assert counts(spark, urgent.name) == {"a": 7, "b": 6}
    assert len([notice for notice in lx.status().notices if told in notice]) == 1


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Laxity], threading.Event]]:
    """Makes the loop hang in its next call to the JVM, until the event is set."""
    events = []

    def stall(lx: Laxity) -> threading.Event:
        release = threading.Event()
        events.append(release)
        exchange = lx._bridge.exchange

        def hang(decisions: str) -> str:
            release.wait(120)
            return exchange(decisions)

        monkeypatch.setattr(lx._bridge, "exchange", hang)
        return release

    yield stall
    for event in events:
        event.set()


def test_a_stalled_loop_opens_the_gates(
    spark: SparkSession,
    attach: Attach,
    feed: Any,
    wait_for: WaitFor,
    stuck: Callable[[Laxity], threading.Event],
) -> None:
    lx = attach(stale_after="1s")
    query = counted(spark, lx, feed, "stalled", "10s")
    query.pause()
    wait_for(lambda: lx.model("stalled").state == "held")
    feed.add([(0.0, "a", 0)])
    release = stuck(lx)
    query.processAllAvailable()  # the pause went stale with everything else
    assert counts(spark, "stalled") == {"a": 1}
    (notice,) = lx.status().notices
    assert "Spark schedules on its own" in notice
    release.set()
    wait_for(lambda: lx.model("stalled").state == "held", "the loop to recover")
    assert lx.status().notices == (notice,)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_loop_stops_nothing(
    spark: SparkSession,
    attach: Attach,
    feed: Any,
    wait_for: WaitFor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lx = attach(stale_after="1s")
    lax, urgent = counted(spark, lx, feed, "orphan", "1h"), counted(spark, lx, feed, "kin", "1s")

    def die(_decisions: str) -> str:
        raise SystemExit

    monkeypatch.setattr(lx._bridge, "exchange", die)
    wait_for(lambda: not lx.status().loop_alive, "the loop to die")
    for value in range(5):
        feed.add([(float(value), "a", value)])
    for query in (lax, urgent):
        query.processAllAvailable()
        assert counts(spark, query.name) == {"a": 5}
    (notice,) = lx.status().notices
    assert notice.startswith("Laxity's loop has died")
    assert lx.status().notices == (notice,)
    monkeypatch.undo()
    lx.detach()
    again = attach()  # as the notice says
    wait_for(lambda: len(again.status().queries) == 2)
    assert again.status().loop_alive


def test_a_loop_that_fails_recovers(
    spark: SparkSession,
    attach: Attach,
    wait_for: WaitFor,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lx = attach(period="50ms", stale_after="1s")

    def fail(_decisions: str) -> str:
        raise OSError("no route")

    monkeypatch.setattr(lx._bridge, "exchange", fail)
    ticks = lx._loop.ticks
    wait_for(lambda: lx._loop.ticks > ticks + 5)
    monkeypatch.undo()
    wait_for(lambda: "recovered" in caplog.text)
    assert caplog.text.count("no route") == 1
    assert spark.range(10).count() == 10


# Detaching.


class Insides:
    """What Laxity changes in Spark, as it is right now."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._scheduler = bridge._context.taskScheduler()

    def get(self, target: Any, name: str) -> Any:
        return self._bridge._static("Reflect", "get", target, name)

    @property
    def pool(self) -> Any:
        return self._scheduler.rootPool()

    @property
    def builder(self) -> Any:
        return self.get(self._scheduler, "schedulableBuilder")

    @property
    def free_cores(self) -> int:
        endpoint = self._bridge._slots().localEndpointOrNull()
        return int(float(self._bridge._static("Reflect", "text", endpoint, "freeCores")))

    @property
    def task_threads(self) -> Any:
        endpoint = self._bridge._slots().localEndpointOrNull()
        return self.get(self.get(endpoint, "executor"), "threadPool")

    @property
    def files(self) -> Any:
        hadoop = self._bridge._gateway.jvm.org.apache.hadoop.fs
        root = self._bridge._gateway.jvm.java.net.URI.create("file:///")
        return hadoop.FileSystem.get(root, self._bridge._context.hadoopConfiguration())

    def clock(self, query: Any) -> Any:
        return self.get(query._jsq.streamingQuery().triggerExecutor(), "clock")

    def limits(self, query: Any) -> list[str]:
        entries = query._jsq.streamingQuery().uniqueSources().iterator()
        found = []
        while entries.hasNext():
            found.append(str(entries.next()._2().toString()))
        return found


def test_detaching_restores_spark_with_queries_running(
    spark: SparkSession, feed: Any, wait_for: WaitFor, attach: Attach
) -> None:
    frame = feed.read(spark)
    limited = feed.read(spark, maxFilesPerTrigger=3)
    query = frame.writeStream.format("memory").queryName("stays").start()
    other = limited.writeStream.format("memory").queryName("limited").start()
    feed.add([(0.0, "a", 0)])
    for each in (query, other):
        each.processAllAvailable()
    first = attach()
    insides = Insides(first._bridge)
    first.detach()
    wait_for(lambda: insides.free_cores == 2)
    pool, builder, files = insides.pool, insides.builder, insides.files
    threads = insides.task_threads
    clocks = [insides.clock(q) for q in (query, other)]
    limits = [insides.limits(q) for q in (query, other)]

    lx = attach(quantum="1ms")
    assert not insides.pool.equals(pool)
    assert not insides.files.equals(files)
    assert not insides.task_threads.equals(threads)
    urgent = counted(spark, lx, feed, "urgent", "1s")
    feed.add([(1.0, "a", 1)])
    wait_for(lambda: lx.status().reserved > 0, "slots to be reserved")
    wait_for(lambda: insides.limits(query) != limits[0], "a batch limit")
    for each, clock in zip((query, other), clocks, strict=True):
        assert not insides.clock(each).equals(clock)
    lx.detach()

    assert insides.pool.equals(pool)
    assert insides.builder.equals(builder)
    assert insides.files.equals(files)
    assert insides.task_threads.equals(threads)
    for each, clock, limit in zip((query, other), clocks, limits, strict=True):
        assert insides.clock(each).equals(clock)
        assert insides.limits(each) == limit
    stock = str(insides.clock(urgent).getClass().getName())
    assert stock == "org.apache.spark.util.SystemClock"
    feed.add([(2.0, "a", 2)])
    for each in (query, other, urgent):
        each.processAllAvailable()
    assert counts(spark, "urgent") == {"a": 3}
    assert spark.table("stays").count() == spark.table("limited").count() == 3
    wait_for(lambda: insides.free_cores == 2, "all slots to come back")

    again = attach()
    feed.add([(3.0, "a", 3)])
    urgent.processAllAvailable()
    assert counts(spark, "urgent") == {"a": 4}
    wait_for(lambda: len(again.status().queries) == 3)


def test_a_job_in_flight_survives_attaching_and_detaching(
    spark: SparkSession, wait_for: WaitFor
) -> None:
    found: list[int] = []
    numbers = spark.sparkContext.parallelize(range(40), 40)

    def nap(value: int) -> int:
        time.sleep(0.1)
        return value

    job = threading.Thread(target=lambda: found.append(numbers.map(nap).sum()))
    job.start()
    for _ in range(4):
        with laxity.attach(spark) as handle:
            _wait_for_tasks(handle, job, wait_for)
    job.join(120)
    assert found == [sum(range(40))]
    insides = Insides(handle._bridge)
    wait_for(lambda: insides.free_cores == 2)
    wait_for(lambda: insides.pool.runningTasks() == 0)


def _wait_for_tasks(lx: Laxity, job: threading.Thread, wait_for: WaitFor) -> None:
    capacity = lx._controller.capacity
    wait_for(lambda: any(capacity.running.values()) or not job.is_alive(), "tasks to be seen")


def test_twenty_cycles_leak_nothing(spark: SparkSession, feed: Any, wait_for: WaitFor) -> None:
    query = feed.read(spark).writeStream.format("noop").queryName("witness").start()
    try:
        query.processAllAvailable()
        _cycle(spark, feed)
        before = _leftovers(spark)
        for _ in range(20):
            _cycle(spark, feed)
        query.processAllAvailable()
        grown: dict[str, Any] = {}

        def let_go() -> bool:
            nonlocal grown
            grown = _grown(before, _leftovers(spark))
            return not grown

        with contextlib.suppress(AssertionError):
            wait_for(let_go)
        assert grown == {}
    finally:
        query.stop()


def _cycle(spark: SparkSession, feed: Any) -> None:
    with laxity.attach(spark) as lx:
        lx.set_target("witness", "1s")
        feed.add([(0.0, "a", 0)])
        assert spark.range(10).repartition(2).count() == 10


def _leftovers(spark: SparkSession) -> dict[str, int]:
    gc.collect()
    jvm: Any = spark._jvm
    context = spark._jsparkSession.sparkContext()
    threads = jvm.java.lang.Thread.getAllStackTraces().keySet().toArray()
    found = {
        "Python threads": threading.active_count(),
        "Spark listeners": context.listenerBus().listeners().size(),
        "streaming listeners": len(spark._jsparkSession.streams().listListeners()),
        "JVM threads of ours": sum("laxity" in str(t.getName()).lower() for t in threads),
        "class loaders": len(bridge_module._loaders),
    }
    for line in _histogram(jvm).splitlines():
        parts = line.split()
        if len(parts) >= 4 and parts[3].startswith("laxity."):
            found[parts[3]] = int(parts[1])
    return found


def _histogram(jvm: Any) -> str:
    """Live objects by class, after a full collection."""
    server = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    name = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    gateway = bridge_module._loaders[0][0]

    def array(kind: Any, *values: Any) -> Any:
        made = gateway.new_array(kind, len(values))
        for index, value in enumerate(values):
            made[index] = value
        return made

    objects, strings = jvm.java.lang.Object, jvm.java.lang.String
    arguments = array(objects, array(strings))
    signature = array(strings, "[Ljava.lang.String;")
    # The server's own class is hidden in its module; its interface is not.
    for method in jvm.java.lang.Class.forName("javax.management.MBeanServer").getMethods():
        if method.getName() == "invoke":
            given = array(objects, name, "gcClassHistogram", arguments, signature)
            return str(method.invoke(server, given))
    raise AssertionError("no method invoke")


def _grown(before: dict[str, int], after: dict[str, int]) -> dict[str, tuple[int, int]]:
    return {
        what: (before.get(what, 0), count)
        for what, count in after.items()
        if count > before.get(what, 0)
    }
