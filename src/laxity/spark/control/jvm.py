"""The Java side of control: markers in plans, and the place between two batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from laxity.spark.bridge import _load_classes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def static(spark: SparkSession, name: str, method: str, *arguments: Any) -> Any:
    """Call a static method of one of Laxity's Java classes."""
    gateway: Any = spark._sc._gateway
    array = gateway.new_array(gateway.jvm.java.lang.Object, len(arguments))
    for index, value in enumerate(arguments):
        array[index] = value
    for candidate in _load_classes(spark).loadClass(f"laxity.{name}").getMethods():
        if candidate.getName() == method and candidate.getParameterCount() == len(arguments):
            return candidate.invoke(None, array)
    raise AttributeError(f"{name}.{method}")


def new(spark: SparkSession, name: str, *arguments: Any) -> Any:
    """An object of one of Laxity's Java classes."""
    gateway: Any = spark._sc._gateway
    array = gateway.new_array(gateway.jvm.java.lang.Object, len(arguments))
    for index, value in enumerate(arguments):
        array[index] = value
    found = _load_classes(spark).loadClass(f"laxity.{name}").getConstructors()[0]
    return found.newInstance(array)


def array_list(spark: SparkSession, items: Iterable[Any]) -> Any:
    found = spark._jvm.java.util.ArrayList()  # type: ignore[union-attr]
    for item in items:
        found.add(item)
    return found


def install_rule(spark: SparkSession) -> None:
    static(spark, "Variables", "install", spark._jsparkSession)


def java_type(spark: SparkSession, ddl: str) -> Any:
    from pyspark.sql.types import _parse_datatype_string

    return spark._jsparkSession.parseDataType(_parse_datatype_string(ddl).json())


def expression(spark: SparkSession, frame: DataFrame) -> Any:
    return static(spark, "Variables", "expression", frame._jdf)


def choose(spark: SparkSession, execution: Any, changes: Mapping[str, Any]) -> None:
    values = spark._jvm.java.util.HashMap()  # type: ignore[union-attr]
    for name, value in changes.items():
        values.put(name, value)
    static(spark, "Variables", "choose", execution, values)
