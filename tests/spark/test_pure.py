"""The decisions of an attachment without Spark: reports in, decisions out."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laxity.core.policies import LeastLaxityFirst, TokenFairSharing
from laxity.core.progress import IDENTITY, ProgressLine
from laxity.core.rules import Base, PriorityRule
from laxity.core.windows import Window
from laxity.semantics import Semantics, Source
from laxity.spark.batches import (
    Phase,
    Span,
    attribute,
    behind_whom,
    spans,
    stage_costs,
    unobstructed,
)
from laxity.spark.controller import Controller, overload
from laxity.spark.errors import UnknownQueryError
from laxity.spark.latency import (
    ArrivalModel,
    ArrivalSource,
    LatencyLog,
    completed_windows,
    percentile,
)
from laxity.spark.model import QueryModel
from laxity.spark.query import explain_misses
from laxity.spark.settings import Settings
from laxity.spark.sizing import BatchSizer
from laxity.spark.status import QueryStatus, Status
from laxity.spark.wire import (
    BatchDone,
    Decisions,
    Notice,
    QueryDecision,
    Report,
    StageDone,
    StreamEnded,
    StreamSeen,
    number,
    parse_report,
)


def stage(
    number: int = 0,
    *,
    submitted: float,
    launched: float,
    done: float,
    job: int = 0,
    parents: tuple[int, ...] = (),
    behind: dict[str, int] | None = None,
    batch: int = 1,
    longest: float = 0.1,
) -> StageDone:
    seconds = done - launched
    return StageDone(
        "q", batch, job, number, parents, 2, submitted, launched, done, seconds, longest,
        behind or {},
    )  # fmt: skip


def batch(
    number: int = 1,
    *,
    started: float = 100.0,
    took: float = 1.0,
    rows: int = 10,
    held: float = 0.0,
    arrival: float = math.nan,
    event_time: dict[str, float] | None = None,
    backlog: bool = False,
    query: str = "q",
) -> BatchDone:
    durations = {"triggerExecution": took}
    return BatchDone(
        query, "run", number, rows, started, durations, event_time or {}, backlog, held, arrival
    )


# The wire.

texts = st.text(max_size=20).filter(lambda t: not any("\ud800" <= c <= "\udfff" for c in t))


def fields(line: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in line.split("\t")[1:])


@given(st.floats(allow_nan=False))
def test_numbers_survive_as_text(value: float) -> None:
    assert float(number(value)) == value


@given(texts, texts)
def test_a_decision_is_one_line_whatever_its_names_hold(query: str, tenant: str) -> None:
    decision = QueryDecision(
        query, tenant, PriorityRule(Base.ARRIVAL, 1.5), {"0.0": 0.25}, 0.5, True, False, 30.0
    )
    text = Decisions(queries=(decision,), caps={tenant: 2}).encode()
    kinds = [line.split("\t")[0] for line in text.split("\n")]
    assert kinds == ["G", "C", "Q"]
    assert "stages=0.0:0.25" in text


def test_a_source_limit_travels_only_when_it_changes() -> None:
    decision = QueryDecision("q", "t", PriorityRule(Base.ARRIVAL), {}, 0.0, False, False, 1.0)
    assert "\nL\t" not in Decisions(queries=(decision,)).encode()
    limited = replace(decision, source_limit=0)
    assert Decisions(queries=(limited,)).encode().endswith("L\tid=q\tvalue=0.0")


@given(texts, texts)
def test_reports_are_read_as_the_hooks_write_them(name: str, error: str) -> None:
    text = "\n".join(
        [
            f"S\tid=a\trun=r\tname={quote_plus(name)}\tstate=1\tsince=1.5E9\tgated=1",
            "S\tid=b\trun=r\tname=b\tstate=0\tsince=0.0\tunmanaged=OneTimeTrigger%24",
            f"T\tid=a\trun=r\terror={quote_plus(error)}",
            f"N\tkey=k\tmessage={quote_plus(error)}",
            "R\tid=a\trunning=2\twaiting=3",
            "R\tid=\trunning=1\twaiting=0",
            "K\tcores=4\treserved=2",
            "P\tsorts=7\tnanos=900",
            (
                "E\tid=a\tbatch=3\tjob=1\tstage=5\tparents=3,4\ttasks=2\tsubmitted=10.0\tlaunched=11.0"
                "\tdone=12.0\tseconds=1.5\tlongest=1.0\tbehind=b%3A2%2Cbatch%3A1"
            ),
            (
                "B\tid=a\trun=r\tbatch=3\trows=9\tstarted=10.0\td.triggerExecution=2.5\te.max=8.0"
                "\tbacklog=1\theld=0.5\tarrival=NaN"
            ),
        ]
    )
    report = parse_report(text)
    held, left_alone = report.streams
    assert (held.name, held.state, held.since, held.unmanaged) == (name, "held", 1.5e9, None)
    assert (left_alone.state, left_alone.unmanaged) == ("idle", "OneTimeTrigger$")
    assert report.ended == [StreamEnded("a", "r", error)]
    assert report.notices == [Notice("k", error)]
    assert (report.running, report.waiting) == ({"a": 2, "": 1}, {"a": 3, "": 0})
    assert (report.cores, report.reserved, report.sorts, report.sort_nanos) == (4, 2, 7, 900)
    (done,) = report.stages
    assert (done.parents, done.behind, done.longest_task) == ((3, 4), {"b": 2, "batch": 1}, 1.0)
    (finished,) = report.batches
    assert (finished.ended, finished.event_time, finished.backlog) == (12.5, {"max": 8.0}, True)
    assert math.isnan(finished.arrival)


# A batch taken apart.


def test_spans_of_a_batch_follow_each_other() -> None:
    stages = [
        stage(0, submitted=100.1, launched=100.3, done=100.5, behind={"bulk": 2, "other": 1}),
        stage(1, submitted=100.6, launched=100.6, done=100.9),
    ]
    found = spans(batch(held=0.4, took=1.0), stages)
    assert [(s.phase, round(s.end - s.start, 3)) for s in found] == [
        (Phase.HELD, 0.4),
        (Phase.PLANNING, 0.1),
        (Phase.WAITING, 0.2),
        (Phase.RUNNING, 0.2),
        (Phase.PLANNING, 0.1),
        (Phase.RUNNING, 0.3),
        (Phase.COMMITTING, 0.1),
    ]
    assert found[2].behind == ("bulk", "other")


@st.composite
def batches_with_stages(draw: st.DrawFn) -> tuple[BatchDone, list[StageDone]]:
    start = 1000.0
    stages = []
    for index in range(draw(st.integers(0, 4))):
        submitted = start + draw(st.floats(0, 3))
        launched = submitted + draw(st.floats(0, 2))
        done = launched + draw(st.floats(0, 2))
        stages.append(stage(index, submitted=submitted, launched=launched, done=done))
    end = max([s.done for s in stages], default=start) + draw(st.floats(0, 1))
    return batch(started=start, took=end - start, held=draw(st.floats(0, 5))), stages


@given(batches_with_stages(), st.floats(0, 10))
def test_every_moment_of_a_latency_has_one_phase(
    made: tuple[BatchDone, list[StageDone]], waited: float
) -> None:
    done, stages = made
    found = spans(done, stages)
    for before, after in itertools.pairwise(found):
        assert before.end == after.start
    start = done.started - waited
    assert sum(attribute(found, start, done.ended).values()) == pytest.approx(
        done.ended - start, abs=1e-5
    )
    assert unobstructed(done, stages) <= done.ended - done.started + 1e-9


def test_waiting_is_blamed_on_who_held_the_slots() -> None:
    found = [
        Span(Phase.WAITING, 0.0, 1.0, ("bulk", "other")),
        Span(Phase.WAITING, 1.0, 1.5, ("other",)),
        Span(Phase.RUNNING, 1.5, 3.0),
    ]
    assert behind_whom(found, 0.5, 3.0) == {"bulk": 0.5, "other": 0.5}
    assert attribute(found, -1.0, 3.0) == {
        Phase.WAITING: 1.5,
        Phase.RUNNING: 1.5,
        Phase.IDLE: 1.0,
    }


def test_stage_costs_follow_the_dag() -> None:
    """Two scans feed a join; another job follows in the same batch, then the commit."""
    stages = [
        stage(10, job=3, submitted=0.0, launched=0.5, done=1.5),
        stage(11, job=3, submitted=0.0, launched=0.0, done=2.0),
        stage(12, job=3, submitted=2.0, launched=2.0, done=2.5, parents=(10, 11)),
        stage(20, job=4, submitted=3.0, launched=3.0, done=3.25),
    ]
    costs = stage_costs(stages, tail=0.1)
    assert {at: (c.cost, pytest.approx(c.path_cost)) for at, c in costs.items()} == {
        "0.0": (1.0, 0.5 + 0.25 + 0.1),
        "0.1": (2.0, 0.5 + 0.25 + 0.1),
        "0.2": (0.5, 0.25 + 0.1),
        "1.0": (0.25, 0.1),
    }
    assert costs["0.2"].parents == ("0.0", "0.1")


# Latency.


def test_percentiles_are_values_that_occurred() -> None:
    values = [float(v) for v in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99)) == (50.0, 99.0)
    assert percentile([7.0], 0.5) == percentile([7.0], 0.99) == 7.0


@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=50).map(sorted),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
)
def test_a_percentile_covers_its_share(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert sum(v <= found for v in values) >= share * len(values) - 1e-9
    assert sum(v < found for v in values) < share * len(values)


def test_windows_completed_by_a_watermark() -> None:
    window = Window(10.0, 10.0)
    assert list(completed_windows(window, 5.0, 9.9)) == []
    assert list(completed_windows(window, 5.0, 30.0)) == [10.0, 20.0, 30.0]
    assert list(completed_windows(window, 10.0, 20.0)) == [20.0]
    assert list(completed_windows(window, 0.0, 1e6, most=2)) == [999_990.0, 1e6]


def test_a_window_is_as_late_as_the_event_that_closed_it() -> None:
    window = Window(10.0, 10.0, delay=2.0)
    line = IDENTITY._replace(t0=1000.0)
    done = batch(event_time={"watermark": 21.0})
    assert ArrivalModel().results(done, window=window, watermark_before=5.0, line=line) == [
        (1012.0, ArrivalSource.EVENT_TIME, 10.0),
        (1022.0, ArrivalSource.EVENT_TIME, 20.0),
    ]


def test_what_was_read_when_bounds_the_map() -> None:
    """The stream reached 12 in a batch read between 90 and 100, whatever the line says."""
    model = ArrivalModel()
    model.results(batch(0, started=90.0), window=None, watermark_before=None, line=None)
    model.note(batch(1, started=100.0, arrival=90.0, event_time={"max": 13.0}))
    for says, is_taken_as in ((50.0, 90.0), (95.0, 95.0), (150.0, 100.0)):
        assert model.of_window(12.0, IDENTITY._replace(t0=says - 12.0)) == is_taken_as
    assert model.of_window(14.0, IDENTITY) == 14.0  # not reached yet


def test_without_a_progress_map_nothing_is_claimed_of_windows() -> None:
    window = Window(10.0, 10.0)
    done = batch(event_time={"watermark": 21.0})
    for line, before in ((None, 5.0), (IDENTITY, None), (IDENTITY, 0.0)):
        found = ArrivalModel().results(done, window=window, watermark_before=before, line=line)
        assert found == []


def test_a_regular_batch_is_as_late_as_its_first_row() -> None:
    done = batch(arrival=98.0, event_time={"min": 90.0})
    model = ArrivalModel()

    def arrival(line: ProgressLine | None = None) -> tuple[float, ArrivalSource]:
        ((when, source, end),) = model.results(done, window=None, watermark_before=None, line=line)
        assert end is None
        return when, source

    # Before the first batch anything may have been lying there.
    assert arrival(IDENTITY) == (90.0, ArrivalSource.EVENT_TIME)
    # Afterwards, only what came since offsets were read last.
    assert arrival(IDENTITY) == (98.0, ArrivalSource.EVENT_TIME)
    assert arrival() == (98.0, ArrivalSource.OFFSETS)
    nothing = model.results(batch(rows=0), window=None, watermark_before=None, line=None)
    assert nothing == []


def test_the_log_forgets_after_its_period() -> None:
    log = LatencyLog(period=10.0)
    for i in range(5):
        done = batch(i, started=100.0 + i, took=0.5)
        arrivals = [(done.started - 0.25 * i, ArrivalSource.OFFSETS, None)]
        log.add_batch(done, spans(done, []), arrivals=arrivals, target=1.0)
    summary = log.summary(105.0, 1.0, 0.0)
    assert (summary.count, summary.p50, summary.maximum, summary.met) == (5, 1.0, 1.5, 0.6)
    assert log.summary(112.0, 1.0, 0.0).count == 3  # those emitted at 102.5, 103.5 and 104.5
    assert log.summary(200.0, 1.0, 0.0).count == 0
    assert (log.total, log.total_met, log.fastest) == (5, 3, 0.5)


def test_an_arrival_after_the_emission_counts_as_none() -> None:
    log = LatencyLog()
    (result,) = log.add_batch(
        batch(), [], arrivals=[(500.0, ArrivalSource.EVENT_TIME, None)], target=1.0
    )
    assert result.latency == 0.0


def test_misses_are_explained_by_where_the_time_went() -> None:
    log = LatencyLog()
    done = batch(took=2.0)
    stages = [stage(submitted=100.1, launched=101.6, done=101.9, behind={"id-of-bulk": 2})]
    results = log.add_batch(
        done, spans(done, stages), target=0.5, arrivals=[(100.0, ArrivalSource.OFFSETS, None)]
    )
    text = explain_misses("alerts", results, {"id-of-bulk": "bulk"}, 0.5)
    assert text.splitlines() == [
        "alerts missed its target of 500ms in 1 of 1 results; those took 2s on average:",
        "     1.5s  waiting for a slot behind bulk (1.5s)",
        "    300ms  running",
        "    100ms  planning",
        "    100ms  committing",
    ]
    assert "nothing can be missed" in explain_misses("alerts", results, {}, None)
    kept = [replace(result, target=5.0) for result in results]
    assert "met its target of 5s in its only result" in explain_misses("alerts", kept, {}, 5.0)
    assert "missed its target of 500ms in 1 of 2" in explain_misses(
        "alerts", [*kept, *results], {}, 5.0
    )
    assert "no results lately" in explain_misses("alerts", [], {}, 0.5)


def test_a_status_is_a_table_with_what_needs_attention_below() -> None:
    def query(name: str, target: float | None) -> QueryModel:
        return QueryModel(name, name, settings=Settings(), target=target, tenant="ads")

    slow = query("a name that needs more room than others", 0.5)
    for _ in range(5):
        slow.log.add_batch(
            batch(took=2.0), [], target=0.5, arrivals=[(100.0, ArrivalSource.OFFSETS, None)]
        )
    left = query("left", None)
    left.unmanaged = "RealTimeTrigger"
    models = [left, slow]
    status = Status(
        queries=tuple(QueryStatus.of(m, 102.0, {}) for m in models),
        policy="llf",
        cores=2,
        reserved=2,
        overloaded=True,
        overload=4.0,
        notices=("something to know",),
        loop_alive=True,
        loop_cpu=0.0,
        sorts=0,
        sort_seconds=0.0,
    )
    head, first, second, over, note = str(status).splitlines()
    assert head.split() == ["query", "tenant", "target", "state", "p50", "p99", "met", "rows/s"]
    assert first.index("ads") == second.index("ads") == head.index("tenant")
    assert first.startswith("a name that needs more room than others  ads      500ms  starting")
    assert first.split()[-2:] == ["0%", "0"]
    assert "left alone: real-time" in second
    assert over.endswith("takes 4.0 × its target (a name that needs more room than others)")
    assert note == "note: something to know"
    with pytest.raises(UnknownQueryError, match="running are: a name"):
        status["nobody"]
    assert "no streaming queries" in str(replace(status, queries=(), overload=None))


# Sizes.


def test_a_batch_shrinks_until_its_tasks_fit_the_quantum() -> None:
    sizer = BatchSizer(quantum=0.1, unit="rows")
    rows = 100_000
    for _ in range(12):
        longest = rows / 100_000  # a second for 100,000 rows
        changed = sizer.after_batch(
            rows=rows, longest_task=longest, backlog=False, constrained=True
        )
        rows = changed if changed is not None else rows
    assert rows == pytest.approx(10_000, rel=0.01)


def test_limits_grow_and_go_when_nobody_urgent_is_left() -> None:
    sizer = BatchSizer(quantum=0.1, unit="rows", limit=1000)
    seen = [
        sizer.after_batch(rows=1000, longest_task=0.1, backlog=True, constrained=False)
        for _ in range(7)
    ]
    assert seen[:5] == [2000, 4000, 8000, 16000, 32000]
    assert seen[5] == 0
    assert seen[6] is None


def test_a_query_that_cannot_keep_up_gets_larger_batches_up_to_twenty_quanta() -> None:
    sizer = BatchSizer(quantum=0.1, unit="rows", limit=1000)
    for longest, limit in ((0.5, 2000), (1.0, 4000), (2.0, None), (4.0, 2000)):
        behind = sizer.after_batch(
            rows=sizer.limit, longest_task=longest, backlog=True, constrained=True
        )
        assert behind == limit


def test_a_batch_is_never_made_so_small_that_it_mostly_pays_its_fixed_cost() -> None:
    sizer = BatchSizer(quantum=0.1, unit="rows", limit=1000)
    cut = sizer.after_batch(
        rows=1000, longest_task=0.2, backlog=False, constrained=True, worthwhile=800
    )
    assert cut == 800


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**9),
            st.floats(0, 1e4),
            st.booleans(),
            st.booleans(),
        ),
        max_size=30,
    ),
    st.sampled_from(["rows", "files", None]),
)
def test_a_limit_is_never_nonsense(
    history: list[tuple[int, float, bool, bool]], unit: str | None
) -> None:
    sizer = BatchSizer(quantum=0.1, unit=unit)
    for rows, longest, backlog, constrained in history:
        before = sizer.limit
        changed = sizer.after_batch(
            rows=rows, longest_task=longest, backlog=backlog, constrained=constrained
        )
        assert sizer.limit >= 0
        assert changed is None or (changed == sizer.limit and changed != before)
        if unit is None:
            assert changed is None
        if before and sizer.limit:
            assert min(before, rows) // 2 <= sizer.limit <= before * 2


# The controller.


def seen(name: str = "q", run: str = "run") -> StreamSeen:
    return StreamSeen(name, run, name, "running", 0.0, None)


def controller(**options: object) -> Controller:
    return Controller(LeastLaxityFirst(), Settings.of(**options))


def with_query(made: Controller, name: str = "q", **given: object) -> QueryModel:
    model = QueryModel(name, name, settings=made.settings, **given)  # type: ignore[arg-type]
    made.add(model)
    return model


def test_streams_nobody_knows_are_handed_back_once_they_are_seen() -> None:
    made = controller()
    report = Report(streams=[seen("a"), seen("b")])
    assert [s.id for s in made.handle(report, 0.0)] == ["a", "b"]
    with_query(made, "a")
    assert [s.id for s in made.handle(report, 0.0)] == ["b"]


def test_what_is_learned_becomes_offsets() -> None:
    made = controller()
    with_query(made, target=2.0)
    stages = [
        stage(0, submitted=100.2, launched=100.2, done=100.6),
        stage(1, submitted=100.6, launched=100.6, done=100.9, parents=(0,)),
    ]
    made.handle(Report(streams=[seen()], stages=stages, batches=[batch(took=1.0)]), 101.0)
    (decision,) = made.decide().queries
    assert decision.stage_offsets["0.0"] == pytest.approx(2.0 - 0.4 - (0.3 + 0.1))
    assert decision.stage_offsets["0.1"] == pytest.approx(2.0 - 0.3 - 0.1)
    assert decision.rule.offset == pytest.approx(2.0 - 1.0)
    assert decision.urgent
    assert decision.batch_offset < 2.0 - 1.0


def test_slots_are_reserved_only_while_somebody_is_urgent() -> None:
    made = controller()
    lax = with_query(made, "lax", target=3600.0)
    assert made.decide().reserve == 0
    lax.target = 1.0
    assert made.decide().reserve > 0
    fixed = controller(reserve=0)
    with_query(fixed, target=1.0)
    assert fixed.decide().reserve == 0


def test_caps_are_slots_or_shares_of_the_cores() -> None:
    made = controller()
    made.handle(Report(cores=8), 0.0)
    made.caps = {"a": 3, "b": 0.5, "c": 0.01}
    assert made.decide().caps == {"a": 3, "b": 4, "c": 1}


def test_tenants_share_what_nobody_was_given() -> None:
    made = Controller(TokenFairSharing(), Settings())
    made.handle(Report(cores=10), 0.0)
    for tenant in ("a", "b", "c"):
        with_query(made, tenant, tenant=tenant)
    made.shares["a"] = 0.5
    rates = {d.id: d.token_rate for d in made.decide().queries}
    assert rates == {"a": 5.0, "b": 2.5, "c": 2.5}
    assert controller().decide().queries == ()


def test_a_floor_is_told_once_and_again_for_another_target(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = controller()
    model = with_query(made, target=0.2)
    for index in range(50):
        done = batch(index, started=100.0 + index, took=0.9, arrival=100.0 + index)
        made.handle(Report(streams=[seen()], batches=[done]), 100.0 + index)
    assert len(made.notices) == 1
    assert "'q' has not met its target of 200ms" in made.notices[0]
    assert "its fastest took 900ms by itself: a target below that cannot" in made.notices[0]
    assert len([r for r in caplog.records if r.name == "laxity"]) == 1
    assert model.log.fastest == pytest.approx(0.9)
    model.target = 1.0
    done = batch(50, started=150.0, took=0.9, arrival=150.0)
    made.handle(Report(streams=[seen()], batches=[done]), 151.0)
    assert made.notices == ()  # what no longer holds is not shown


def test_a_floor_below_the_target_is_others_being_in_the_way() -> None:
    made = controller()
    with_query(made, target=0.5)
    for index in range(20):
        at = 100.0 + index
        slow = stage(batch=index, submitted=at + 0.1, launched=at + 0.7, done=at + 0.8)
        done = batch(index, started=at, took=0.9, arrival=at)
        made.handle(Report(streams=[seen()], stages=[slow], batches=[done]), at)
    assert "took 900ms, 300ms of it by itself: others are in its way" in made.notices[0]
    made.handle(Report(streams=[seen()], ended=[StreamEnded("q", "run", "")]), 130.0)
    assert made.notices == ()


def test_a_target_met_once_is_not_judged() -> None:
    made = controller()
    with_query(made, target=0.5)
    for index in range(50):
        took = 0.4 if index == 3 else 0.9
        done = batch(index, started=100.0 + index, took=took, arrival=100.0 + index)
        made.handle(Report(streams=[seen()], batches=[done]), 100.0 + index)
    assert made.notices == ()


def test_overload_is_how_far_the_worst_is_over() -> None:
    made = controller()
    fine, bad = with_query(made, "fine", target=10.0), with_query(made, "bad", target=0.5)
    for index in range(10):
        for name in ("fine", "bad"):
            done = batch(index, started=100.0 + index, took=2.0, arrival=99.0 + index, query=name)
            made.handle(Report(streams=[seen("fine"), seen("bad")], batches=[done]), 0.0)
    assert overload([fine], 112.0) is None
    assert overload([fine, bad], 112.0) == pytest.approx(3.0 / 0.5)


def test_queries_that_are_gone_are_kept_for_those_who_ask() -> None:
    made = controller()
    with_query(made, "a")
    with_query(made, "b")
    both = [seen("a"), seen("b")]
    made.handle(Report(streams=both), 0.0)
    made.handle(Report(streams=both, ended=[StreamEnded("a", "run", "boom")]), 1.0)
    assert (made.named("a").state, made.named("a").error) == ("failed", "boom")
    made.handle(Report(), 2.0)
    assert made.named("b").state == "stopped"
    assert made.models == {}
    with pytest.raises(UnknownQueryError, match="no query is named 'c'; running are: none"):
        made.named("c")


def test_the_end_of_an_earlier_run_does_not_end_this_one() -> None:
    made = controller()
    with_query(made, "a")
    late = StreamEnded("a", "first", "")
    made.handle(Report(streams=[seen("a", run="second")], ended=[late]), 0.0)
    assert list(made.models) == ["a"]


def test_lax_queries_are_sized_while_somebody_else_is_urgent() -> None:
    made = controller()
    source = Source("kafka", "Kafka", "rows")
    bulk = with_query(made, "bulk", target=3600.0, semantics=Semantics("append", sources=(source,)))
    done = batch(took=2.0, rows=1000, query="bulk")
    slow = replace(stage(submitted=100.0, launched=100.0, done=101.0, longest=1.0), id="bulk")
    made.handle(Report(streams=[seen("bulk")], stages=[slow], batches=[done]), 0.0)
    assert made.decide().queries[0].source_limit is None  # nobody to make room for
    with_query(made, "alerts", target=0.8)
    both = [seen("bulk"), seen("alerts")]
    made.handle(
        Report(streams=both, stages=[replace(slow, batch=2)], batches=[replace(done, batch=2)]),
        0.0,
    )
    first = {d.id: d.source_limit for d in made.decide().queries}
    assert first == {"bulk": 500, "alerts": None}
    assert made.decide().queries[0].source_limit is None  # told once
    assert bulk.sizer.limit == 500


def test_a_decision_is_made_anew_only_for_a_reason() -> None:
    model = QueryModel("id", "alerts", settings=Settings(), target=0.8)
    policy = LeastLaxityFirst()
    first = model.decide(policy)
    assert model.decide(policy) is first
    model.target = 0.5
    tighter = model.decide(policy)
    assert tighter.rule.offset < first.rule.offset
    model.paused = True
    assert model.decide(policy).paused


def test_a_limit_is_told_once() -> None:
    model = QueryModel("id", "daily", settings=Settings())
    model._pending_limit = 100
    assert model.decide(LeastLaxityFirst()).source_limit == 100
    assert model.decide(LeastLaxityFirst()).source_limit is None


def test_batches_reported_together_change_a_limit_once_and_lose_none() -> None:
    """None of them has run under the limit that the first one asked for."""
    source = Source("kafka", "Kafka", "rows")
    model = QueryModel(
        "q", "bulk", settings=Settings(), semantics=Semantics("append", sources=(source,))
    )
    for at, longest in ((1, 1.0), (2, 1.0), (3, 0.1)):  # the last one would leave it as it is
        model.stage_done(
            stage(submitted=100.0, launched=100.0, done=101.0, batch=at, longest=longest)
        )
        model.batch_done(batch(at, rows=1000), urgent_others=True)
    assert model.decide(LeastLaxityFirst()).source_limit == 500


def test_a_query_that_has_fallen_behind_does_not_wait_for_its_window() -> None:
    made = controller()
    window = Semantics("append", window=Window(1.0, 1.0))
    model = with_query(made, target=0.8, semantics=window)
    steps = []
    for at in range(14):
        model.batch_done(batch(at, started=float(at), backlog=at in (11, 12)), urgent_others=True)
        steps.append(made.decide().queries[0].step)
    assert steps[10:] == [1.0, 1.0, 0.0, 1.0]
