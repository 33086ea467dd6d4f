"""The settings of `laxity run`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laxity.core.errors import LaxityError
from laxity.spark.run_settings import (
    Backoff,
    RunSettings,
    RunSettingsError,
    load_settings,
    parse_pairs,
    parse_settings,
)
from laxity.templates import SETTINGS


def parse(text: str) -> RunSettings:
    return parse_settings(tomllib.loads(text))


def test_what_init_writes_is_understood() -> None:
    settings = parse(SETTINGS)
    assert settings.master == "local[2]"
    assert settings.conf == {"spark.sql.shuffle.partitions": "2"}
    assert settings.backoff == Backoff(1.0, 60.0)


def test_everything_at_once(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a-token-of-some-length\n")
    (tmp_path / "laxity.toml").write_text("""
        [session]
        master = "yarn"
        checkpoints = "hdfs:///checkpoints"
        grace = "30s"
        [session.conf]
        "spark.ui.enabled" = false
        [laxity]
        policy = "edf"
        quantum = "50ms"
        [server]
        address = "0.0.0.0:9000"
        token-file = "secret"
        [events]
        file = "log/events.jsonl"
        webhook = "http://127.0.0.1:1/"
        [restart]
        most = 3
        [tenants.bulk]
        cap = 2
        [tenants.ads]
        share = 0.5
        [targets]
        alerts = "500ms"
        daily = "none"
    """)
    settings = load_settings(None, tmp_path / "pipeline.py")
    assert settings.options == {"quantum": "50ms"}
    assert settings.policy == "edf"
    assert settings.token == "a-token-of-some-length"
    assert settings.conf == {"spark.ui.enabled": "false"}
    assert settings.events_file == tmp_path / "log" / "events.jsonl"
    assert settings.caps == {"bulk": 2, "ads": 0.5}
    assert settings.targets == {"alerts": 0.5, "daily": None}
    assert settings.backoff.most == 3
    assert settings.checkpoints == "hdfs:///checkpoints"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[sesion]", "no key 'sesion'; it has events, laxity"),
        ('[session]\nmastre = "x"', r"\[session\] has no key 'mastre'"),
        ("[session]\nmaster = 4", "master is a text in quotes"),
        ("[session.conf]\nspark.ui.enabled = false", "put dotted names in quotes"),
        ("[laxity]\nquantums = 1", "no option 'quantums'"),
        ('[laxity]\nquantum = "soon"', "not a duration"),
        ("[restart]\nmost = 0", "whole number from 1 on"),
        ("[tenants.a]\ncap = 1\nshare = 0.5", "one of them"),
        ("[tenants.a]\nshare = 2", "at most 1"),
        ('[server]\nenabled = "yes"', "true or false"),
        ('[targets]\na = "-1s"', "not a duration"),
    ],
)
def test_a_typing_error_is_refused_by_name(text: str, says: str) -> None:
    with pytest.raises(LaxityError, match=says):
        parse(text)


def test_a_broken_file_says_where(tmp_path: Path) -> None:
    file = tmp_path / "laxity.toml"
    file.write_text("[session\n")
    with pytest.raises(RunSettingsError, match=r"not TOML.*line 1"):
        load_settings(file, tmp_path / "pipeline.py")
    with pytest.raises(RunSettingsError, match="cannot read"):
        load_settings(tmp_path / "none.toml", tmp_path / "pipeline.py")


def test_flags_outrank_the_file() -> None:
    settings = parse(SETTINGS).with_flags(
        master="local[1]", name=None, conf={"spark.sql.shuffle.partitions": "8", "a": "b"}
    )
    assert settings.master == "local[1]"
    assert settings.name == "example"
    assert settings.conf == {"spark.sql.shuffle.partitions": "8", "a": "b"}


def test_pairs() -> None:
    assert parse_pairs(["a=b=c"], "--conf") == {"a": "b=c"}
    with pytest.raises(RunSettingsError, match="--conf takes KEY=VALUE"):
        parse_pairs(["a"], "--conf")


@given(st.integers(1, 10_000), st.floats(0.01, 10), st.floats(10, 1000))
def test_pauses_grow_and_end(failures: int, first: float, longest: float) -> None:
    backoff = Backoff(first, longest)
    assert first <= backoff.pause(failures) <= longest
    assert backoff.pause(failures) <= backoff.pause(failures + 1)


def test_giving_up() -> None:
    assert not Backoff().gives_up(10**6)
    assert [Backoff(most=2).gives_up(n) for n in (1, 2, 3)] == [False, False, True]
