"""`laxity.attach` and everything its handle does, on a real session."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import laxity
from laxity.core.errors import InvalidDurationError, UnknownPolicyError
from laxity.spark import bridge as bridge_module
from laxity.spark import current
from laxity.spark.batches import Phase
from laxity.spark.errors import (
    AlreadyAttachedError,
    DuplicateQueryError,
    InvalidCapError,
    InvalidSettingError,
    NotAttachedError,
    NotAWriterError,
    SparkConnectError,
    UnknownQueryError,
    UnsupportedSparkError,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from laxity.spark import Laxity

pytestmark = pytest.mark.spark

WaitFor = Callable[..., Any]
Attach = Callable[..., "Laxity"]


def rows(spark: SparkSession, per_second: int = 100) -> Any:
    return spark.readStream.format("rate").option("rowsPerSecond", per_second).load()


def noop(frame: Any) -> Any:
    return frame.writeStream.format("noop")


def test_the_session_is_a_small_classic_one(spark: SparkSession) -> None:
    assert spark.sparkContext.master == "local[2]"
    assert spark._jsparkSession is not None
    assert spark.range(5).count() == 5


# Queries.


def test_a_query_handle_is_pysparks_and_more(
    spark: SparkSession, lx: Laxity, wait_for: WaitFor
) -> None:
    query = lx.start(noop(rows(spark)), name="alerts", target="30s", tenant="ads")
    assert query.isActive
    assert query.name == "alerts"
    assert query.id == query.streaming_query.id
    wait_for(lambda: query.latency().count, "a first result")
    assert query.lastProgress is not None
    assert query.target == 30.0
    assert "with every batch" in query.plan()
    assert "stage 0.0" in query.plan()
    assert "alerts" in repr(query)
    status = lx.status()
    assert status["alerts"].tenant == "ads"
    assert status["alerts"].batches > 0
    assert status["alerts"].state in ("running", "idle")
    assert status.loop_alive
    assert status.notices == ()
    assert "alerts" in str(status)
    assert status.to_dict()["queries"][0]["name"] == "alerts"
    query.stop()
    wait_for(lambda: not lx.status().queries, "the query to leave")
    assert lx.model("alerts").state == "stopped"
    assert query.latency().count  # still there to be asked


def test_targets_change_while_a_query_runs(spark: SparkSession, lx: Laxity) -> None:
    query = lx.start(noop(rows(spark)), name="q", target="1h")
    assert lx.status().reserved == 0
    query.set_target("500ms")
    assert lx.status()["q"].target == 0.5
    lx.set_target("q", None)
    assert lx.status()["q"].target is None
    with pytest.raises(InvalidDurationError, match="target of 'q' must be above zero"):
        lx.set_target("q", 0)
    with pytest.raises(InvalidDurationError):
        lx.start(noop(rows(spark)), name="other", target="soon")
    assert [q.name for q in spark.streams.active] == ["q"]


def test_an_ordinary_query_is_best_effort_until_it_gets_a_target(
    spark: SparkSession, lx: Laxity, wait_for: WaitFor
) -> None:
    started = noop(rows(spark)).queryName("ordinary").start()
    nameless = noop(rows(spark)).start()
    wait_for(lambda: len(lx.status().queries) == 2, "both to be seen")
    assert lx.status()["ordinary"].target is None
    lx.set_target("ordinary", "20s")
    query = lx.query("ordinary")
    assert query.id == started.id
    assert query.target == 20.0
    wait_for(lambda: query.latency().count, "a measured result")
    assert lx.query(nameless.id).isActive


def test_paused_queries_wait_and_lose_nothing(
    spark: SparkSession, lx: Laxity, feed: Any, wait_for: WaitFor
) -> None:
    query = lx.start(feed.read(spark).writeStream.format("memory"), name="pausing", target="10s")
    feed.add([(0.0, "a", 1)])
    query.processAllAvailable()
    lx.pause("pausing")
    wait_for(lambda: lx.status()["pausing"].state == "paused")
    wait_for(lambda: lx.model("pausing").state == "held", "the gate to hold it")
    feed.add([(1.0, "b", 2)])
    before = lx.model("pausing").batches
    time.sleep(0.5)
    assert lx.model("pausing").batches == before
    assert spark.table("pausing").count() == 1
    query.resume()
    query.processAllAvailable()
    assert sorted(r.key for r in spark.table("pausing").collect()) == ["a", "b"]


def test_a_paused_query_can_be_stopped(spark: SparkSession, lx: Laxity, wait_for: WaitFor) -> None:
    query = lx.start(noop(rows(spark)), name="stuck", target="10s")
    query.pause()
    wait_for(lambda: lx.model("stuck").state == "held")
    query.stop()
    assert not query.isActive
    assert query.exception() is None


def test_a_query_restarts_under_its_name(
    spark: SparkSession, lx: Laxity, feed: Any, tmp_path: Path, wait_for: WaitFor
) -> None:
    def start() -> Any:
        writer = feed.read(spark).writeStream.format("noop")
        return lx.start(
            writer.option("checkpointLocation", str(tmp_path / "checkpoint")),
            name="again",
            target="10s",
        )

    runs = []
    for _ in range(3):
        query = start()
        runs.append((query.id, query.runId))
        feed.add([(0.0, "a", 1)])
        query.processAllAvailable()
        query.stop()
    assert len({run for _, run in runs}) == 3
    assert len({query for query, _ in runs}) == 1
    last = start()
    wait_for(lambda: lx.status()["again"].state == "idle" or lx.status()["again"].batches)
    assert last.isActive
    assert lx.status()["again"].target == 10.0


def test_a_failing_query_is_shown_with_its_error(
    spark: SparkSession, lx: Laxity, feed: Any, tmp_path: Path, wait_for: WaitFor
) -> None:
    def explode(_frame: Any, _batch: int) -> None:
        raise RuntimeError("the sink is gone")

    feed.add([(0.0, "a", 1)])
    lx.start(feed.read(spark).writeStream.foreachBatch(explode), name="broken", target="1s")
    wait_for(lambda: lx.model("broken").state == "failed", "the failure to be noticed")
    assert "the sink is gone" in lx.model("broken").error
    assert lx.status().queries == ()
    writer = noop(rows(spark)).option("checkpointLocation", str(tmp_path / "mended"))
    again = lx.start(writer, name="broken", target="10s")
    wait_for(lambda: again.latency().count, "the mended query's results")


# Triggers.


def test_a_processing_time_trigger_keeps_its_interval(
    spark: SparkSession, lx: Laxity, wait_for: WaitFor
) -> None:
    query = lx.start(
        noop(rows(spark)).trigger(processingTime="1 second"), name="paced", target="5s"
    )
    full = lambda: [p for p in query.recentProgress if p["numInputRows"]]  # noqa: E731
    wait_for(lambda: len(full()) >= 4, "four batches")
    seconds = [progress["timestamp"][:19] for progress in full()]
    assert len(set(seconds)) == len(
        seconds
    )  # a batch begins at a full second, or late, never early


# What is measured.


def test_latency_and_explanation_know_a_known_delay(
    spark: SparkSession, lx: Laxity, feed: Any, wait_for: WaitFor
) -> None:
    def slow(frame: Any, _batch: int) -> None:
        frame.count()
        time.sleep(0.4)

    query = lx.start(feed.read(spark).writeStream.foreachBatch(slow), name="slow", target="200ms")
    for i in range(6):
        feed.add([(float(i), "a", i)])
        query.processAllAvailable()
    summary = wait_for(lambda: query.latency() if query.latency().count >= 6 else None)
    assert summary.p50 >= 0.4
    assert summary.met == 0.0
    assert summary.p50 <= summary.p95 <= summary.p99 <= summary.maximum
    assert "upper bound" in summary.arrival
    for result in query.results():
        assert result.phases[Phase.COMMITTING] >= 0.4
        assert sum(result.phases.values()) == pytest.approx(result.latency, abs=0.01)
    text = query.explain()
    assert text.startswith("slow missed its target of 200ms in 6 of 6 results")
    assert "committing" in text
    assert "slow" in str(lx.status())
    assert lx.status().overloaded
    assert lx.status().overload >= 2.0
    assert "overloaded: the worst query takes" in str(lx.status())


def test_waiting_is_told_with_who_was_in_the_way(
    spark: SparkSession, attach: Attach, feed: Any, tmp_path: Path, wait_for: WaitFor
) -> None:
    lx = attach(reserve=0)
    query = lx.start(feed.read(spark).writeStream.format("noop"), name="late", target="10ms")
    feed.add([(0.0, "a", 1)])
    query.processAllAvailable()  # warm
    enough = tmp_path / "enough"
    jobs = threading.Thread(target=_occupy, args=(spark, enough))
    jobs.start()
    capacity = lx._controller.capacity
    wait_for(lambda: capacity.running.get("", 0) == 2, "both slots to be taken")
    feed.add([(1.0, "a", 1)])
    wait_for(lambda: capacity.waiting.get(query.id), "the query to wait")
    enough.touch()
    query.processAllAvailable()
    jobs.join()
    text = wait_for(lambda: query.explain() if "behind" in query.explain() else "")
    assert "waiting for a slot behind a batch job" in text


def test_a_cancelled_job_is_in_nobodys_way(
    spark: SparkSession, lx: Laxity, tmp_path: Path, wait_for: WaitFor
) -> None:
    """Its tasks end after its stages are forgotten."""
    running = lx._bridge._static("Reflect", "get", lx._bridge._measures, "runningByQuery")
    context = spark.sparkContext

    def doomed() -> None:
        context.setJobGroup("doomed", "to be cancelled", interruptOnCancel=True)
        with contextlib.suppress(Exception):
            _occupy(spark, tmp_path / "never")

    job = threading.Thread(target=doomed)
    job.start()
    wait_for(lambda: running.size() == 1, "the job's tasks")
    context.cancelJobGroup("doomed")
    job.join(60)
    wait_for(lambda: running.size() == 0, "its tasks to be forgotten")


def _occupy(spark: SparkSession, enough: Path) -> None:
    """Both slots, until there is such a file."""

    def hold(_: int) -> None:
        until = time.monotonic() + 60
        while not enough.exists() and time.monotonic() < until:
            time.sleep(0.05)

    spark.sparkContext.parallelize(range(2), 2).foreach(hold)


def test_a_target_that_cannot_be_met_is_told_with_the_floor(
    spark: SparkSession, lx: Laxity, wait_for: WaitFor
) -> None:
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    lx.start(noop(frame), name="impossible", target="1us")
    notice = wait_for(lambda: [n for n in lx.status().notices if "impossible" in n], "the notice")
    assert "has not met its target of 1us once" in notice[0]
    assert "by itself: a target below that cannot be met" in notice[0]
    batches = lx.model("impossible").batches
    wait_for(lambda: lx.model("impossible").batches > batches + 5)
    assert len([n for n in lx.status().notices if "impossible" in n]) == 1
    assert "impossible" in str(lx.status()).splitlines()[-1]
    lx.set_target("impossible", "1h")
    assert lx.status().notices == ()


# Batch jobs and tenants.


def test_a_batch_job_can_be_given_a_target(spark: SparkSession, lx: Laxity) -> None:
    context = spark.sparkContext
    with lx.target("5s", tenant="reports"):
        due = float(context.getLocalProperty("laxity.due"))
        assert due - time.time() == pytest.approx(5.0, abs=1.0)
        assert context.getLocalProperty("laxity.tenant") == "reports"
        with lx.target("1h"):
            assert float(context.getLocalProperty("laxity.due")) > due
        assert float(context.getLocalProperty("laxity.due")) == due
        assert spark.range(1000).count() == 1000
    assert context.getLocalProperty("laxity.due") is None
    assert context.getLocalProperty("laxity.tenant") is None


def test_a_job_with_a_target_overtakes_best_effort(
    spark: SparkSession, attach: Attach, tmp_path: Path, wait_for: WaitFor
) -> None:
    """Many naps are queued for two slots; a job due in a second comes last and goes next."""
    lx = attach(reserve=0)
    log = tmp_path / "order"

    def nap(tag: str) -> Callable[[int], None]:
        def work(_: int) -> None:
            with log.open("a") as file:
                file.write(f"{tag}\n")
            time.sleep(0.3)

        return work

    bulk = threading.Thread(
        target=lambda: spark.sparkContext.parallelize(range(30), 30).foreach(nap("bulk"))
    )
    bulk.start()
    wait_for(lambda: log.exists(), "the first naps")
    with lx.target("1s"):
        spark.sparkContext.parallelize(range(2), 2).foreach(nap("urgent"))
    bulk.join()
    order = log.read_text().split()
    assert order.count("bulk") == 30
    first, last = order.index("urgent"), len(order) - 1 - order[::-1].index("urgent")
    assert last - first <= 2  # one more nap at most, which had its slot already
    assert last < len(order) - 1, "there was nothing left to overtake"


def test_caps_hold_whatever_is_free(spark: SparkSession, lx: Laxity, tmp_path: Path) -> None:
    log = tmp_path / "naps"

    def nap(_: int) -> None:
        start = time.time()
        time.sleep(0.15)
        with log.open("a") as file:
            file.write(f"{start} {time.time()}\n")

    lx.set_cap("small", 1)
    with lx.target("1h", tenant="small"):
        spark.sparkContext.parallelize(range(6), 6).foreach(nap)
    naps = sorted(tuple(map(float, line.split())) for line in log.read_text().splitlines())
    assert len(naps) == 6
    for (_, end), (start, _) in itertools.pairwise(naps):
        assert start >= end
    log.unlink()
    lx.set_cap("small")  # lifted
    with lx.target("1h", tenant="small"):
        spark.sparkContext.parallelize(range(6), 6).foreach(nap)
    naps = sorted(tuple(map(float, line.split())) for line in log.read_text().splitlines())
    assert any(start < end for (_, end), (start, _) in itertools.pairwise(naps))


@pytest.mark.parametrize(
    "cap",
    [
        {"slots": 0},
        {"slots": 1.5},
        {"slots": True},
        {"share": 0},
        {"share": 2},
        {"slots": 1, "share": 0.5},
    ],
)
def test_caps_that_make_no_sense_are_refused(lx: Laxity, cap: dict[str, Any]) -> None:
    with pytest.raises(InvalidCapError):
        lx.set_cap("t", **cap)


# Errors.


def test_one_laxity_to_an_application(spark: SparkSession, lx: Laxity) -> None:
    assert current() is lx
    with pytest.raises(AlreadyAttachedError, match="call its detach"):
        laxity.attach(spark)
    with pytest.raises(AlreadyAttachedError):
        laxity.attach(spark.newSession())  # another session of the same application


def test_detached_handles_say_so(spark: SparkSession, attach: Attach) -> None:
    with attach() as lx:
        query = lx.start(noop(rows(spark)), name="survivor", target="10s")
    for use in (
        *(lx.status, query.latency, lambda: lx.model("survivor"), lambda: lx.query("survivor")),
        *(lambda: lx.pause("x"), lambda: lx.set_cap("x", 1), lambda: lx.set_share("x", 0.5)),
    ):
        with pytest.raises(NotAttachedError, match=r"call laxity\.attach\(spark\) again"):
            use()
    with pytest.raises(NotAttachedError), lx.target("1s"):
        pass
    assert query.isActive
    lx.detach()  # a second time does nothing
    with pytest.raises(NotAttachedError):
        current()


def test_names_are_unique_and_known(spark: SparkSession, lx: Laxity, wait_for: WaitFor) -> None:
    lx.start(noop(rows(spark)), name="taken", target="10s")
    with pytest.raises(DuplicateQueryError, match="'taken' is running already"):
        lx.start(noop(rows(spark)), name="taken", target="10s")
    with pytest.raises(UnknownQueryError, match="no query is named 'tkaen'; running are: taken"):
        lx.set_target("tkaen", "1s")
    with pytest.raises(UnknownQueryError):
        lx.query("nobody")
    with pytest.raises(UnknownQueryError, match="running are: taken"):
        lx.status()["tkaen"]
    ordinary = noop(rows(spark)).queryName("ordinary").start()
    wait_for(lambda: "ordinary" in lx.names().values(), "it to be seen")
    ordinary.stop()
    wait_for(lambda: lx.model("ordinary").state == "stopped")
    with pytest.raises(UnknownQueryError, match="'ordinary' is not running any more"):
        lx.query("ordinary")


def test_what_is_no_writer_is_refused(spark: SparkSession, lx: Laxity) -> None:
    for given in (rows(spark), noop(rows(spark)).start()):
        with pytest.raises(NotAWriterError, match=r"give it df\.writeStream\.format"):
            lx.start(given, name="q")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quantun": 1}, "has no option 'quantun'; it has "),
        ({"reserve": -1}, "reserve must be a whole number from 0 on, got -1"),
        ({"planners": 0}, "planners must be a whole number from 1 on"),
        ({"files": "yes"}, "files must be True or False"),
        ({"stale_after": "100ms"}, "at least four periods"),
    ],
)
def test_bad_settings_name_the_fix(
    spark: SparkSession, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidSettingError, match=words):
        laxity.attach(spark, **options)


def test_unknown_policies_are_refused(spark: SparkSession) -> None:
    with pytest.raises(UnknownPolicyError, match="installed are"):
        laxity.attach(spark, "lifo")


def test_spark_connect_is_refused_by_name() -> None:
    pytest.importorskip("grpc")
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    with pytest.raises(SparkConnectError, match="to a classic session"):
        laxity.attach(ConnectSession.__new__(ConnectSession))  # one that has not dialled
    with pytest.raises(SparkConnectError, match="needs a SparkSession, got a str"):
        laxity.attach("local[2]")


_CONNECT = """
import laxity
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.remote("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.connect.grpc.binding.port", "0")
    .getOrCreate()
)
assert spark.range(5).count() == 5
try:
    laxity.attach(spark)
