"""Columns whose meaning is chosen while the query runs."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from laxity.spark.control import jvm
from laxity.spark.control.errors import UnfitOperationError, VariableTypeError

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "bigint"),
    (float, "double"),
    (str, "string"),
    (datetime.datetime, "timestamp"),
    (datetime.date, "date"),
)
_ACCEPTS: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "bigint": (int,),
    "int": (int,),
    "double": (float, int),
    "string": (str,),
    "timestamp": (datetime.datetime,),
    "date": (datetime.date,),
}
_MOST_ARGUMENTS = 4


def variable(name: str, default: Any, type: str | None = None) -> Column:  # noqa: A002
    """A column with one value for a whole batch, `default` until `lx.control(query).set(...)`.

    Usable anywhere in a query. `type` is a Spark type as in a schema, needed only for what
    `default` does not tell (`array<string>`).
    """
    from pyspark.sql import Column
    from pyspark.sql import functions as F  # noqa: N812

    spark = _session()
    ddl = type or _type_of(name, default)
    check_value(name, default, ddl)
    otherwise = F.lit(default).cast(ddl)
    java = jvm.static(
        spark, "Variables", "variable", name, otherwise._jc, jvm.java_type(spark, ddl)
    )
    return Column(java)


class Function:
    """A named function of columns with several versions, one of which is in use.

    Call it with columns where the function is wanted; `define` adds versions at any time, and
    `lx.control(query).set(name="version")` swaps.
    """

    def __init__(self, name: str, takes: tuple[str, ...], returns: str) -> None:
        self.name, self.takes, self.returns = name, takes, returns
        self.versions: list[str] = []

    def define(self, version: str, body: Callable[..., Column]) -> Function:
        """Add a version: built-in functions, SQL expressions and Python UDFs alike."""
        from pyspark.sql import Column

        spark = _session()
        arguments = [
            Column(jvm.static(spark, "Variables", "argument", at, jvm.java_type(spark, ddl)))
            for at, ddl in enumerate(self.takes)
        ]
        frame = spark.range(1).select(body(*arguments).cast(self.returns).alias("body"))
        jvm.static(spark, "Variables", "define", self.name, version, jvm.expression(spark, frame))
        self.versions.append(version)
        return self

    def __call__(self, *columns: Column) -> Column:
        from pyspark.sql import Column

        if len(columns) != len(self.takes):
            raise VariableTypeError(
                f"function {self.name!r} takes {len(self.takes)} columns, got {len(columns)}"
            )
        spark = _session()
        given = spark._jvm.java.util.ArrayList()  # type: ignore[union-attr]
        for column, ddl in zip(columns, self.takes, strict=True):
            given.add(column.cast(ddl)._jc)
        java_type = jvm.java_type(spark, self.returns)
        return Column(jvm.static(spark, "Variables", "function", self.name, given, java_type))


_functions: dict[str, Function] = {}


def function(name: str, *takes: str, returns: str, **versions: Callable[..., Column]) -> Function:
    """A function that can be swapped while queries run; the first version is used at first."""
    if not versions:
        raise VariableTypeError(f"function {name!r} needs a first version: v1=lambda x: …")
    if len(takes) > _MOST_ARGUMENTS:
        raise VariableTypeError(
            f"function {name!r} takes {len(takes)} columns; at most {_MOST_ARGUMENTS} are "
            f"possible: put more into a struct"
        )
    made = Function(name, takes, returns)
    for version, body in versions.items():
        made.define(version, body)
    _functions[name] = made
    return made


def versions_of(name: str) -> list[str]:
    return _functions[name].versions if name in _functions else []


def check_value(name: str, value: Any, ddl: str) -> None:
    """That a type can hold a value, without loss and without guessing."""
    element = re.fullmatch(r"array<(.*)>", ddl)
    if element is not None:
        if not isinstance(value, list | tuple):
            raise VariableTypeError(f"{name} is {ddl}: give a list, not {value!r}")
        for item in value:
            check_value(name, item, element.group(1))
        return
    accepts = _ACCEPTS.get(ddl)
    if accepts is None:
        raise VariableTypeError(
            f"{name}: variables of type {ddl} are not supported; there are "
            f"{', '.join(_ACCEPTS)} and arrays of them"
        )
    wrong = not isinstance(value, accepts) or (isinstance(value, bool) and bool not in accepts)
    if wrong:
        raise VariableTypeError(f"{name} is {ddl}: {value!r} is not")


def as_sql(spark: SparkSession, value: Any, ddl: str) -> str:
    """A value as text that Spark reads back; it is kept in the checkpoint."""
    from pyspark.sql import functions as F  # noqa: N812

    frame = spark.range(1).select(F.lit(value).cast(ddl).alias("value"))
    return str(jvm.expression(spark, frame).sql())


def _type_of(name: str, value: Any) -> str:
    for python, ddl in _TYPES:
        if isinstance(value, python):
            return ddl
    raise VariableTypeError(
        f"{name}: the type of {value!r} is not clear; give it: "
        f"laxity.variable({name!r}, …, type='array<string>')"
    )


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is None or not hasattr(spark, "_jsparkSession"):
        raise UnfitOperationError(
            "variables and functions need a classic SparkSession; make one with "
            "SparkSession.builder.getOrCreate()"
        )
    jvm.install_rule(spark)
    return spark
