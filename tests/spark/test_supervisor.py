"""Restarts with back-off, on a clock moved by hand."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from laxity.pipeline import Pipeline, PipelineError, QuerySpec
from laxity.spark.run_settings import Backoff
from laxity.spark.supervisor import Supervisor


class FakeQuery:
    def __init__(self) -> None:
        self.isActive = True
        self.error: Exception | None = None
        self.stopped = False

    def exception(self) -> Exception | None:
        return self.error

    def fail(self, text: str) -> None:
        self.isActive, self.error = False, RuntimeError(text)

    def stop(self) -> None:
        self.isActive, self.stopped = False, True


class Model:
    def __init__(self, target: float | None) -> None:
        self.target, self.paused, self.state = target, False, "idle"


class FakeLaxity:
    def __init__(self) -> None:
        self.started: list[FakeQuery] = []
        self.models: dict[str, Model] = {}
        self.restarting: set[str] = set()

    def start(self, writer: object, *, name: str, target: float | None, **_: Any) -> FakeQuery:
        self.models[name] = Model(target)
        self.started.append(FakeQuery())
        return self.started[-1]

    def model(self, name: str) -> Model:
        return self.models[name]

    def pause(self, name: str) -> None:
        self.models[name].paused = True

    def is_restarting(self, name: str) -> bool:
        return name in self.restarting


class Writer:
    def queryName(self, name: str) -> Writer:  # noqa: N802  # Spark's name
        return self


class Clock:
    time = 0.0

    def now(self) -> float:
        return self.time


class Story:
    def __init__(self, backoff: Backoff, build: Any = lambda spark: Writer()) -> None:
        self.laxity, self.clock, self.said = FakeLaxity(), Clock(), list[str]()
        pipeline = Pipeline(Path("p.py"), (QuerySpec("alerts", build, target=1.0),), "")
        self.supervisor = Supervisor(
            self.laxity,  # type: ignore[arg-type]
            None,
            pipeline,
            backoff=backoff,
            clock=self.clock,
            say=self.said.append,
        )

    def at(self, time: float) -> bool:
        self.clock.time = time
        return self.supervisor.step()

    @property
    def query(self) -> FakeQuery:
        return self.laxity.started[-1]

    @property
    def starts(self) -> int:
        return len(self.laxity.started)


def test_a_failed_query_is_started_again_after_growing_pauses() -> None:
    story = Story(Backoff(first=1.0, longest=3.0))
    story.supervisor.start()
    story.query.fail("no broker\n\tat Kafka.scala")
    assert story.at(10.0)
    assert story.starts == 1
    assert story.supervisor.supervised()["alerts"].state == "restarting"
    assert story.said == ["alerts failed, restarting in 1s: no broker"]
    story.at(10.9)
    assert story.starts == 1
    story.at(11.0)
    assert story.starts == 2
    for expected in (2.0, 3.0, 3.0):
        story.query.fail("again")
        story.at(story.clock.time)
        before = story.starts
        story.at(story.clock.time + expected - 0.01)
        assert story.starts == before
        story.at(story.clock.time + 0.01)
        assert story.starts == before + 1
    assert story.supervisor.supervised()["alerts"].restarts == 4


def test_after_a_healthy_while_counting_starts_anew() -> None:
    story = Story(Backoff(first=1.0, most=1, healthy_after=60.0))
    story.supervisor.start()
    story.query.fail("one")
    story.at(0.0)
    story.at(1.0)
    story.at(70.0)
    story.query.fail("two")
    assert story.at(71.0)
    assert story.supervisor.failed == []


def test_one_that_keeps_failing_is_given_up() -> None:
    story = Story(Backoff(first=1.0, most=1))
    story.supervisor.start()
    story.query.fail("one")
    story.at(0.0)
    story.at(1.0)
    story.query.fail("two")
    assert not story.at(2.0)
    assert story.supervisor.failed == ["alerts"]
    assert "given up" in story.said[-1]


def test_what_was_changed_live_outlives_a_restart() -> None:
    story = Story(Backoff(first=1.0))
    story.supervisor.start()
    story.laxity.models["alerts"].target = 0.5
    story.laxity.models["alerts"].paused = True
    story.query.fail("x")
    story.at(0.0)
    story.at(1.0)
    assert story.laxity.models["alerts"].target == 0.5
    assert story.laxity.models["alerts"].paused


def test_a_query_that_ends_without_an_error_has_finished() -> None:
    story = Story(Backoff())
    story.supervisor.start()
    story.query.isActive = False
    assert not story.at(1.0)
    assert story.supervisor.failed == []


def test_a_pipeline_that_cannot_be_built_is_refused_at_once() -> None:
    def broken(spark: object) -> object:
        raise KeyError("column")

    with pytest.raises(PipelineError, match="'alerts' cannot be started: KeyError"):
        Story(Backoff(), broken).supervisor.start()
    with pytest.raises(PipelineError, match="return the writeStream"):
        Story(Backoff(), lambda spark: "a DataFrame").supervisor.start()


def test_a_failure_to_restart_is_a_failure_too() -> None:
    calls = []

    def build(spark: object) -> Writer:
        calls.append(1)
        if len(calls) == 2:
            raise OSError("not yet")
        return Writer()

    story = Story(Backoff(first=1.0), build)
    story.supervisor.start()
    story.query.fail("x")
    story.at(0.0)
    story.at(1.0)
    assert "OSError: not yet" in story.said[-1]
    story.at(3.0)
    assert story.starts == 2


def test_stopping_waits_for_batches_within_the_grace() -> None:
    story = Story(Backoff())
    story.supervisor.start()
    model = story.laxity.models["alerts"]
    model.state = "running"
    timer = threading.Timer(0.1, lambda: setattr(model, "state", "idle"))
    timer.start()
    story.supervisor.stop(30.0, threading.Event())
    timer.join()
    assert model.paused
    assert story.query.stopped
    assert story.said == []


def test_a_second_signal_does_not_wait() -> None:
    story = Story(Backoff())
    story.supervisor.start()
    story.laxity.models["alerts"].state = "running"
    hurry = threading.Event()
    hurry.set()
    story.supervisor.stop(3600.0, hurry)
    assert story.query.stopped
    assert "within a batch" in story.said[-1]