except laxity.spark.errors.SparkConnectError as error:
    print("refused:", error)
spark.stop()
"""


@pytest.mark.slow
def test_a_real_connect_session_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    done = _by_itself(_CONNECT, tmp_path)
    assert "refused: this is a Spark Connect session" in done.stdout, done.stderr[-3000:]


def test_unsupported_versions_are_refused_by_name(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge_module, "SUPPORTED", ("3.9",))
    with pytest.raises(UnsupportedSparkError, match=r"is not supported; .* Spark 3\.9"):
        laxity.attach(spark)


# Sessions of their own kind, each in a process of its own.

_FAIR = """
import laxity
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", "2")
    .config("spark.scheduler.mode", "FAIR").getOrCreate()
)
scheduler = spark._jsparkSession.sparkContext().taskScheduler()
stock = scheduler.rootPool()
lx = laxity.attach(spark)
assert not scheduler.rootPool().equals(stock)
spark.sparkContext.setLocalProperty("spark.scheduler.pool", "mine")
rate = spark.readStream.format("rate").load()
q = lx.start(rate.groupBy("value").count().writeStream.format("noop").outputMode("update"),
             name="q", target="10s")
assert spark.range(100).repartition(3).count() == 100
q.processAllAvailable()
lx.detach()
assert scheduler.rootPool().equals(stock)
assert spark.range(100).repartition(3).count() == 100
assert stock.getSchedulableByName("mine") is not None
q.stop()

lx = laxity.attach(spark)
spark.stop()
for use in (lx.status, lambda: laxity.attach(spark)):
    try:
        use()
    except laxity.spark.errors.NotAttachedError as error:
        assert "make a new one" in str(error), error
    else:
        raise AssertionError("a stopped session was accepted")
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
with laxity.attach(spark) as lx:
    assert spark.range(10).count() == 10
    assert lx.status().loop_alive
spark.stop()
print("all well")
"""


def test_fair_mode_and_stopped_sessions(tmp_path: Path) -> None:
    done = _by_itself(_FAIR, tmp_path)
    assert done.stdout.strip().endswith("all well"), done.stderr[-3000:]


def _by_itself(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
