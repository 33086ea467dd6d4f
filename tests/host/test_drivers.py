"""Drivers without their engines: what they make of what an engine says."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laxity.core.errors import InvalidDurationError
from laxity.host import procfs
from laxity.host.catalogue import CATALOGUE
from laxity.host.config import HostConfig, load_config, make_bindings, make_drivers
from laxity.host.drivers import flink, spark
from laxity.host.drivers.api import Targets
from laxity.host.drivers.generic import GenericDriver
from laxity.host.drivers.http import RestClient
from laxity.host.drivers.jvm import parse_thread_dump, thread_names
from laxity.host.drivers.pages import PageReader, parse_json, parse_prometheus
from laxity.host.drivers.processes import ProcessFinder
from laxity.host.entities import Thread
from laxity.host.errors import DriverError, InvalidHostConfigError
from laxity.host.journal import Journal
from laxity.host.metrics import MetricProvider, Snapshot
from laxity.host.notices import Notices
from laxity.host.policies import LeastLaxity, Level, View
from laxity.host.testing import FakeKernel

DUMP = """2026-01-01 00:00:00
Full thread dump OpenJDK 64-Bit Server VM:

"main" #1 prio=5 os_prio=0 cpu=82.41ms elapsed=9s tid=0x00007f nid=0x1a2b waiting on condition
   java.lang.Thread.State: TIMED_WAITING (sleeping)
"stream \\"x\\" thread" #31 daemon prio=5 os_prio=0 tid=0x00007f nid=77 runnable  [0x00]
"VM Thread" os_prio=0 cpu=1ms elapsed=1s tid=0x00007f nid=0x10 runnable
"""


def test_thread_dumps_of_java_17_and_21_are_read() -> None:
    names = parse_thread_dump(DUMP)
    assert names == {0x1A2B: "main", 77: 'stream \\"x\\" thread', 0x10: "VM Thread"}
    assert parse_thread_dump(DUMP, ["stream", "VM"]) == {77: names[77], 0x10: names[0x10]}
    assert parse_thread_dump(DUMP, ["none"]) == {}


def test_a_process_that_is_no_jvm_is_not_signalled() -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        with pytest.raises(DriverError, match="not a HotSpot JVM"):
            thread_names(sleeper.pid, timeout=0.2)
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


def test_prometheus_pages_are_read_with_our_names_or_theirs() -> None:
    text = """# HELP laxity_queue_size x
laxity_queue_size{query="a",operator="parse",subtask="0"} 3
laxity_queue_size{operator="parse",query="a",subtask="1"} 4.5e0
laxity_queue_size{query="a"} 9
other{query="a",operator="parse"} 9
laxity_head_age{query="a",operator="parse"} nonsense
"""
    assert parse_prometheus(text).values == {"queue_size": {("a", "parse"): 7.5}}
    theirs = 'q_len{job="j",op="x"} 2\n'
    page = parse_prometheus(theirs, {"queue_size": "q_len"}, "job", "op")
    assert page.values == {"queue_size": {("j", "x"): 2.0}}


def test_json_files_are_read_with_their_shape() -> None:
    page = parse_json('{"a": {"x": {"queue_size": 3, "downstream": ["y"]}, "y": {}}}')
    assert page.values == {"queue_size": {("a", "x"): 3.0}}
    assert page.downstream == {("a", "x"): ("y",)}
    for bad in ("[]", "{", '{"a": {"x": 1}}', '{"a": {"x": {"queue_size": "many"}}}'):
        with pytest.raises(DriverError, match="documented form"):
            parse_json(bad)


def test_a_process_is_found_when_it_appears_and_lost_when_it_ends() -> None:
    finder = ProcessFinder(f"sleep 61.{os.getpid()}")
    assert finder.find() == []
    sleeper = subprocess.Popen(["sleep", f"61.{os.getpid()}"])
    try:
        while not procfs.command_line(sleeper.pid).startswith("sleep"):
            pass  # between fork and exec
        assert finder.find() == [sleeper.pid]
    finally:
        sleeper.kill()
        sleeper.wait()
    assert finder.find() == []


def test_a_thread_pattern_without_its_groups_is_refused() -> None:
    with pytest.raises(InvalidHostConfigError, match="query and operator"):
        GenericDriver("g", process="x", thread=r"q(\d+)")


def test_a_generic_engine_that_is_not_there_is_said() -> None:
    driver = GenericDriver(
        "g", process="no-such-process-\\d{9}", thread="(?P<query>.)(?P<operator>.)"
    )
    with pytest.raises(DriverError, match="no process matches"):
        driver.snapshot(0.0, frozenset())


class Server:
    """An engine's REST API: path → answer; a path that is missing hangs."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.requests: list[str] = []
        outer = self
        self.done = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.requests.append(self.path)
                answer = outer.answers.get(self.path, outer.answers.get("*"))
                if answer is None:
                    outer.done.wait(30)
                    return
                status, body = answer if isinstance(answer, tuple) else (200, json.dumps(answer))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: Any) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://localhost:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.done.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


