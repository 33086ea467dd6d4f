"""Changing a running Spark query at the boundary between two of its micro-batches."""

from laxity.spark.control.operation import SparkOperation
from laxity.spark.control.query import QueryControl
from laxity.spark.control.variables import Function, function, variable

__all__ = ["Function", "QueryControl", "SparkOperation", "function", "variable"]
