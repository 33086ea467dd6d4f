"""Neptune's workloads as real queries: what they find is what was put into the signal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from laxity.bench.workloads.vitals.ecg import PanTompkins
from laxity.bench.workloads.vitals.signals import (
    ECG_RATE,
    THORAX_RATE,
    Match,
    Patient,
    match,
    samples,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PATIENTS, SECONDS, FILES = 4, 40, 4


def test_beats_and_chests_over_several_batches(spark: SparkSession, tmp_path: Path) -> None:
    from laxity.bench.workloads.vitals.queries import (
        chest_extension,
        ecg_readings,
        heart_beats,
        thorax_readings,
    )

    def files(name: str, rate: int) -> str:
        """Records come as rows of files, shuffled, a few seconds in each."""
        rows, folder = PATIENTS * SECONDS * rate, tmp_path / name
        for number in range(FILES):
            first, last = rows * number // FILES, rows * (number + 1) // FILES
            values = np.random.default_rng(number).permutation(np.arange(first, last))
            text = "\n".join(f'{{"value": {value}}}' for value in values)
            folder.mkdir(exist_ok=True)
            (folder / f"{number:03}.json").write_text(text)
            os.utime(folder / f"{number:03}.json", (number, number))  # the order they are read in
        return str(folder)

    def run(name: str, rate: int, query: object, readings: object) -> list[dict[str, float]]:
        numbered = (
            spark.readStream.schema("value LONG")
            .option("maxFilesPerTrigger", 1)
            .json(files(name, rate))
        )
        sink = str(tmp_path / f"{name}-sink")
        done = (
            query(readings(numbered, PATIENTS))  # type: ignore[operator]
            .writeStream.format("parquet")
            .option("path", sink)
            .option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        done.awaitTermination()
        assert len(done.recentProgress) >= FILES
        return [row.asDict() for row in spark.read.parquet(sink).collect()]

    total = Match(0, 0, 0)
    beats = run("ecg", ECG_RATE, heart_beats, ecg_readings)
    for patient in range(PATIENTS):
        mine = sorted(b["sample"] for b in beats if b["patient"] == patient)
        alone = PanTompkins(ECG_RATE).feed(0, samples(patient, 0, SECONDS * ECG_RATE))
        assert mine == [b.sample for b in alone], "state was lost, or rows were out of order"
        truth = [t for t in Patient(patient).beats(SECONDS) if 3 < t < SECONDS - 1]
        found = [s / ECG_RATE for s in mine if 2.9 < s / ECG_RATE < SECONDS - 0.9]
        total += match(found, truth)
    assert total.sensitivity > 0.98, total
    assert total.precision > 0.98, total

    chests = run("thorax", THORAX_RATE, chest_extension, thorax_readings)
    times = np.arange(SECONDS * THORAX_RATE) / THORAX_RATE
    for patient in range(PATIENTS):
        mine = [c for c in chests if c["patient"] == patient]
        assert len(mine) == FILES
        last = max(mine, key=lambda c: c["at"])
        truth = Patient(patient).chest(times, np)
        assert last["mean"] == pytest.approx(truth.mean())
        assert (last["least"], last["most"]) == pytest.approx((truth.min(), truth.max()))
        assert last["kept"] == (times > times[-1] - 10).sum()
