"""What the fleet's evaluation reads from the files of a run, and what it says of it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from laxity.bench import fleet_report
from laxity.bench.fleet_run import FleetOutcome, Plan, _beats, _by_second, _commits
from laxity.bench.workloads.arrivals import TICK
from laxity.bench.workloads.vitals.signals import ECG_RATE, Patient

PLAN = Plan(crowded=1, seconds=60.0)


def outcome(mode: str, latency: list[float | None], **more: object) -> FleetOutcome:
    names = PLAN.places
    return FleetOutcome(
        mode,
        asdict(PLAN),
        latencies=dict.fromkeys(names, latency),
        before=dict.fromkeys(names, [0.5] * 5),
        beats={"found": 10, "sensitivity": 1.0, "precision": 0.99, "doubled": 0},
        **more,  # type: ignore[arg-type]
    )


def test_latency_is_from_arrival_until_the_commit(tmp_path: Path) -> None:
    origin = 1_000.0
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    for number, (ticks, at) in enumerate([(100, 1001.3), (250, 1003.1), (400, 1009.0)]):
        (tmp_path / "offsets" / str(number)).write_text(f"v1\n{{}}\n{ticks}")
        commit = tmp_path / "commits" / str(number)
        commit.write_text("v1\n{}")
        os.utime(commit, (at, at))
    (tmp_path / "offsets" / "3").write_text("v1\n{}\n500")  # planned, never committed
    commits = _commits(tmp_path)
    assert [ticks for ticks, _ in commits] == [100, 250, 400]
    found = _by_second(commits, origin, 1_000.0, 1_005.0, 1_010.0)
    assert found == pytest.approx([0.3, 1.1, 6.0, 5.0, None])


def test_recovery_is_when_nearly_all_are_met_from_there_on() -> None:
    late, fine = [5.0], [0.5]
    assert outcome("fleet", late * 13 + fine * 47).recovered() == 12.0  # 19 of 20 do
    assert outcome("fleet", fine * 60).recovered() == 0.0
    assert outcome("still", late * 60).recovered() is None
    assert outcome("still", [None] * 60).recovered() is None
    assert outcome("still", (fine * 5 + late) * 10).recovered() is None


def test_beats_are_counted_from_what_the_sinks_log_lists(tmp_path: Path) -> None:
    beats = Patient(0).beats(20.0).tolist()
    rows = [{"patient": 0, "sample": round(t * ECG_RATE)} for t in beats]
    rows.append(rows[5])
    (tmp_path / "listed.json").write_text("\n".join(json.dumps(row) for row in rows))
    (tmp_path / "stray.json").write_text(json.dumps({"patient": 0, "sample": 1}))
    (tmp_path / "_spark_metadata").mkdir()
    entry = json.dumps({"path": f"file://{tmp_path}/listed.json"})
    (tmp_path / "_spark_metadata" / "0").write_text(f"v1\n{entry}\n")
    matched, doubled = _beats(tmp_path, 1, 2000 * TICK)
    assert (matched.missed, matched.false, doubled) == (0, 0, 1)


def test_a_report_is_read_back_and_drawn(tmp_path: Path) -> None:
    move = {"at": 7.0, "query": "hearts-1", "source": "n1", "target": "n3", "step": "done",
            "pause": 0.1, "gap": 0.4, "by": "fleet"}  # fmt: skip
    runs = [
        outcome("still", [4.0] * 60),
        outcome("fleet", [4.0] * 12 + [0.5] * 48, moves=[move], where={"hearts-1": "n3"}),
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(asdict(run)) + "\n" for run in runs))
    found = fleet_report.summary(fleet_report.read_rows(path))
    assert [line["recovered_after"] for line in found] == [None, 11.0]
    assert [line["met_after"] for line in found] == [0.0, pytest.approx(0.8)]
    fleet_report.table(runs)
    fleet_report.plot(runs, tmp_path / "fleet.png")
    assert (tmp_path / "fleet.png").stat().st_size > 10_000
    with pytest.raises(fleet_report.NoRunsError, match=r"laxity bench fleet-spark"):
        fleet_report.read_rows(tmp_path / "nothing.jsonl")
