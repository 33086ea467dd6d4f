"""`/metrics`, read back by Prometheus' own parser."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families

from laxity.server.metrics import exposition
from laxity.server.testing import ScriptedQuery, ScriptedService
from server.conftest import Client, scripted


def families(text: bytes) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


ALERTS = (("query", "alerts"), ("tenant", "ads"))


def test_counters_gauges_and_the_histogram_say_what_happened() -> None:
    seen = families(exposition(scripted().overview()))
    assert seen["laxity_query_results_total"][ALERTS] == 60
    assert seen["laxity_query_missed_results_total"][ALERTS] == 20
    assert seen["laxity_query_target_seconds"][ALERTS] == 0.8
    bucket = seen["laxity_query_latency_seconds_bucket"]
    assert bucket[(("le", "0.5"), *ALERTS)] == 40
    assert bucket[(("le", "+Inf"), *ALERTS)] == 60
    assert seen["laxity_query_latency_seconds_count"][ALERTS] == 60
    assert seen["laxity_query_latency_seconds_sum"][ALERTS] == pytest.approx(20 * 1.2 + 40 * 0.3)


def test_best_effort_has_no_target_rather_than_a_wrong_one() -> None:
    seen = families(exposition(scripted().overview()))
    assert (("query", "copy"), ("tenant", "reports")) not in seen["laxity_query_target_seconds"]


def test_a_query_is_in_one_state() -> None:
    seen = families(exposition(scripted().overview()))
    states = {dict(k)["state"]: v for k, v in seen["laxity_query_state"].items() if ALERTS[0] in k}
    assert [s for s, v in states.items() if v == 1] == ["running"]


def test_names_keep_to_the_conventions() -> None:
    """As promtool checks them: help for all, totals for counters only, base units, plain labels."""
    text = exposition(scripted().overview()).decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    helps = dict(re.findall(r"^# HELP (\S+) (.+)$", text, re.MULTILINE))
    assert kinds.keys() == helps.keys()
    for name, kind in kinds.items():
        assert re.fullmatch(r"laxity(_[a-z]+)+", name)
        assert name.endswith("_total") == (kind == "counter")
        assert not name.endswith(("_count", "_sum", "_bucket"))
        assert not re.search(r"_(ms|millis\w*|minutes|hours|percent|kb|mb)(_|$)", name)
    labels = set(re.findall(r'[{,](\w+)="', text))
    assert labels == {"query", "tenant", "state", "phase", "le", "version", "policy", "application"}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is missing: apt prometheus")
def test_promtool_finds_nothing_to_say() -> None:
    page = exposition(scripted().overview())
    checked = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True)
    assert (checked.returncode, checked.stderr) == (0, b"")


def test_odd_names_are_escaped() -> None:
    service = ScriptedService(ScriptedQuery('a"b\\c\nd', "t", target=1.0))
    seen = families(exposition(service.overview()))
    assert (("query", 'a"b\\c\nd'), ("tenant", "t")) in seen["laxity_query_target_seconds"]


def test_it_is_served(client: Client) -> None:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert families(answer.body)["laxity_cores"][()] == 4
