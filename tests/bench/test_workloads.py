"""The benchmarks' queries on a real Spark, against DuckDB's answers on the same events."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
duckdb = pytest.importorskip("duckdb")

from laxity.bench.sessions import local_session  # noqa: E402
from laxity.bench.workloads import nexmark, ysb  # noqa: E402
from laxity.bench.workloads.arrivals import Schedule, constant  # noqa: E402
from laxity.bench.workloads.catalogue import QUERIES  # noqa: E402
from laxity.bench.workloads.mixes import PATTERNS, Mix  # noqa: E402
from laxity.bench.workloads.ticks import read_ticks  # noqa: E402

pytestmark = pytest.mark.spark

RATE, SECONDS = 1000, 45.0
EVENTS = int(RATE * SECONDS)
BATCH = 11_000


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    scratch = str(tmp_path_factory.mktemp("workloads"))
    session = local_session("local[2]", scratch, name="workloads", partitions=1)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def origin() -> float:
    """Long ago, so that everything has arrived; windows of every length begin there."""
    return time.time() // 60 * 60 - 600.0


@pytest.fixture(scope="module")
def tables(spark: Any, origin: float) -> Any:
    """The same events in DuckDB, made in one batch."""
    rows = spark.range(EVENTS).selectExpr(
        f"timestamp_millis({round(origin * 1000)} + id * 1000 div {RATE}) as timestamp",
        "id as value",
    )
    database = duckdb.connect()
    for name, build in {
        "person": nexmark.people,
        "auction": nexmark.auctions,
        "bid": nexmark.bids,
        "event": ysb.events,
        "campaign": ysb.campaigns,
        "row": lambda rows: rows,
    }.items():
        database.register("arrow", build(rows).toArrow())
        database.execute(f'create table "{name}" as select * from arrow')
        database.unregister("arrow")
    return database


numbers = itertools.count()


def streamed(spark: Any, name: str, origin: float, mode: str = "append") -> list[tuple[Any, ...]]:
    """What the query has said of the events, in several batches."""
    schedule = constant(RATE, SECONDS)
    rows = read_ticks(spark, schedule, origin, partitions=2, most_rows=BATCH)
    table = f"results_{next(numbers)}"
    result = QUERIES[name].build(rows)
    query = result.writeStream.format("memory").queryName(table).outputMode(mode).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return sorted(tuple(_plain(value) for value in row) for row in spark.table(table).collect())


def _plain(value: Any) -> Any:
    """Windows by their end; numbers as DuckDB gives them."""
    if hasattr(value, "asDict"):
        return value["end"].timestamp()
    if isinstance(value, float):
        return round(value, 6)
    return value.timestamp() if hasattr(value, "timestamp") else value


WINDOWED = """
    select epoch(time_bucket(interval '10 seconds', timestamp) + interval '10 seconds') as ends, *
    from
