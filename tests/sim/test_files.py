"""Simulation files: what they mean, and errors with line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from laxity import recording
from laxity.recording import (
    InvalidRecordingError,
    QueryRecord,
    RateSample,
    Recording,
    StageRecord,
    WindowRecord,
)
from laxity.sim.files import BEST_EFFORT, read_scenario
from laxity.sim.located import InvalidScenarioError

YAML = """\
nodes: 2
cores: 4
queries:
  - name: alerts
    target: 800ms
    rate: 8000
    batch: 250ms
    window: 2s
    slide: 1s
    delay: 500ms
    stages:
      - {name: scan, parallelism: 4, cost: 2ms, per_row: 4us, selectivity: 0.1}
      - {name: sum, parallelism: 2, cost: 3ms, windowed: true}
  - name: best
    rate: 10
    stages:
      - {name: only, cost: 1ms}
"""
TOML = """\
nodes = 2
cores = 4

[[queries]]
name = "alerts"
target = "800ms"
rate = 8000
batch = "250ms"
window = "2s"
slide = "1s"
delay = "500ms"
[[queries.stages]]
name = "scan"
parallelism = 4
cost = "2ms"
per_row = "4us"
selectivity = 0.1
[[queries.stages]]
name = "sum"
parallelism = 2
cost = "3ms"
windowed = true

[[queries]]
name = "best"
rate = 10
stages = [{name = "only", cost = "1ms"}]
"""


def _write(folder: Path, text: str, name: str = "file.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_yaml_and_toml_say_the_same(tmp_path: Path) -> None:
    yaml = read_scenario(_write(tmp_path, YAML))
    toml = read_scenario(_write(tmp_path, TOML, "file.toml"))
    assert yaml == toml
    assert (yaml.cluster.nodes, yaml.cluster.workers) == (2, 4)
    alerts, best = yaml.queries
    window = alerts.job.stages["sum"].window
    assert window is not None
    assert (window.size, window.slide, window.delay) == (2.0, 1.0, 0.5)
    assert alerts.job.stages["scan"].window is None
    assert alerts.job.target == 0.8
    assert (best.has_target, best.job.target) == (False, BEST_EFFORT)
    assert alerts.flow(3.0).sources["scan"][0].rows == 3 * 8000 * 0.25 / 4


def test_a_window_no_stage_claims_is_kept_in_the_last(tmp_path: Path) -> None:
    scenario = read_scenario(_write(tmp_path, YAML.replace(", windowed: true", "")))
    assert scenario.queries[0].job.stages["sum"].window is not None


@pytest.mark.parametrize(
    ("before", "after", "line", "problem"),
    [
        ("cores: 4", "cores: four", 2, "field cores must be a whole number"),
        ("nodes: 2", "noodles: 2", 1, "field noodles is not known here; known are nodes"),
        ("target: 800ms", "target: soon", 5, "field queries[0].target is not a duration"),
        ("rate: 8000", "rate: -1", 6, "field queries[0].rate must be above 0"),
        ("slide: 1s", "slide: 3s", 9, "field queries[0].slide must be at most the window"),
        ("window: 2s\n    slide: 1s", "slide: 1s", 8, "field queries[0].slide needs a window"),
        ("cost: 3ms", "parallel: 2", 13, "field queries[0].stages[1].parallel is not known"),
        ("cost: 3ms, ", "", 13, "field queries[0].stages[1] needs a cost"),
        ("name: best", "name: alerts", 14, "field queries[1].name is 'alerts', which is taken"),
        ("    rate: 10\n", "", 14, "field queries[1] lacks 'rate'"),
        ("cost: 1ms", "cost: 1ms, after: [x]", 17, "stages[0].after names 'x'; the stages are"),
        ("cost: 1ms", "cost: 1ms, windowed: true", 17, "windowed needs the query to have a window"),
        ("nodes: 2", "scheduler: magic", 1, "field scheduler is 'magic'; there are cameo"),
        ("nodes: 2", "policy: magic", 1, "field policy no policy is named 'magic'"),
        ("queries:", "queries: [", 4, "not YAML"),
    ],
)
def test_yaml_errors(tmp_path: Path, before: str, after: str, line: int, problem: str) -> None:
    assert before in YAML
    path = _write(tmp_path, YAML.replace(before, after, 1))
    with pytest.raises(InvalidScenarioError) as caught:
        read_scenario(path)
    assert f"{path}, line {line}:" in str(caught.value)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("before", "after", "line", "problem"),
    [
        ('target = "800ms"', "target = true", 6, "field queries[0].target is not a duration"),
        ("parallelism = 2", "parallelism = 0", 20, "field queries[0].stages[1].parallelism must"),
        ("rate = 10", 'rate = "ten"', 26, "field queries[1].rate must be a number"),
        ("cores = 4", "cores = ", 2, "not TOML"),
    ],
)
def test_toml_errors(tmp_path: Path, before: str, after: str, line: int, problem: str) -> None:
    assert before in TOML
    path = _write(tmp_path, TOML.replace(before, after, 1), "file.toml")
    with pytest.raises(InvalidScenarioError) as caught:
        read_scenario(path)
    assert f"{path}, line {line}:" in str(caught.value)
    assert problem in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidScenarioError, match="nowhere"):
        read_scenario(tmp_path / "nowhere.yaml")


def _recorded(**changes: object) -> Recording:
    fields: dict[str, object] = {
        "name": "alerts",
        "target": 0.8,
        "batch_interval": 0.5,
        "window": WindowRecord(1.0, 1.0),
        "stages": (
            StageRecord("scan", 4, 0.012, 0.003, rows_mean=1000.0),
            StageRecord("sum", 2, 0.004, rows_mean=50.0, windowed=True, after=("scan",)),
        ),
        "rates": (RateSample(5.0, 6000.0), RateSample(6.0, 10_000.0)),
    }
    return Recording(2, 4, (QueryRecord(**(fields | changes)),))  # type: ignore[arg-type]


def test_a_recording_is_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recording.write(path, _recorded())
    scenario = read_scenario(path)
    (query,) = scenario.queries
    assert (scenario.cluster.nodes, scenario.cluster.workers) == (2, 4)
    assert query.rate == 8000.0
    assert query.costs["scan"].per_row == pytest.approx(12e-6)
    assert query.costs["scan"].noise == pytest.approx(0.25)
    assert query.costs["scan"].selectivity == pytest.approx(2 * 50 / (4 * 1000))
    volume = query.flow(1.0).sources["scan"][0].volume
    assert volume is not None
    from random import Random

    assert [volume(Random(1), t) for t in (0.5, 1.5, 2.5)] == [750.0, 1250.0, 750.0]


def test_a_recording_without_any_rate_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recording.write(path, _recorded(rates=(), stages=(StageRecord("scan", 4, 0.012),)))
    with pytest.raises(InvalidRecordingError, match="'alerts' has neither rate samples nor rows"):
        read_scenario(path)