def test_a_rest_call_that_hangs_ends_with_its_timeout(server: Server) -> None:
    client = RestClient(server.url, timeout=0.1)
    with pytest.raises(DriverError, match="timed out"):
        client.json("/hangs")
    client.close()


def test_a_servers_first_answer_may_take_longer_than_the_others(server: Server) -> None:
    server.answers = {"/good": {"a": 1}}
    client = RestClient(server.url, timeout=0.1, first=60.0)
    assert client._connection.timeout == 60.0
    assert client.json("/good") == {"a": 1}
    with pytest.raises(DriverError, match="timed out"):
        client.json("/hangs")
    client.close()


def test_rest_faults_are_one_typed_error(server: Server) -> None:
    client = RestClient(server.url)
    server.answers = {"/bad": (500, "oops"), "/text": (200, "hello"), "/good": {"a": 1}}
    with pytest.raises(DriverError, match="500"):
        client.json("/bad")
    with pytest.raises(DriverError, match="JSON"):
        client.json("/text")
    assert client.json("/good") == {"a": 1}
    client.close()
    with socket.socket() as unused:
        unused.bind(("localhost", 0))
        with pytest.raises(DriverError, match="refused"):
            RestClient(f"http://localhost:{unused.getsockname()[1]}").text("/")
    with pytest.raises(InvalidHostConfigError, match="http://host:port"):
        RestClient("localhost:8081")


JOB = {
    "jid": "j" * 32,
    "name": "totals",
    "start-time": 1_000,
    "vertices": [
        {"id": "1" * 32, "name": "Source: in", "parallelism": 1},
        {"id": "2" * 32, "name": "Map -> Filter -> Map", "parallelism": 2},
        {"id": "3" * 32, "name": "Sink: out", "parallelism": 1},
    ],
    "plan": {
        "nodes": [
            {"id": "1" * 32},
            {"id": "2" * 32, "inputs": [{"id": "1" * 32}]},
            {"id": "3" * 32, "inputs": [{"id": "2" * 32}]},
        ]
    },
}


def t(tid: int) -> Thread:
    return Thread(1, tid, tid)


def test_flink_jobs_become_queries_with_fused_and_replicated_operators() -> None:
    job = flink.parse_job(JOB)
    threads = {
        t(1): "Source: in (1/1)#0",
        t(2): "Legacy Source Thread - Source: in (1/1)#0",
        t(3): "Map -> Filter -> Map (1/2)#0",
        t(4): "Map -> Filter -> Map (2/2)#3",
        t(5): "OutputFlusher for Map -> Filter -> Map (2/2)#3",
        t(6): "Sink: out (1/1)#0",
        t(7): "flink-pekko.actor.default-dispatcher-4",
    }
    made = flink.build_deployment("f", [job], threads, Targets({"tot*": 2.0}))
    assert made.queries[0].target == 2.0
    chain = made.physical[1]
    assert [op.rpartition(".")[2] for op in chain.logical] == ["Map", "Filter", "Map-2"]
    tids = [[thread.tid for thread in op.threads] for op in made.physical]
    assert tids == [[1, 2], [3], [4, 5], [6]]
    source, mapped = made.logical[0], made.logical[1]
    assert source.downstream == (mapped.id,)
    assert made.logical[3].downstream == (made.logical[4].id,)
    assert made.downstream[made.physical[0].id] == ((made.physical[1].id, made.physical[2].id),)


def test_flink_threads_of_the_same_name_go_to_jobs_by_age_or_to_nobody() -> None:
    older = flink.Job("a" * 32, "x", 1.0, flink.parse_job(JOB).vertices[:1])
    newer = flink.Job("b" * 32, "x", 2.0, older.vertices)
    threads = {t(9): "Source: in (1/1)#0", t(4): "Source: in (1/1)#0"}
    made = flink.build_deployment("f", [older, newer], threads, Targets())
    assert [q.name for q in made.queries] == ["x", "x-bbbbbbbb"]
    assert [op.threads for op in made.physical] == [(t(4),), (t(9),)]
    threads[t(10)] = "Source: in (1/1)#0"
    made = flink.build_deployment("f", [older, newer], threads, Targets())
    assert [op.threads for op in made.physical] == [(), ()]


