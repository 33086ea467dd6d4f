"""The workloads on Spark: rows of a stream in, beats and chest summaries out, state by patient.

Rows are numbered, as those of Spark's `rate` source are; a row's number says which patient and
which sample it is. The time in a record is that of the signal, as in the paper: records can come
faster than hearts beat.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from laxity.bench.workloads.vitals import ecg, thorax
from laxity.bench.workloads.vitals.signals import ECG_RATE, THORAX_RATE, Patient

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.state import GroupState

STATE = "memory STRING"
"""As JSON: Spark 4.3 cannot read a state schema with arrays on the Python side."""
BEATS = "patient BIGINT, sample BIGINT, at DOUBLE, rr DOUBLE, amplitude DOUBLE"
CHESTS = (
    "patient BIGINT, at DOUBLE, extension DOUBLE, mean DOUBLE, least DOUBLE, most DOUBLE, "
    "breaths_a_minute DOUBLE, kept BIGINT"
)


def ecg_readings(numbered: DataFrame, patients: int) -> DataFrame:
    """(patient, sample, mv) from rows with a column `value` that counts them."""
    return _readings(numbered, patients, ECG_RATE, "mv", Patient.ecg)


def thorax_readings(numbered: DataFrame, patients: int) -> DataFrame:
    """(patient, sample, mm), likewise."""
    return _readings(numbered, patients, THORAX_RATE, "mm", Patient.chest)


def _readings(numbered: DataFrame, patients: int, rate: int, name: str, signal: Any) -> DataFrame:
    from pyspark.sql import functions as f

    patient, sample = f.col("value") % patients, f.floor(f.col("value") / patients)
    keyed = numbered.select(patient.alias("patient"), sample.alias("sample"))
    t = f.col("sample") / float(rate)
    level: Column = f.lit(None).cast("double")
    for number in range(patients):
        own = signal(Patient(number), t, f)
        level = f.when(f.col("patient") == number, own).otherwise(level)
    return keyed.withColumn(name, level)


def heart_beats(readings: DataFrame) -> DataFrame:
    """A row for each QRS complex, when it is found."""
    return readings.groupBy("patient").applyInPandasWithState(
        _detect, BEATS, STATE, "append", "NoTimeout"
    )


def _detect(
    key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    import pandas as pd

    memory = ecg.Memory(*json.loads(state.get[0])) if state.exists else ecg.Memory()
    rows = pd.concat(list(frames)).sort_values("sample")
    detector = ecg.PanTompkins(ECG_RATE, memory)
    found = detector.feed(int(rows["sample"].iloc[0]), rows["mv"].to_numpy())
    state.update((json.dumps(astuple(detector.memory)),))
    yield pd.DataFrame(
        {
            "patient": pd.Series([int(key[0])] * len(found), dtype="int64"),
            "sample": pd.Series([b.sample for b in found], dtype="int64"),
            "at": pd.Series([b.sample / ECG_RATE for b in found], dtype="float64"),
            "rr": pd.Series([b.rr for b in found], dtype="float64"),
            "amplitude": pd.Series([b.amplitude for b in found], dtype="float64"),
        }
    )


def chest_extension(readings: DataFrame) -> DataFrame:
    """A row for each patient that was heard of, in every batch."""
    return readings.groupBy("patient").applyInPandasWithState(
        _summarise, CHESTS, STATE, "append", "NoTimeout"
    )


def _summarise(
    key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    import pandas as pd

    chest = thorax.Chest(*json.loads(state.get[0])) if state.exists else thorax.Chest()
    rows = pd.concat(list(frames)).sort_values("sample")
    chest.feed(rows["sample"].to_numpy() / THORAX_RATE, rows["mm"].to_numpy())
    state.update((json.dumps(astuple(chest)),))
    yield pd.DataFrame(
        {
            "patient": [int(key[0])],
            "at": [chest.times[-1]],
            "extension": [chest.extensions[-1]],
            "mean": [chest.mean],
            "least": [chest.least],
            "most": [chest.most],
            "breaths_a_minute": [chest.breaths_a_minute],
            "kept": [len(chest.times)],
        }
    )
