"""Reads a query's semantics off its own logical plan, once, when it starts.

Never raises for an odd plan: what is not understood is a regular operator, with a note.
"""

from __future__ import annotations

from typing import Any

from laxity.core.durations import format_duration
from laxity.core.errors import LaxityError
from laxity.core.windows import Window
from laxity.semantics import Semantics, Source
from laxity.spark.emission import (
    EmissionRules,
    Operator,
    stateful_of,
    watermarks_of,
    windows_of,
)
from laxity.spark.plan_tree import read_tree
from laxity.spark.sources import read_sources

_WATERMARK_POLICY = ("spark.sql.streaming.multipleWatermarkPolicy", "min")
_NO_DATA_BATCHES = ("spark.sql.streaming.noDataMicroBatches.enabled", "true")


class NotAStreamError(LaxityError, TypeError):
    """Something else than the JVM's StreamExecution was given."""


def read_semantics(stream_execution: Any) -> Semantics:
    """What the query means for its schedule.

    Takes the JVM's StreamExecution: `query._jsq.streamingQuery()`. Read it before any limit of
    the query's sources is changed: the limits found are taken as the user's own.
    """
    plan = _analyzed_plan(stream_execution)
    mode = str(stream_execution.outputMode().toString()).lower()
    trigger = _read_trigger(stream_execution)
    notes: list[str] = []
    try:
        tree = read_tree(plan)
    except Exception as error:  # fail open: an odd plan must not keep a query from running
        notes.append(f"The plan could not be read ({_first_line(error)}): taken as regular.")
        tree = Operator("Unreadable")
    window = None
    if mode == "append":
        window = _append_window(stream_execution, tree, notes)
    elif windows_of(tree):
        notes.append(f"{mode.capitalize()} mode emits in every batch, before windows end.")
    if not notes:
        notes.append("Nothing waits for event time: every batch emits.")
    return Semantics(
        output_mode=mode,
        window=window,
        windows=windows_of(tree),
        watermark_delays=watermarks_of(tree),
        event_time=bool(watermarks_of(tree)),
        stateful=stateful_of(tree),
        sources=_sources(stream_execution, plan, notes),
        sink=_read_sink(stream_execution, notes),
        trigger=trigger,
        only_streams=_reads_only_streams(stream_execution, plan),
        notes=tuple(notes),
    )


def _analyzed_plan(stream_execution: Any) -> Any:
    try:
        return stream_execution.analyzedPlan()
    except Exception:
        raise NotAStreamError(
            f"a semantics reader needs the JVM's StreamExecution, got {stream_execution!r}: pass "
            f"query._jsq.streamingQuery() of a query started in a classic (not Connect) session"
        ) from None


def _append_window(stream_execution: Any, tree: Operator, notes: list[str]) -> Window | None:
    rules = EmissionRules(tree, watermark_policy=_setting(stream_execution, *_WATERMARK_POLICY))
    try:
        window = rules.window()
    except Exception as error:
        notes.append(f"The plan is not understood ({_first_line(error)}): taken as regular.")
        return None
    notes += rules.notes
    if window is not None:
        notes.append(
            f"Append mode: the window that ends at W leaves in the batch after the one that saw "
            f"an event of W + {format_duration(window.delay)}."
        )
        if _setting(stream_execution, *_NO_DATA_BATCHES) == "false":
            notes.append(f"{_NO_DATA_BATCHES[0]} is off: that batch waits for new data.")
    return window


def _setting(stream_execution: Any, key: str, default: str) -> str:
    # The stream's own session, which a restart fills with the settings of the checkpoint.
    try:
        value = stream_execution.sparkSessionForStream().conf().get(key, default)
    except Exception:
        return default
    return str(value).lower()


def _read_trigger(stream_execution: Any) -> str:
    trigger = stream_execution.trigger()
    kind = str(trigger.getClass().getSimpleName()).removesuffix("$")
    if kind == "ProcessingTimeTrigger":
        interval = trigger.intervalMs() / 1000
        return f"processing-time {format_duration(interval) if interval else '0'}"
    known = {
        "OneTimeTrigger": "once",
        "AvailableNowTrigger": "available-now",
        "ContinuousTrigger": "continuous",
        "RealTimeTrigger": "real-time",
    }
    return known.get(kind, kind)


def _sources(stream_execution: Any, plan: Any, notes: list[str]) -> tuple[Source, ...]:
    try:
        return read_sources(stream_execution, plan)
    except Exception as error:
        notes.append(f"Sources could not be read ({_first_line(error)}): not limited in size.")
        return ()


def _read_sink(stream_execution: Any, notes: list[str]) -> str:
    try:
        sink = stream_execution.sink()
        text = str(sink.toString())
        # Java's default text for an object says less than its class does.
        return str(sink.getClass().getSimpleName()) if "@" in text else text
    except Exception as error:
        notes.append(f"The sink could not be read ({_first_line(error)}).")
        return "unknown"


def _reads_only_streams(stream_execution: Any, plan: Any) -> bool:
    try:
        leaves = plan.collectLeaves()
        streaming = all(leaves.apply(at).isStreaming() for at in range(leaves.size()))
        return streaming and "ForeachBatch" not in str(stream_execution.sink().getClass())
    except Exception:  # fail open: what is not known is not relied upon
        return False


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
