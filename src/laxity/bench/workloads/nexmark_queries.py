"""NEXMark's q0–q5, q7, q8, q11 and q12 as streaming queries in append mode.

The published suites answer some of them with running updates. Here every result leaves once, when
it is final: q4 averages by window of ten seconds in which auctions opened, q5 and q7 give the first
of several auctions or bids that share the top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laxity.bench.workloads.nexmark import LONGEST_AUCTION, auctions, bids, people
from laxity.bench.workloads.query import BenchQuery, seconds, watermarked

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WINDOW = 10.0
SLIDE = 2.0
DOLLARS_TO_EUROS = 0.908


def _window(slide: float = WINDOW) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.window("timestamp", seconds(WINDOW), seconds(slide)).alias("window")


def pass_through(rows: DataFrame) -> DataFrame:
    """q0: what the generator alone costs."""
    return bids(rows)


def currency(rows: DataFrame) -> DataFrame:
    """q1: prices in euros."""
    from pyspark.sql import functions as F  # noqa: N812

    return bids(rows).withColumn("price", F.col("price") * DOLLARS_TO_EUROS)


def selection(rows: DataFrame) -> DataFrame:
    """q2: bids for one auction in 123."""
    return bids(rows).where("auction % 123 = 0").select("auction", "price")


def local_items(rows: DataFrame) -> DataFrame:
    """q3: who sells in Oregon, Idaho or California in category 10, and what."""
    sellers = people(watermarked(rows)).where("state in ('OR', 'ID', 'CA')")
    offers = auctions(watermarked(rows)).where("category = 10").select("id", "seller")
    named = sellers.select("id", "name", "city", "state").withColumnRenamed("id", "seller")
    return named.join(offers, "seller").select("name", "city", "state", "id")


def prices_by_category(rows: DataFrame) -> DataFrame:
    """q4: the average price at which the auctions of a category closed."""
    from pyspark.sql import functions as F  # noqa: N812

    offers = auctions(watermarked(rows)).select("id", "category", "timestamp", "expires").alias("a")
    offered = bids(watermarked(rows)).select("auction", "price", "timestamp").alias("b")
    in_time = F.expr(
        "b.auction = a.id and b.timestamp >= a.timestamp and b.timestamp <= a.expires and "
        f"b.timestamp <= a.timestamp + interval {LONGEST_AUCTION:g} seconds"
    )
    closed = (
        offers.join(offered, in_time)
        .groupBy(F.col("a.timestamp"), F.col("a.id"), F.col("a.category"))
        .agg(F.max("b.price").alias("final"))
    )
    return closed.groupBy(_window(), "category").agg(F.avg("final").alias("price"))


def hot_items(rows: DataFrame) -> DataFrame:
    """q5: the auction with most bids in the last ten seconds, every two."""
    from pyspark.sql import functions as F  # noqa: N812

    counted = (
        bids(watermarked(rows)).groupBy(_window(SLIDE), "auction").agg(F.count("*").alias("bids"))
    )
    # Of several with as many, the one with the lowest number.
    top = F.max(F.struct("bids", (-F.col("auction")).alias("minus"))).alias("top")
    best = counted.groupBy("window").agg(top)
    return best.select("window", (-F.col("top.minus")).alias("auction"), "top.bids")


def highest_bid(rows: DataFrame) -> DataFrame:
    """q7: the highest bid of ten seconds."""
    from pyspark.sql import functions as F  # noqa: N812

    top = F.max(F.struct("price", "auction", "bidder")).alias("top")
    return bids(watermarked(rows)).groupBy(_window()).agg(top).select("window", "top.*")


def new_sellers(rows: DataFrame) -> DataFrame:
    """q8: who joined and opened an auction within the same ten seconds."""
    from pyspark.sql import functions as F  # noqa: N812

    joined = people(watermarked(rows)).select(_window(), F.col("id").alias("seller"), "name")
    selling = (
        auctions(watermarked(rows)).groupBy(_window(), "seller").agg(F.count("*").alias("auctions"))
    )
    return joined.join(selling, ["window", "seller"])


def sessions(rows: DataFrame) -> DataFrame:
    """q11: how many bids somebody made before pausing for ten seconds."""
    from pyspark.sql import functions as F  # noqa: N812

    session = F.session_window("timestamp", seconds(WINDOW)).alias("session")
    return bids(watermarked(rows)).groupBy(session, "bidder").agg(F.count("*").alias("bids"))


def in_processing_time(rows: DataFrame) -> DataFrame:
    """q12: how many bids of somebody were processed in ten seconds, by Spark's clock."""
    from pyspark.sql import functions as F  # noqa: N812

    seen = bids(rows).select("bidder").withColumn("seen", F.current_timestamp())
    window = F.window("seen", seconds(WINDOW)).alias("window")
    marked = seen.withWatermark("seen", "0 seconds")
    return marked.groupBy(window, "bidder").agg(F.count("*").alias("bids"))


QUERIES = {
    "q0": BenchQuery(pass_through),
    "q1": BenchQuery(currency),
    "q2": BenchQuery(selection),
    "q3": BenchQuery(local_items),
    "q4": BenchQuery(prices_by_category, WINDOW, delay=LONGEST_AUCTION, chained=True),
    "q5": BenchQuery(hot_items, SLIDE, chained=True),
    "q7": BenchQuery(highest_bid, WINDOW),
    "q8": BenchQuery(new_sellers, WINDOW, chained=True),
    "q11": BenchQuery(sessions),
    "q12": BenchQuery(in_processing_time, WINDOW),
}
