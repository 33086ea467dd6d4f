"""A ward of patients as a pipeline for benchmarks: queries that read the same schedule of records
wherever they run, and so go on where they were when they are moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from laxity import pipeline
from laxity.bench.workloads.arrivals import constant
from laxity.bench.workloads.ticks import read_ticks
from laxity.bench.workloads.vitals.queries import (
    chest_extension,
    ecg_readings,
    heart_beats,
    thorax_readings,
)
from laxity.bench.workloads.vitals.signals import ECG_RATE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ward(
    names: Sequence[str],
    *,
    origin: float,
    seconds: float,
    patients: int,
    target: float,
    sink: str,
) -> list[Callable[..., Any]]:
    """Functions for a pipeline file: hearts-… find beats, lungs-… summarise chests. Both kinds get
    as many records a second, so that a tick always brings whole ones."""
    return [
        _query(name, origin, constant(patients * ECG_RATE, seconds), patients, target, sink)
        for name in names
    ]


def _query(
    name: str, origin: float, schedule: Any, patients: int, target: float, sink: str
) -> Callable[..., Any]:
    readings, work = (
        (ecg_readings, heart_beats)
        if name.startswith("hearts")
        else (thorax_readings, chest_extension)
    )

    @pipeline.query(name=name, target=target)
    def build(spark: SparkSession) -> Any:
        numbered = read_ticks(spark, schedule, origin, partitions=1)
        found = work(readings(numbered, patients))
        writer = found.writeStream.format("json").option("path", f"{sink}/{name}")
        return writer.trigger(processingTime="1 second")

    build.__name__ = name.replace("-", "_")
    return build
