from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from laxity.cli import app
from laxity.sim.located import InvalidScenarioError
from laxity.sim.reproduce.catalogue import UnknownExperimentError, choose, experiments

EXAMPLE = Path(__file__).parents[2] / "examples" / "simulate" / "shop.yaml"


def test_simulate_prints_a_table_and_saves_a_plot(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["simulate", str(EXAMPLE), "--out", str(tmp_path), "--duration", "10s"]
    )
    assert result.exit_code == 0, result.output
    for word in ("alerts", "fraud", "hourly", "utilisation", "cores that suffice", "breaks first"):
        assert word in result.output
    assert (tmp_path / "shop.png").stat().st_size > 1000


def test_simulate_prints_json(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["simulate", str(EXAMPLE), "--json", "--no-plot", "--duration", "10s"]
    )
    answer = json.loads(result.stdout)
    assert [query["name"] for query in answer["queries"]] == ["alerts", "fraud", "hourly"]
    assert answer["queries"][0]["success"] == 1.0
    assert answer["smallest_cores"] <= 8
    assert answer["breaks_first"]["load"] > 1.0


def test_simulate_refuses_a_bad_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("cores: 0\nqueries: []\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["simulate", str(path)])
    assert isinstance(result.exception, InvalidScenarioError)
    assert "line 1: field cores must be a whole number" in str(result.exception)


def test_reproduce_writes_a_table_a_plot_and_a_csv(tmp_path: Path) -> None:
    arguments = ["reproduce", "4", "--quick", "--processes", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "agrees" in result.output
    assert (tmp_path / "4.png").stat().st_size > 1000
    assert (tmp_path / "4.csv").read_text().startswith("schedule,message,job,start,end")


def test_reproduce_prints_json(tmp_path: Path) -> None:
    arguments = ["reproduce", "7c", "--quick", "--processes", "1", "--json", "--out", str(tmp_path)]
    (report,) = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert report["name"] == "7c"
    assert {claim["verdict"] for claim in report["claims"]} == {"agrees"}


def test_what_does_not_agree_is_explained_by_an_experiment(tmp_path: Path) -> None:
    """Figure 7b: FIFO's median under other readings of the paper."""
    arguments = ["reproduce", "7b", "--quick", "--processes", "1", "--json", "--out", str(tmp_path)]
    (report,) = json.loads(CliRunner().invoke(app, arguments).stdout)
    (differs,) = [claim for claim in report["claims"] if claim["verdict"] != "agrees"]
    assert differs["what"] == "FIFO's median against Orleans'"
    assert "1.00 × with a quantum of 100 ms" in differs["why"]


def test_names_of_experiments() -> None:
    assert [e.name for e in choose(["8"])] == ["8a", "8b", "8c"]
    assert [e.name for e in choose(["figure 9", "FIG10"])] == ["9", "10"]
    assert [e.name for e in choose(["1"])] == ["1"]
    everything = [e.name for e in choose(["all"])]
    assert [name for name in everything if not name.startswith("chi-")] == [
        *("1", "4", "6", "7a", "7b", "7c", "8a", "8b", "8c"),
        *("9", "10", "11", "12", "13", "14", "15"),
    ]
    assert {"chi-8", "chi-9", "chi-10", "chi-11a", "chi-11b"} < set(everything)
    assert {"speed", "sensitivity"} <= set(experiments())
    with pytest.raises(UnknownExperimentError, match="no experiment is named '99'; there are all"):
        choose(["99"])