def test_flink_metrics_make_whole_paths() -> None:
    job = flink.parse_job(JOB)
    asked = ["records_in", "records_out", "cpu_use", "queue_size", "head_age"]

    def say(**values: float) -> list[dict[str, str]]:
        return [{"id": key.replace("_", ".", 1), "value": str(v)} for key, v in values.items()]

    answers = [
        say(**{"0_numRecordsOut": 100, "0_busyTimeMsPerSecond": 500}),
        [
            {"id": "0.numRecordsIn", "value": "40"},
            {"id": "1.numRecordsIn", "value": "60"},
            {"id": "0.numRecordsOut", "value": "20"},
            {"id": "1.numRecordsOut", "value": "30"},
            {"id": "0.busyTimeMsPerSecond", "value": "NaN"},
            {"id": "1.busyTimeMsPerSecond", "value": "250"},
            {"id": "0.buffers.inputQueueLength", "value": "2"},
            {"id": "1.Shuffle.Netty.Input.Buffers.inputQueueLength", "value": "3"},
            {
                "id": f"1.latency.source_id.{'1' * 32}.operator_id.{'2' * 32}"
                ".operator_subtask_index.1.latency_median",
                "value": "250",
            },
        ],
        say(**{"0_numRecordsIn": 50, "0_numRecordsOut": 0, "0_busyTimeMsPerSecond": 100}),
    ]
    raw: dict[str, dict[str, float]] = {m: {} for m in asked}
    for vertex, answer in zip(job.vertices, answers, strict=True):
        for metric, values in flink.vertex_values("f", "totals", vertex, answer, asked).items():
            raw[metric].update(values)
    made = flink.build_deployment("f", [job], {}, Targets())
    provider = MetricProvider(CATALOGUE)
    zero = {m: (dict.fromkeys(v, 0.0) if m.startswith("rec") else v) for m, v in raw.items()}
    provider.update(Snapshot(made, 0.0, zero), ["highest_rate", "queue_size"])
    values = provider.update(Snapshot(made, 1.0, raw), ["highest_rate", "queue_size"])
    source, head = made.logical[0].id, made.logical[1].id
    assert values["queue_size"][head] == 5.0
    assert raw["head_age"][head] == 0.25
    assert job.vertices[2].sources == ("1" * 32,)
    # source: 5 ms, passes all; map: 2.5 ms, passes half; sink: 2 ms
    assert values["highest_rate"][source] == pytest.approx(0.5 / (0.005 + 0.0025 + 0.5 * 0.002))


