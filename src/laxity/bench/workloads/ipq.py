"""IPQ1 to IPQ4, the production queries of Cameo §6.2, as far as the paper describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laxity.bench.workloads.query import BenchQuery, draw, pick, seconds, watermarked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ADS = 200
JOBS, KINDS, REGIONS = 20, ("start", "stop", "fail", "retry"), ("east", "west", "north")
REQUESTS = 100
CODES = ("ok", "ok", "ok", "timeout", "refused", "broken")


def _clicks(rows: DataFrame) -> DataFrame:
    return watermarked(rows).select(
        "timestamp", draw(1, ADS).alias("ad"), (draw(2, 500) / 100).alias("revenue")
    )


def _revenue(rows: DataFrame, length: float, slide: float) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    window = F.window("timestamp", seconds(length), seconds(slide))
    return _clicks(rows).groupBy(window, "ad").agg(F.sum("revenue").alias("revenue"))


def revenue_by_ad(rows: DataFrame) -> DataFrame:
    """IPQ1: the revenue of each ad, every second."""
    return _revenue(rows, 1.0, 1.0)


def revenue_sliding(rows: DataFrame) -> DataFrame:
    """IPQ2: the same of the last two seconds, every second."""
    return _revenue(rows, 2.0, 1.0)


def events_by_keys(rows: DataFrame) -> DataFrame:
    """IPQ3: how many events each job had, by kind and region, every second."""
    from pyspark.sql import functions as F  # noqa: N812

    events = watermarked(rows).select(
        "timestamp",
        draw(3, JOBS).alias("job"),
        pick(4, KINDS).alias("kind"),
        pick(5, REGIONS).alias("region"),
    )
    window = F.window("timestamp", seconds(1.0))
    return events.groupBy(window, "job", "kind", "region").agg(F.count("*").alias("events"))


def errors_of_joined_logs(rows: DataFrame) -> DataFrame:
    """IPQ4: requests and replies, every other row, joined within a second; errors by code."""
    from pyspark.sql import functions as F  # noqa: N812

    window = F.window("timestamp", seconds(1.0)).alias("window")
    logs = watermarked(rows).withColumn("request", draw(6, REQUESTS))
    asked = logs.where("value % 2 = 0").select(window, "request")
    answered = (
        logs.where("value % 2 = 1")
        .withColumn("code", pick(7, CODES))
        .where("code <> 'ok'")
        .select(window, "request", "code")
    )
    joined = asked.join(answered, ["window", "request"])
    return joined.groupBy("window", "code").agg(F.count("*").alias("errors"))


QUERIES = {
    "ipq1": BenchQuery(revenue_by_ad, 1.0),
    "ipq2": BenchQuery(revenue_sliding, 1.0),
    "ipq3": BenchQuery(events_by_keys, 1.0),
    "ipq4": BenchQuery(errors_of_joined_logs, 1.0, chained=True),
}
