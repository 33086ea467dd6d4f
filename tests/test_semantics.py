from __future__ import annotations

import pytest

from laxity.core.errors import InvalidDurationError
from laxity.core.windows import Window
from laxity.semantics import (
    InvalidOverrideError,
    Semantics,
    Source,
    WindowColumn,
    apply_override,
)

REGULAR = Semantics("append", watermark_delays=(("ts", 10.0), ("b", 20.0)))
HOURLY = Semantics("append", window=Window(3600, 3600, 900, 10))


def test_ends_lie_where_starts_and_size_put_them() -> None:
    assert WindowColumn("w", 60, 60, 0).with_delay(5) == Window(60, 60, 0, 5)
    # Starts at 1, 4, 7 …, so ends at 11, 14, 17 …
    window = WindowColumn("w", 10, 3, 1).with_delay(0)
    assert [window.next_end(p) for p in (10.5, 11, 13.9)] == [11, 14, 14]


def test_overriding_nothing_changes_nothing() -> None:
    assert apply_override(HOURLY) is HOURLY


def test_a_window_for_a_plan_without_one() -> None:
    changed = apply_override(REGULAR, window="1min")
    assert changed.window == Window(60, 60, 0, 20), "the slowest watermark is the delay"
    assert changed.notes[-1].startswith("You said: results leave every 60s")
    assert apply_override(REGULAR, window="1min", slide="10s", delay=0).window == Window(60, 10)


def test_what_is_not_said_is_kept() -> None:
    assert apply_override(HOURLY, delay="1min").window == Window(3600, 3600, 900, 60)
    assert apply_override(HOURLY, slide="30min").window == Window(3600, 1800, 900, 10)
    assert apply_override(HOURLY, window="1min").window == Window(60, 60, 0, 10)


def test_regular() -> None:
    changed = apply_override(HOURLY, regular=True)
    assert changed.window is None
    assert "every batch" in changed.notes[-1]


@pytest.mark.parametrize(
    ("semantics", "said", "error", "fix"),
    [
        (HOURLY, {"regular": True, "slide": "1s"}, InvalidOverrideError, "slide='1s'"),
        (REGULAR, {"slide": "1s"}, InvalidOverrideError, 'give window="1min"'),
        (REGULAR, {"delay": "1s"}, InvalidOverrideError, "delay='1s' needs a window"),
        (HOURLY, {"slide": "2h"}, InvalidOverrideError, "slide 2h is longer than the window 1h"),
        (HOURLY, {"window": "0s"}, InvalidDurationError, "window must be above zero"),
        (HOURLY, {"delay": "soon"}, InvalidDurationError, "delay: 'soon' is not a duration"),
    ],
)
def test_words_that_make_no_sense(
    semantics: Semantics, said: dict[str, str], error: type[Exception], fix: str
) -> None:
    with pytest.raises(error, match=fix):
        apply_override(semantics, **said)  # type: ignore[arg-type]


def test_description() -> None:
    text = Semantics(
        "append",
        window=Window(600, 300, 0, 10),
        windows=(WindowColumn("window", 600, 300, 60),),
        watermark_delays=(("ts", 10.0),),
        sources=(Source("kafka", "K", "rows", 500), Source("rate", "R")),
        trigger="once",
        notes=("Because.",),
    ).describe()
    assert "every 5min of event time, 10s after a window of 10min ends" in text
    assert "window: 10min every 5min from 60s" in text
    assert "kafka (limit by rows, 500 by the user); rate (no batch limit)" in text
    assert text.endswith("· Because.")
