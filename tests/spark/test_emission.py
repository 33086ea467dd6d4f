"""The rules for when results leave, on plans written by hand. No Spark is started."""

from __future__ import annotations

from laxity.core.windows import Window
from laxity.semantics import WindowColumn
from laxity.spark.emission import EmissionRules, Grouping, Operator, stateful_of
from laxity.spark.plan_tree import parse_window

MINUTE = WindowColumn("window", 60, 60)


def windowed(column: WindowColumn | None = MINUTE, group: Grouping | None = None) -> Operator:
    source = Operator("EventTimeWatermark", (Operator("Source"),), watermark=("ts", 10.0))
    project = Operator("Project", (source,), defines={7: column})
    return Operator("Aggregate", (project,), groupings=(group or Grouping(7),))


def decide(plan: Operator, policy: str = "min") -> tuple[Window | None, str]:
    rules = EmissionRules(plan, watermark_policy=policy)
    return rules.window(), " ".join(rules.notes)


def test_an_operator_nobody_knows_above_a_window_is_regular() -> None:
    assert decide(Operator("Filter", (windowed(),)))[0] == Window(60, 60, 0, 10)
    window, notes = decide(Operator("TimeTravel", (windowed(),)))
    assert window is None
    assert "TimeTravel is not an operator Laxity knows" in notes


def test_an_operator_nobody_knows_above_rows_that_leave_at_once_needs_no_note() -> None:
    assert decide(Operator("TimeTravel", (Operator("Source"),))) == (None, "")


def test_a_window_that_cannot_be_read_is_regular() -> None:
    window, notes = decide(windowed(column=None))
    assert window is None
    assert "could not be read" in notes


def test_a_window_no_watermark_governs_is_regular() -> None:
    window, notes = decide(windowed(group=Grouping(7, watermarked=False)))
    assert window is None
    assert "no watermark" in notes.lower()


def test_one_window_below_is_the_one_meant_when_ids_were_lost() -> None:
    assert decide(windowed(group=Grouping(99)))[0] == Window(60, 60, 0, 10)


def test_columns_renamed_in_a_circle_end() -> None:
    circle = Operator("Project", (Operator("Source"),), defines={1: 2, 2: 1})
    plan = Operator("Aggregate", (circle,), groupings=(Grouping(1),))
    assert decide(plan)[0] is None


def test_state_of_the_users_own_hides_the_window_below() -> None:
    window, notes = decide(Operator("TransformWithStateInPySpark", (windowed(),)))
    assert window is None
    assert "the user's function decides" in notes


def test_a_join_of_a_window_and_rows_that_come_at_once() -> None:
    join = Operator("Join", (windowed(), Operator("Source")), join_type="INNER")
    window, notes = decide(join)
    assert window is None
    assert "different paces" in notes
    assert stateful_of(join) == ("aggregation", "join")


def test_a_join_with_static_data_keeps_no_state_and_the_pace() -> None:
    join = Operator("Join", (windowed(),), join_type="LEFT OUTER")
    assert decide(join) == (Window(60, 60, 0, 10), "")
    assert stateful_of(join) == ("aggregation",)


def test_only_spark_s_own_arithmetic_is_a_window() -> None:
    assert parse_window("[]", "w") is None
    assert parse_window("not json", "w") is None
    literal = '[{"class": "a.b.Literal", "num-children": 0, "value": "1"}]'
    assert parse_window(literal, "w") is None
