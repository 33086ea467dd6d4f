"""The core's decisions, enforced in stock Spark."""

from laxity.spark.session import Laxity, attach, current

__all__ = ["Laxity", "attach", "current"]
