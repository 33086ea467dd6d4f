"""What a run is seen through, without Spark: opened early, closed once, and its log settings."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from laxity.server.serving import AddressError
from laxity.server.sinks import SinkError
from laxity.server.testing import ScriptedQuery, ScriptedService
from laxity.spark.outlets import open_outlets
from laxity.spark.run_session import session_conf
from laxity.spark.run_settings import RunSettings

ANYWHERE = RunSettings(address="127.0.0.1:0")


def service() -> ScriptedService:
    return ScriptedService(ScriptedQuery("alerts", "ads", target=0.8))


def kinds(file: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in file.read_text().splitlines()]


def test_events_are_written_without_a_server_too(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    with open_outlets(replace(ANYWHERE, serve=False, events_file=file)) as outlets:
        assert outlets.open_to(service()) == []
    assert kinds(file) == ["started"]


def test_what_a_server_shows_is_said_with_its_address(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    with open_outlets(replace(ANYWHERE, events_file=file)) as outlets:
        dashboard, metrics = outlets.open_to(service())
        outlets.close()
    assert "/#token=" in dashboard
    assert metrics.endswith("/metrics")
    assert kinds(file) == ["started"]


def test_a_token_of_ones_own_is_not_shown() -> None:
    settings = replace(ANYWHERE, token="a-token-of-some-length")
    with open_outlets(settings) as outlets:
        assert not any("token" in line for line in outlets.open_to(service()))


def test_an_address_in_use_is_said_before_anything_starts() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(AddressError, match="port 0"),
            open_outlets(replace(ANYWHERE, address=address)),
        ):
            raise AssertionError("not reached")


def test_a_bad_sink_leaves_no_open_door(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = replace(ANYWHERE, events_file=tmp_path / "file" / "events.jsonl")
    with pytest.raises(SinkError), open_outlets(settings):
        raise AssertionError("not reached")  # an unclosed socket would be a warning, an error here


def test_nothing_wanted_is_nothing_opened() -> None:
    with open_outlets(replace(ANYWHERE, serve=False)) as outlets:
        assert outlets.open_to(service()) == []


OPTIONS = "spark.driver.extraJavaOptions"


def test_sparks_log_is_set_from_the_start() -> None:
    mine = replace(ANYWHERE, conf={OPTIONS: "-Xss4m"}, spark_log="WARN")
    options = session_conf(mine, {})[OPTIONS]
    assert options.startswith("-Xss4m ")
    assert "log4j2.properties" in options
    assert "-Dlaxity.log=warn -Dlaxity.failures=warn" in options
    assert "-Dlaxity.failures=off" in session_conf(ANYWHERE, {})[OPTIONS]


def test_log_settings_of_the_user_are_left_alone(tmp_path: Path) -> None:
    named = replace(ANYWHERE, conf={OPTIONS: "-Dlog4j2.configurationFile=mine.xml"})
    assert session_conf(named, {})[OPTIONS] == "-Dlog4j2.configurationFile=mine.xml"
    (tmp_path / "log4j2.properties").touch()
    assert OPTIONS not in session_conf(ANYWHERE, {"SPARK_CONF_DIR": str(tmp_path)})
