"""Events: what is told, once, and where it goes."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from laxity.server.events import Detector, Event, EventLog, Kind
from laxity.server.serving import Server
from laxity.server.sinks import JsonLines, SinkError, Webhook
from laxity.server.testing import ScriptedQuery, ScriptedService
from server.conftest import Client


class ManualClock:
    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time


class Story:
    """A service, a detector, and a clock moved by hand."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.query = ScriptedQuery("alerts", "ads", target=0.8)
        self.service = ScriptedService(self.query, clock=self.clock)
        self.detector = Detector()

    def after(self, seconds: float = 1.0) -> list[Event]:
        self.clock.time += seconds
        return self.detector.observe(self.service.overview())

    def kinds(self, seconds: float = 1.0) -> list[Kind]:
        return [event.kind for event in self.after(seconds)]

    def emit(self, *latencies: float) -> None:
        for latency in latencies:
            self.query.emit(self.clock.time, latency)


@pytest.fixture
def story() -> Story:
    story = Story()
    assert story.kinds() == [Kind.STARTED]
    return story


def test_nothing_happened(story: Story) -> None:
    story.emit(0.1, 0.2)
    assert story.kinds() == []


def test_misses_are_told_at_once_and_then_in_sums(story: Story) -> None:
    story.emit(*[0.1] * 99, 1.0)
    (first,) = story.after()
    assert (first.kind, first.details["missed"], first.details["of"]) == (Kind.MISSED, 1, 100)
    story.emit(1.0)
    assert story.kinds() == []
    story.emit(1.0)
    (later,) = story.after(60)
    assert later.details["missed"] == 2


def test_overload_begins_and_ends_once(story: Story) -> None:
    story.emit(*[1.0] * 10)
    assert story.kinds() == [Kind.MISSED, Kind.OVERLOADED]
    assert story.kinds() == []
    story.query.results.clear()
    story.emit(*[0.1] * 10)
    (event,) = story.after()
    assert event.kind is Kind.RECOVERED
    assert event.details["was"] == "overloaded"
    assert story.kinds() == []


def test_failure_restart_recovery(story: Story) -> None:
    story.emit(0.1)
    story.after()
    story.query.state = "restarting"
    story.query.error = "java.lang.Boom: no\n\tat somewhere.in.Spark(File.scala:12)"
    (failed,) = story.after()
    assert failed.kind is Kind.FAILED
    assert failed.details["error"] == "java.lang.Boom: no"
    assert story.kinds() == []
    story.query.state, story.query.error, story.query.restarts = "running", "", 1
    assert story.kinds() == [Kind.RESTARTED, Kind.RECOVERED]


def test_giving_up_is_told(story: Story) -> None:
    story.query.state, story.query.error = "restarting", "ValueError: no"
    assert story.kinds() == [Kind.FAILED]
    story.query.state = "failed"
    (event,) = story.after()
    assert event.message == "alerts is given up: ValueError: no"
    assert event.details["given_up"]
    assert story.kinds() == []


def test_a_query_that_goes_has_stopped(story: Story) -> None:
    del story.service.queries["alerts"]
    assert story.kinds() == [Kind.STOPPED]


def test_best_effort_misses_nothing(story: Story) -> None:
    story.query.target = None
    story.emit(*[100.0] * 20)
    assert story.kinds() == []


def test_numbers_go_up_and_old_events_go(story: Story) -> None:
    log = EventLog(keep=3)
    for number in range(1, 6):
        log.add(Event(number, 0.0, Kind.MISSED, "q", "t", ""))
    assert [e.number for e in log.since()] == [3, 4, 5]
    assert [e.number for e in log.since(4)] == [5]
    assert [e.number for e in log.since(0, 2)] == [4, 5]


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        assert isinstance(server, ReceiverServer)
        refuse = server.refusals.pop() if server.refusals else None
        if refuse is None:
            server.got.append(json.loads(body))
        self.send_response(refuse or 204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


class ReceiverServer(http.server.ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.got: list[dict[str, object]] = []
        self.refusals: list[int] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


@pytest.fixture
def receiver() -> Iterator[ReceiverServer]:
    server = ReceiverServer()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def wait_for(condition: object, seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)


def event(number: int) -> Event:
    return Event(number, 1.0, Kind.MISSED, "alerts", "ads", "missed")


def test_a_webhook_gets_events_in_order(receiver: ReceiverServer) -> None:
    hook = Webhook(receiver.url)
    for number in range(20):
        hook.send(event(number))
    wait_for(lambda: len(receiver.got) == 20)
    hook.close()
    assert [e["number"] for e in receiver.got] == list(range(20))


def test_a_webhook_that_is_down_for_a_moment_loses_nothing(receiver: ReceiverServer) -> None:
    receiver.refusals = [503, 429, 500]
    hook = Webhook(receiver.url, pause=0.01)
    hook.send(event(1))
    hook.send(event(2))
    wait_for(lambda: hook.sent == 2)
    hook.close()
    assert [e["number"] for e in receiver.got] == [1, 2]


def test_a_webhook_that_is_gone_blocks_nobody() -> None:
    hook = Webhook("http://127.0.0.1:9/hook", tries=2, pause=0.01, room=3)
    for number in range(50):
        hook.send(event(number))
    hook.close(wait=1.0)
    assert hook.sent == 0
    assert hook.dropped >= 40


def test_a_refused_event_is_not_tried_again(receiver: ReceiverServer) -> None:
    receiver.refusals = [400]
    hook = Webhook(receiver.url, pause=0.01)
    hook.send(event(1))
    wait_for(lambda: hook.dropped == 1)
    hook.close()
    assert receiver.got == []


@pytest.mark.parametrize("url", ["ftp://x/y", "file:///etc/passwd", "hook", ""])
def test_a_webhook_is_http(url: str) -> None:
    with pytest.raises(SinkError, match="http"):
        Webhook(url)


def test_json_lines(tmp_path: Path, service: ScriptedService) -> None:
    file = tmp_path / "log" / "events.jsonl"
    with Server(
        service, "127.0.0.1:0", dashboard=False, period=0.1, sinks=[JsonLines(file)]
    ) as server:
        client = Client(server.url, server.access.token)
        client("PATCH", "/api/v1/queries/bulk", {"paused": True})
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {"started", "missed", "overloaded", "changed"} <= {line["kind"] for line in lines}
    assert all({"at", "kind", "query", "tenant", "message", "number"} <= set(x) for x in lines)


def test_a_file_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="cannot write events"):
        JsonLines(tmp_path / "file" / "events.jsonl")
