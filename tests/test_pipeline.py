from __future__ import annotations

from pathlib import Path

import pytest

import laxity
from laxity.core.errors import InvalidDurationError
from laxity.pipeline import PipelineError, load_pipeline

GOOD = """
import laxity
from beside import SHARED

@laxity.query(target="800ms", tenant="ads")
def alerts(spark):
    return ("alerts", spark, SHARED)

@laxity.query(name="daily-sums", target="2h", window="10s", delay=0)
def daily(spark):
    return ("daily", spark, SHARED)

again = alerts  # another name for the same query is not another query
"""


def write(folder: Path, text: str) -> Path:
    (folder / "beside.py").write_text("SHARED = 7\n")
    file = folder / "pipeline.py"
    file.write_text(text)
    return file


def test_a_file_is_read_in_order_with_all_that_its_queries_promise(tmp_path: Path) -> None:
    pipeline = load_pipeline(write(tmp_path, GOOD))
    assert [q.name for q in pipeline.queries] == ["alerts", "daily-sums"]
    alerts, daily = pipeline.queries
    assert (alerts.target, alerts.tenant, alerts.window) == (0.8, "ads", None)
    assert (daily.target, daily.window, daily.delay) == (7200.0, 10.0, 0.0)
    assert alerts.build("session") == ("alerts", "session", 7)
    assert pipeline["daily-sums"] is daily
    assert set(daily.options()) == {
        "name", "target", "tenant", "window", "slide", "delay", "regular"
    }  # fmt: skip


def test_the_digest_tells_versions_apart(tmp_path: Path) -> None:
    before = load_pipeline(write(tmp_path, GOOD)).digest
    assert load_pipeline(write(tmp_path, GOOD)).digest == before
    assert load_pipeline(write(tmp_path, GOOD + "\n")).digest != before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "has no query: put @laxity.query"),
        ("x = 1\ny = 1 / 0\n", r"pipeline.py:2: ZeroDivisionError: division by zero"),
        ("x = (\n", r"pipeline.py:1: SyntaxError"),
        ("import no_such_module\n", r"pipeline.py:1: ModuleNotFoundError"),
        (GOOD.replace("daily-sums", "alerts"), "two queries named 'alerts'"),
        (GOOD.replace('tenant="ads"', "targe=3"), r"pipeline.py:5: TypeError"),
        (GOOD.replace("800ms", "soon"), r"pipeline.py:5: target of 'alerts': 'soon' is not a"),
    ],
)
def test_a_bad_file_is_refused_with_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        load_pipeline(write(tmp_path, text))


def test_a_missing_file_and_an_unknown_name_are_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"cannot read the pipeline file .*nowhere\.py"):
        load_pipeline(tmp_path / "nowhere.py")
    with pytest.raises(PipelineError, match="has no query 'hourly'; it has alerts, daily-sums"):
        load_pipeline(write(tmp_path, GOOD))["hourly"]
    with pytest.raises(PipelineError, match=r"targets: .* has no query 'hourly'; it has alerts"):
        load_pipeline(write(tmp_path, GOOD)).check_names(["alerts", "hourly"], "targets")


def test_a_bad_target_is_named_with_its_query() -> None:
    with pytest.raises(InvalidDurationError, match="target of 'alerts': 'soon' is not a duration"):

        @laxity.query(target="soon")
        def alerts(spark: object) -> None: ...


def test_a_decorator_without_brackets_is_explained() -> None:
    with pytest.raises(PipelineError, match="with brackets"):
        laxity.query(lambda spark: None)