def test_the_flink_driver_reads_plans_once_and_follows_jobs(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = flink.FlinkDriver(url=server.url, process="no-such-process-\\d{9}")
    jid = JOB["jid"]
    server.answers = {
        "/jobs/overview": {"jobs": [{"jid": jid, "state": "RUNNING"}]},
        f"/jobs/{jid}": JOB,
        "*": [],
    }
    for _ in range(2):
        snapshot = driver.snapshot(0.0, frozenset({"queue_size"}))
        assert len(snapshot.deployment.physical) == 4
    assert server.requests.count(f"/jobs/{jid}") == 1
    server.answers["/jobs/overview"] = {"jobs": [{"jid": jid, "state": "CANCELED"}]}
    assert driver.snapshot(1.0, frozenset()).deployment.queries == ()
    driver.close()


RUN = "11111111-aaaa"
STREAM_THREADS = {
    t(1): f"stream execution thread for alerts [id = 0f0f0f0f-1, runId = {RUN}]",
    t(2): "stream execution thread for [id = deadbeef-2, runId = 2222]",
    t(3): "Executor task launch worker for task 1.0 in stage 7.0 (TID 31)",
    t(4): "Executor task launch worker for task 0.0 in stage 8.0 (TID 32)",
    t(5): "Executor task launch worker-3",
}


def test_spark_threads_become_stream_and_task_operators() -> None:
    streams = spark.find_streams(STREAM_THREADS)
    assert [s.name for s in streams] == ["alerts", "query-deadbeef"]
    made = spark.build_deployment(
        "s", streams, STREAM_THREADS, {31: RUN, 99: "2222"}, {1: [t(50)]}, Targets({"alerts": 0.8})
    )
    found = {op.id: [thread.tid for thread in op.threads] for op in made.physical}
    assert found == {
        "s/alerts/stream#0": [1],
        "s/alerts/tasks#0": [3],
        "s/query-deadbeef/stream#0": [2],
        "s/alerts/python#1": [50],
    }
    assert made.query_by_name["alerts"].target == 0.8


def test_spark_gauges_become_metrics_of_both_operators() -> None:
    streams = spark.find_streams(STREAM_THREADS)
    gauges = {
        "local-1.driver.spark.streaming.alerts.latency": {"value": 250},
        "local-1.driver.spark.streaming.deadbeef-2.latency": {"value": 1000},
        "local-1.driver.spark.streaming.alerts.eventTime-watermark": {"value": "x"},
        "local-1.driver.jvm.heap": {"value": 1},
    }
    values = spark.gauge_values("s", streams, gauges, {"latency": spark._METRICS["latency"]})
    assert values["latency"] == {
        "s/alerts/stream": 0.25,
        "s/alerts/tasks": 0.25,
        "s/query-deadbeef/stream": 1.0,
        "s/query-deadbeef/tasks": 1.0,
    }


def test_python_workers_take_after_the_queries_of_their_own_executor() -> None:
    run = "Executor task launch worker for task 1.0 in stage 7.0 (TID {})"
    threads = {
        Thread(10, 11, 1, ""): run.format(1),
        Thread(20, 21, 1, ""): run.format(2),
        Thread(20, 22, 1, ""): run.format(3),
    }
    streams = [spark.Stream("a", "run-a", "a"), spark.Stream("b", "run-b", "b")]
    workers = {
        10: [Thread(12, 12, 1, "")],
        20: [Thread(23, 23, 1, "")],
        30: [Thread(31, 31, 1, "")],
    }
    tasks = {1: "run-a", 2: "run-a", 3: "run-b"}
    made = spark.build_deployment("s", streams, threads, tasks, workers, Targets())
    found = {op.id: (op.logical, [t.tid for t in op.threads]) for op in made.physical}
    assert found == {
        "s/a/tasks#0": (("s/a/tasks",), [11, 21]),
        "s/b/tasks#0": (("s/b/tasks",), [22]),
        "s/a/python#10": (("s/a/tasks",), [12]),
        "s/a/python#20": (("s/a/tasks", "s/b/tasks"), [23]),
    }


def test_queries_of_a_driver_elsewhere_are_known_by_their_jobs() -> None:
    local = spark.find_streams(STREAM_THREADS)
    jobs = [
        {"jobGroup": RUN, "description": f"alerts<br/>id = 0f0f-1<br/>runId = {RUN}<br/>batch = 3"},
        {"jobGroup": "3-3", "description": "far off\nid = 77-7\nrunId = 3-3\nbatch = 3"},
        {"jobGroup": "4-4", "description": "id = 88888888-8<br/>runId = 4-4<br/>batch = init"},
        {"jobGroup": "mine", "description": "somebody's own job"},
        {"jobGroup": "none"},
    ]
    found = spark.with_remote(local, jobs)
    assert [(s.name, s.gauge, s.thread is None) for s in found] == [
        ("alerts", "alerts", False),
        ("query-deadbeef", "deadbeef-2", False),
        ("far off", "far off", True),
        ("query-88888888", "88888888-8", True),
    ]


def test_the_spark_driver_maps_tasks_to_queries_through_job_groups(server: Server) -> None:
    driver = spark.SparkDriver(url=server.url)
    base = "/api/v1/applications/app-1"
    stage = {
        "stageId": 7,
        "tasks": {
            "1": {"taskId": 31, "status": "RUNNING"},
            "2": {"taskId": 30, "status": "SUCCESS"},
        },
    }
    server.answers = {
        "/api/v1/applications": [{"id": "app-1"}],
        f"{base}/jobs?status=running": [{"jobGroup": RUN, "stageIds": [7]}, {"stageIds": [9]}],
        f"{base}/stages?status=active&details=true&taskStatus=RUNNING": [
            stage,
            {"stageId": 9, "tasks": {}},
        ],
    }
    assert driver._tasks(driver._jobs()) == {31: RUN}
    driver.close()


def test_a_spark_application_that_follows_another_at_its_address_is_picked_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "thread_names", lambda *_: {})
    driver = spark.SparkDriver(url=server.url, pids=[os.getpid()])
    for application in ("app-1", "app-2"):
        server.answers = {
            "/api/v1/applications": [{"id": application}],
            f"/api/v1/applications/{application}/jobs?status=running": [],
            "*": (404, ""),
        }
        if application == "app-2":
            with pytest.raises(DriverError, match="app-1"):
                driver.snapshot(0.0, frozenset())
        assert driver.snapshot(0.0, frozenset()).deployment.queries == ()
    driver.close()


