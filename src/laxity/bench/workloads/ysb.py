"""The Yahoo Streaming Benchmark: views of ads counted by campaign, in windows of 10 s.

100 campaigns of 10 ads each. An event has seven fields; a third of the events are views. The
original keeps ads' campaigns in Redis and reads JSON from Kafka; here they are a table that is
joined, and events have fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laxity.bench.workloads.query import BenchQuery, draw, pick, seconds, watermarked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CAMPAIGNS = 100
ADS = 10 * CAMPAIGNS
USERS = PAGES = 100
KINDS = ("banner", "modal", "sponsored-search", "mail", "mobile")
EVENTS = ("view", "click", "purchase")


def events(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return watermarked(rows).select(
        draw(1, USERS).cast("string").alias("user_id"),
        draw(2, PAGES).cast("string").alias("page_id"),
        draw(3, ADS).cast("string").alias("ad_id"),
        pick(4, KINDS).alias("ad_type"),
        pick(5, EVENTS).alias("event_type"),
        F.col("timestamp").alias("event_time"),
        F.concat(F.lit("10.0.0."), draw(6, 256).cast("string")).alias("ip_address"),
    )


def campaigns(rows: DataFrame) -> DataFrame:
    """Which campaign an ad belongs to."""
    from pyspark.sql import functions as F  # noqa: N812

    ads = rows.sparkSession.range(ADS)
    campaign = (F.col("id") / 10).cast("int").cast("string")
    return ads.select(F.col("id").cast("string").alias("ad_id"), campaign.alias("campaign_id"))


def views_by_campaign(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    views = events(rows).where("event_type = 'view'").select("ad_id", "event_time")
    joined = views.join(F.broadcast(campaigns(rows)), "ad_id")
    window = F.window("event_time", seconds(10.0))
    return joined.groupBy("campaign_id", window).agg(F.count("*").alias("views"))


QUERIES = {"ysb": BenchQuery(views_by_campaign, 10.0)}
