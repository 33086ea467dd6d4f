"""A Spark application as a node of a fleet."""

from laxity.spark.agent.engine import SparkEngine

__all__ = ["SparkEngine"]