def test_a_listening_process_is_known_by_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert procfs.listens(os.getpid(), port)
        assert not procfs.listens(os.getppid(), port)
    assert not procfs.listens(os.getpid(), port)
    assert not procfs.listens(2**22 + 1, port)


def test_a_feed_gives_laxity_and_threads_of_this_process_and_its_workers() -> None:
    worker = subprocess.Popen(["sleep", "60"])
    try:
        own = threading.get_native_id()
        feed = {"alerts": (0.3, [own, worker.pid, 2**22 + 1]), "daily": (3600.0, [])}
        driver = spark.FeedDriver(lambda: feed)
        snapshot = driver.snapshot(0.0, frozenset({"laxity"}))
        threads = snapshot.deployment.physical[0].threads
        assert [(x.pid, x.tid) for x in threads] == [(os.getpid(), own), (worker.pid, worker.pid)]
        metrics = MetricProvider(CATALOGUE).update(snapshot, ["laxity"])
        ranked = LeastLaxity().priorities(View(snapshot.deployment, metrics, Level.LOGICAL))
        assert ranked["spark/alerts/query"] > ranked["spark/daily/query"]
    finally:
        worker.kill()
        worker.wait()


CONFIG = """
name = "mine"
period = "250ms"
[[engine]]
kind = "flink"
url = "http://localhost:1"
[[engine]]
kind = "spark"
name = "etl"
[[policy]]
kind = "laxity"
translator = "shares+nice"
group_policy = "constant"
group_weights = { "alerts*" = 4.0 }
floor = 0.05
[[policy]]
kind = "qs"
name = "flink-queues"
engines = "flink"
period = "2s"
enabled = false
[targets]
"alerts*" = "800ms"
"""


def test_a_configuration_becomes_drivers_and_policies(tmp_path: Path) -> None:
    (tmp_path / "host.toml").write_text(CONFIG)
    config = load_config(tmp_path / "host.toml")
    assert [d.name for d in make_drivers(config)] == ["flink", "etl"]
    kernel = FakeKernel()
    laxity, queues = make_bindings(config, kernel, Journal(kernel), Notices(pytest.fail))
    assert (laxity.period, laxity.translator.name) == (0.25, "cpu.shares+nice")
    assert isinstance(laxity.policy, LeastLaxity)
    assert laxity.policy.floor == 0.05
    assert laxity.group_policy is not None
    assert (queues.name, queues.period, queues.enabled) == ("flink-queues", 2.0, False)
    assert queues.covers("flink")
    assert not queues.covers("etl")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour = 1", "colour"),
        ("period = ", "Invalid value"),
        ("[[policy]]\nkind = 'qs'", "no engine"),
        ("[[engine]]\nkind = 'flink'", "no policy"),
    ],
)
def test_a_configuration_that_cannot_run_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "host.toml").write_text(text)
    with pytest.raises(InvalidHostConfigError, match=message):
        load_config(tmp_path / "host.toml")


def test_engines_and_targets_that_make_no_sense_are_refused() -> None:
    policies = ({"kind": "qs"},)
    with pytest.raises(InvalidHostConfigError, match=r"'storm'.*flink"):
        make_drivers(HostConfig(({"kind": "storm"},), policies))
    with pytest.raises(InvalidHostConfigError, match="colour"):
        make_drivers(HostConfig(({"kind": "flink", "colour": "red"},), policies))
    with pytest.raises(InvalidHostConfigError, match="two engines"):
        make_drivers(HostConfig(({"kind": "flink"}, {"kind": "flink"}), policies))
    with pytest.raises(InvalidDurationError, match="soon"):
        make_drivers(HostConfig(({"kind": "flink"},), policies, {"a": "soon"}))


def test_a_missing_page_is_said_when_the_driver_is_made(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match="No such file"):
        GenericDriver(
            "g",
            process="x",
            thread="(?P<query>.)(?P<operator>.)",
            page=PageReader(str(tmp_path / "none.json")),
        )


def test_cpu_seconds_grow_with_work() -> None:
    stat = procfs.thread_stat(os.getpid(), threading.get_native_id())
    assert stat is not None
    before = procfs.cpu_seconds(stat.thread)
    sum(range(1_000_000))
    after = procfs.cpu_seconds(stat.thread)
    assert before is not None
    assert after is not None
    assert after > before
    assert procfs.cpu_seconds(Thread(2**22 + 1, 2**22 + 1, 0)) is None


def test_the_package_runs_as_a_command_and_says_what_is_missing() -> None:
    done = subprocess.run([sys.executable, "-m", "laxity", "host"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "--config FILE" in done.stderr
