"""NEXMark's events: people, auctions and bids, 1 : 3 : 46, of an auction site.

Written from the published facts of Apache Beam's suite: ids that follow each other, sizes of 200,
500 and 100 bytes, one seller, bidder and auction in a hundred "hot" (3 of 4 auctions, 3 of 4 bids
and every other bid go to those), prices spread over six orders of magnitude, a hundred auctions in
flight. Columns of one stream of row numbers: Spark generates only the fields a query reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laxity.bench.workloads.query import draw, pick

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EPOCH = 50
PEOPLE, AUCTIONS = 1, 3  # of an epoch; the rest are bids
FIRST_PERSON = FIRST_AUCTION = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
ACTIVE_PEOPLE, AUCTIONS_IN_FLIGHT, LEAD = 1000, 100, 10
HOT_SELLERS = HOT_BIDDERS = 4
HOT_AUCTIONS = 2
HOT_EACH = 100
PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100

LONGEST_AUCTION = 4.0
"""Seconds; twice the time in which a hundred auctions open, at 830 events a second."""

NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Jon", "Kay")
FAMILIES = ("Abel", "Brook", "Cole", "Drake", "East", "Frost", "Grant", "Hill", "Irwin")
CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Seattle")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")


def _epoch() -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.floor(F.col("value") / EPOCH)


def _place() -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.pmod("value", F.lit(EPOCH))


def _hot(last: Column) -> Column:
    """The first of the last hundred."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.floor(last / HOT_EACH) * HOT_EACH


def _person(salt: int, ratio: int, hot_offset: int) -> Column:
    """A hot one, or any of the active ones, or one who will join in a moment."""
    from pyspark.sql import functions as F  # noqa: N812

    people = _epoch() + 1
    active = F.least(people, F.lit(ACTIVE_PEOPLE))
    other = people - active + draw(salt + 1, active + LEAD)
    hot = _hot(_epoch()) + hot_offset
    return FIRST_PERSON + F.when(draw(salt, ratio) > 0, hot).otherwise(other)


def _auction(salt: int) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    last = _epoch() * AUCTIONS + AUCTIONS - 1
    first = F.greatest(last - AUCTIONS_IN_FLIGHT, F.lit(0))
    other = first + draw(salt + 1, last - first + 1 + LEAD)
    return FIRST_AUCTION + F.when(draw(salt, HOT_AUCTIONS) > 0, _hot(last)).otherwise(other)


def _price(salt: int) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.round(F.pow(F.lit(10.0), draw(salt, 6_000_000) / 1_000_000) * 100).cast("long")


def _filling(salt: int, size: int) -> Column:
    """Text that brings a row to its published size, give or take a fifth."""
    from pyspark.sql import functions as F  # noqa: N812

    length = (draw(salt, max(1, 2 * size // 5)) + 4 * size // 5).cast("int")
    return F.rpad(F.hex(F.xxhash64("value", F.lit(salt))), length, F.lit("x"))


def people(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    name = F.concat_ws(" ", pick(11, NAMES), pick(12, FAMILIES))
    return rows.where(_place() < PEOPLE).select(
        (FIRST_PERSON + _epoch()).alias("id"),
        name.alias("name"),
        F.concat(F.hex(draw(13, 2**31)), F.lit("@example.com")).alias("email"),
        F.lpad(draw(14, 10**16).cast("string"), 16, "0").alias("credit_card"),
        pick(15, CITIES).alias("city"),
        pick(16, STATES).alias("state"),
        "timestamp",
        _filling(17, PERSON_BYTES - 80).alias("extra"),
    )


def auctions(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    millis = draw(23, int(LONGEST_AUCTION * 1000)) + 1
    expires = F.timestamp_millis(F.unix_millis("timestamp") + millis)
    return rows.where(_place().between(PEOPLE, PEOPLE + AUCTIONS - 1)).select(
        (FIRST_AUCTION + _epoch() * AUCTIONS + _place() - PEOPLE).alias("id"),
        _filling(21, 20).alias("item"),
        _filling(22, 100).alias("description"),
        _price(24).alias("initial_bid"),
        (_price(24) + _price(25)).alias("reserve"),
        "timestamp",
        expires.alias("expires"),
        _person(26, HOT_SELLERS, 0).alias("seller"),
        (FIRST_CATEGORY + draw(28, CATEGORIES)).alias("category"),
        _filling(29, AUCTION_BYTES - 168).alias("extra"),
    )


def bids(rows: DataFrame) -> DataFrame:
    return rows.where(_place() >= PEOPLE + AUCTIONS).select(
        _auction(31).alias("auction"),
        _person(33, HOT_BIDDERS, 1).alias("bidder"),
        _price(35).alias("price"),
        "timestamp",
        _filling(36, BID_BYTES - 32).alias("extra"),
    )
