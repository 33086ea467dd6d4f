"""Recordings survive the way to a file and back, and errors name line and field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from laxity import recording
from laxity.recording import (
    InvalidRecordingError,
    LatencyRecord,
    QueryRecord,
    RateSample,
    Recording,
    StageRecord,
    WindowRecord,
)

ALERTS = QueryRecord(
    name="alerts",
    tenant="ads",
    target=0.8,
    batch_interval=0.5,
    window=WindowRecord(1.0, 1.0, 0.5),
    stages=(
        StageRecord("scan", 4, 0.012, 0.003, 1000.0),
        StageRecord("sum", 2, 0.004, windowed=True, after=("scan",)),
    ),
    rates=(RateSample(0.0, 40_000.0), RateSample(5.0, 55_000.0)),
    latency=LatencyRecord(118, 0.31, 0.74, 0.99),
)
RUN = Recording(nodes=2, cores=4, queries=(ALERTS, QueryRecord("daily", ALERTS.stages)))


def test_a_recording_reads_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recording.write(path, RUN)
    assert recording.is_recording(path)
    assert recording.read(path) == RUN


def test_a_repeated_query_line_replaces_costs_and_keeps_rates() -> None:
    drifted = QueryRecord("alerts", (StageRecord("scan", 4, 0.02),))
    read = recording.parse([*recording.lines(RUN), recording.query_line(drifted)])
    assert read.queries[0].stages[0].cost_mean == 0.02
    assert read.queries[0].rates == ALERTS.rates


def _lines(**changes: object) -> list[str]:
    """The run's lines, with fields of the query line changed."""
    header, query, *rest = recording.lines(RUN)
    return [header, json.dumps(json.loads(query) | changes), *rest]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], "empty"),
        (["{"], "line 1: not JSON"),
        (["[]"], "line 1: must be a JSON object"),
        (['{"kind":"query"}'], "line 1: field kind must be 'laxity-recording'"),
        (
            ['{"kind":"laxity-recording","version":9,"nodes":1,"cores":1}'],
            "line 1: field version is 9; this release reads version 1",
        ),
        (_lines(target="soon"), "line 2: field target must be a number, got 'soon'"),
        (_lines(stages=[]), "line 2: field stages must be a list of stages"),
        (_lines(stages=[{"name": "a"}]), "line 2: field stages[0].parallelism must be a whole"),
        (
            _lines(stages=[{"name": "a", "parallelism": 1, "cost_mean": 1, "after": ["b"]}]),
            "line 2: field stages[0].after names the unknown 'b'",
        ),
        (_lines(window={"size": 0, "slide": 1}), "line 2: field window.size must be above zero"),
        (_lines(name="other"), "line 3: field query names 'alerts'"),
        ([*recording.lines(RUN), '{"kind":"smell"}'], "field kind is 'smell'"),
    ],
)
def test_errors_name_line_and_field(lines: list[str], problem: str) -> None:
    with pytest.raises(InvalidRecordingError, match=r"run\.jsonl") as caught:
        recording.parse(lines, origin="run.jsonl")
    assert problem in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRecordingError, match="nowhere"):
        recording.read(tmp_path / "nowhere.jsonl")
