"""Hearts and lungs of ten patients: Neptune's workloads, as a pipeline file.

    laxity run examples/vitals/pipeline.py

Rows come from Spark's `rate` source; the signals are generated from their numbers (see
`laxity.bench.workloads.vitals`). Needs laxity[spark,bench].
"""

from typing import TYPE_CHECKING

import laxity
from laxity.bench.workloads.vitals.queries import (
    chest_extension,
    ecg_readings,
    heart_beats,
    thorax_readings,
)
from laxity.bench.workloads.vitals.signals import ECG_RATE, THORAX_RATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

PATIENTS = 10


def _rows(spark: "SparkSession", rate: int) -> "DataFrame":
    reader = spark.readStream.format("rate").option("rowsPerSecond", PATIENTS * rate)
    return reader.option("numPartitions", 1).load()


@laxity.query(target="3s", tenant="ward")
def heartbeats(spark: "SparkSession") -> "DataStreamWriter":
    """QRS complexes: which patient, when, how long since the beat before."""
    found = heart_beats(ecg_readings(_rows(spark, ECG_RATE), PATIENTS))
    return found.writeStream.format("console").trigger(processingTime="1 second")


@laxity.query(target="5s", tenant="ward")
def breathing(spark: "SparkSession") -> "DataStreamWriter":
    """Extension of the chest, with its mean, least and most."""
    summary = chest_extension(thorax_readings(_rows(spark, THORAX_RATE), PATIENTS))
    return summary.writeStream.format("console").trigger(processingTime="1 second")
