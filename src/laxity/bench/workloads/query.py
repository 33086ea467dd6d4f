"""What a query of the benchmarks is, and what all of them are made of.

Every field a query needs is derived from `value`, a row's number, by hashing: the same rows in
every run and in every mode, and next to no generator to pay for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True)
class BenchQuery:
    build: Callable[[DataFrame], DataFrame]
    """From a stream of (timestamp, value) to a result."""
    window: float | None = None
    """Seconds between two results of a windowed query; None where every row is one."""
    mode: str = "append"
    delay: float = 0.0
    """How long after a window's end rows may still count for it."""
    chained: bool = False
    """Several stateful operators follow each other: a window may leave later than in the first
    batch whose watermark has passed it."""


def watermarked(rows: DataFrame) -> DataFrame:
    """Rows arrive in order: none is late."""
    return rows.withWatermark("timestamp", "0 seconds")


def seconds(length: float) -> str:
    return f"{length:g} seconds"


def draw(salt: int, below: int | Column) -> Column:
    """A number from 0 to below, drawn for the row; another one for another salt."""
    from pyspark.sql import functions as F  # noqa: N812  # as everyone who writes PySpark does

    bound = F.lit(below) if isinstance(below, int) else below
    return F.pmod(F.xxhash64("value", F.lit(salt)), bound)


def pick(salt: int, choices: tuple[str, ...]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.element_at(
        F.array(*(F.lit(choice) for choice in choices)), draw(salt, len(choices)).cast("int") + 1
    )