"""

EXPECTED = {
    "q0": "select auction, bidder, price, epoch(timestamp), extra from bid",
    "q1": """
        select auction, bidder, round(price::double * 0.908, 6), epoch(timestamp), extra
        from bid""",
    "q2": "select auction, price from bid where auction % 123 = 0",
    "q3": """
        select name, city, state, auction.id from auction join person on seller = person.id
        where category = 10 and state in ('OR', 'ID', 'CA')""",
    "q4": f"""
        with closed as (
            select a.ends, a.category, max(price) as final
            from ({WINDOWED} auction) a join bid b on b.auction = a.id
            and b.timestamp between a.timestamp and a.expires
            group by a.ends, a.id, a.category)
        select ends, category, round(avg(final), 6) from closed
        where ends <= $until - {nexmark.LONGEST_AUCTION} group by all""",
    "q5": """
        with slid as (
            select epoch(time_bucket(interval '2 seconds', timestamp)) + 2 + 2 * n as ends, auction
            from bid, unnest([0, 1, 2, 3, 4]) as steps(n)),
        counted as (select ends, auction, count(*) as bids from slid group by all)
        select ends, auction, bids from counted where ends <= $until
        qualify row_number() over (partition by ends order by bids desc, auction) = 1""",
    "q7": f"""
        select ends, price, auction, bidder from ({WINDOWED} bid) where ends <= $until
        qualify row_number() over
            (partition by ends order by price desc, auction desc, bidder desc) = 1""",
    "q8": f"""
        select p.ends, p.id, p.name, count(*)
        from ({WINDOWED} person) p join ({WINDOWED} auction) a
        on p.id = a.seller and p.ends = a.ends where p.ends <= $until group by all""",
    "ysb": """
        select campaign_id, epoch(time_bucket(interval '10 seconds', event_time)) + 10 as ends,
            count(*)
        from event join campaign using (ad_id) where event_type = 'view' and ends <= $until
        group by all""",
    "counts": """
        select epoch(time_bucket(interval '1 second', timestamp)) + 1 as ends, count(*)
        from "row" where ends <= $until group by all""",
}


SLOW = {"q0", "q1", "q3", "q4"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in EXPECTED]
)
def test_a_query_streams_what_a_batch_would_answer(
    name: str, spark: Any, tables: Any, origin: float
) -> None:
    last = origin + (EVENTS - 1) / RATE
    sql = EXPECTED[name]
    wanted = tables.execute(sql, {"until": last} if "$until" in sql else {}).fetchall()
    found = streamed(spark, name, origin)
    assert found == sorted(tuple(row) for row in wanted)
    assert found, "an empty answer would prove nothing"


def test_q11_counts_bids_by_session(spark: Any, tables: Any, origin: float) -> None:
    last = origin + (EVENTS - 1) / RATE
    wanted = tables.execute(
        """
        with gaps as (
            select bidder, timestamp, coalesce(timestamp - lag(timestamp) over mine >=
                interval '10 seconds', true) as opens from bid
            window mine as (partition by bidder order by timestamp)),
        numbered as (
            select *, sum(opens::int) over (partition by bidder order by timestamp
                rows unbounded preceding) as session from gaps)
        select epoch(max(timestamp)) + 10 as ends, bidder, count(*) from numbered
        group by bidder, session having ends <= $until""",
        {"until": last},
    ).fetchall()
    assert streamed(spark, "q11", origin) == sorted(wanted)
    assert wanted


def test_q12_counts_every_bid_once_whenever_it_is_processed(
    spark: Any, tables: Any, origin: float
) -> None:
    by_window: dict[tuple[float, int], int] = {}
    for ends, bidder, count in streamed(spark, "q12", origin, mode="update"):
        by_window[ends, bidder] = max(count, by_window.get((ends, bidder), 0))
    by_bidder: dict[int, int] = {}
    for (_, bidder), count in by_window.items():
        by_bidder[bidder] = by_bidder.get(bidder, 0) + count
    assert by_bidder == dict(
        tables.execute("select bidder, count(*) from bid group by bidder").fetchall()
    )


@pytest.mark.parametrize(
    "name", ["ipq2", "ipq4", *(pytest.param(n, marks=pytest.mark.slow) for n in ("ipq1", "ipq3"))]
)
def test_the_production_queries_answer_every_second(name: str, spark: Any, origin: float) -> None:
    ends = {row[0] - origin for row in streamed(spark, name, origin)}
    assert {float(second) for second in range(1, int(SECONDS))} <= ends


def test_events_have_the_published_shape(tables: Any) -> None:
    def one(sql: str) -> Any:
        return tables.execute(sql).fetchone()[0]

    people, auctions, bids = (
        one(f"select count(*) from {t}") for t in ("person", "auction", "bid")
    )
    assert (people, auctions, bids) == (EVENTS // 50, 3 * EVENTS // 50, 46 * EVENTS // 50)
    assert one("select count(distinct id) from auction") == auctions
    assert one("select avg(length(extra)) + 32 from bid") == pytest.approx(100, rel=0.1)
    text = "length(item) + length(description) + length(extra)"
    assert one(f"select avg({text}) + 48 from auction") == pytest.approx(500, rel=0.1)
    hot = "avg((auction % 100 = 0)::int) from bid"
    assert one(f"select {hot}") == pytest.approx(0.5, abs=0.02)
    assert one("select avg((bidder % 100 = 1)::int) from bid") == pytest.approx(0.75, abs=0.02)
    assert one("select avg((seller % 100 = 0)::int) from auction") == pytest.approx(0.75, abs=0.05)
    assert one("select avg((event_type = 'view')::int) from event") == pytest.approx(
        1 / 3, abs=0.02
    )
    assert one("select max(epoch(expires) - epoch(timestamp)) from auction") <= 4.0


@pytest.mark.parametrize(
    "arrivals", ["trace", "silence", *(pytest.param(p, marks=pytest.mark.slow) for p in PATTERNS)]
)
def test_every_row_of_a_schedule_arrives_once(
    arrivals: str, spark: Any, origin: float, tmp_path: Path
) -> None:
    schedule = Schedule(((100, 10), (300, 0), (50, 7), (1, 5000), (200, 1)))
    if arrivals == "trace":
        arrivals = str(tmp_path / "trace.csv")
        Path(arrivals).write_text("seconds,rows_per_second\n0,100\n2,1000\n3,0\n5,70\n6,1\n")
    if arrivals != "silence":
        mix = Mix("some", 0, 2, 500, arrivals=arrivals)
        schedule = mix.tenants(20.0)[1].schedule
    rows = read_ticks(spark, schedule, origin, partitions=3, most_rows=2900)
    table = f"rows_{next(numbers)}"
    query = rows.writeStream.format("memory").queryName(table).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    values = [row.value for row in spark.table(table).select("value").collect()]
    assert sorted(values) == list(range(schedule.rows))
