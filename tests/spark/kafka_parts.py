"""A real Kafka for tests: a broker of one node, and the jars that let Spark talk to it.

Both come from Maven Central, once, into a cache folder. `Unavailable` says why they could not.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CENTRAL = "https://repo.maven.apache.org/maven2"
BROKER = "4.1.1"
CONNECTOR, TOKENS = "spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13"
# Of what the connector depends on, the part that Spark does not bring itself.
_ON_SPARKS_SIDE = (CONNECTOR, TOKENS, "kafka-clients", "commons-pool2")


class Unavailable(Exception):  # noqa: N818  # a reason to skip, not an error
    pass


def cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "laxity" / "kafka"


def newest_up_to(wanted: str, published: list[str]) -> str | None:
    """The newest release that is not newer than `wanted`. Central gets a connector with each Spark
    version, but mirrors of it lag behind; an earlier one of the same major version will do."""

    def parts(version: str) -> tuple[int, ...]:
        return tuple(int(part) for part in version.split("."))

    releases = [v for v in published if re.fullmatch(r"\d+(\.\d+)+", v)]
    fitting = [v for v in releases if parts(v) <= parts(wanted) and v[:2] == wanted[:2]]
    return max(fitting, key=parts, default=None)


def published(artifact: str) -> list[str]:
    address = f"{CENTRAL}/org/apache/spark/{artifact}/maven-metadata.xml"
    try:
        with urllib.request.urlopen(address, timeout=20) as answer:
            return re.findall(r"<version>([^<]+)</version>", answer.read().decode())
    except (urllib.error.URLError, OSError) as error:
        raise Unavailable(f"Maven Central cannot be reached: {error}") from error


def connector_jars(spark_version: str) -> list[Path]:
    folder = cache() / f"connector-{spark_version}"
    if not folder.exists():
        chosen = {}
        for artifact in (CONNECTOR, TOKENS):
            version = newest_up_to(spark_version, published(artifact))
            if version is None:
                raise Unavailable(f"{artifact} is not published for Spark {spark_version}")
            chosen[artifact] = version
        managed = _dependency("org.apache.spark", TOKENS, chosen[TOKENS])
        wanted = _dependency(
            "org.apache.spark", CONNECTOR, chosen[CONNECTOR], without="org.apache.hadoop"
        )
        _copy(wanted, managed, folder, only=_ON_SPARKS_SIDE)
    return sorted(folder.glob("*.jar"))


def broker_jars() -> Path:
    folder = cache() / f"broker-{BROKER}"
    if not folder.exists():
        _copy(_dependency("org.apache.kafka", "kafka_2.13", BROKER), "", folder)
    return folder


def _dependency(group: str, artifact: str, version: str, without: str = "") -> str:
    left_out = (
        f"<exclusions><exclusion><groupId>{without}</groupId><artifactId>*</artifactId></exclusion>"
        "</exclusions>"
        if without
        else ""
    )
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{left_out}</dependency>"
    )


def _copy(wanted: str, managed: str, folder: Path, only: tuple[str, ...] = ()) -> None:
    """Resolve with Maven and copy the jars, all or none."""
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("Maven (mvn) is not installed; it resolves Kafka's jars")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        # Spark's own build names a mirror that not everybody can reach: by its id, it is Central.
        (Path(scratch) / "pom.xml").write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            "<groupId>laxity</groupId><artifactId>kafka</artifactId><version>1</version>"
            "<packaging>pom</packaging><repositories><repository>"
            f"<id>gcs-maven-central-mirror</id><url>{CENTRAL}</url></repository></repositories>"
            f"<dependencyManagement><dependencies>{managed}</dependencies></dependencyManagement>"
            f"<dependencies>{wanted}</dependencies></project>"
        )
        command = [maven, "-B", "-q", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        if only:
            command.append(f"-DincludeArtifactIds={','.join(only)}")
        command.append("-DoutputDirectory=jars")
        try:
            done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=280)
        except subprocess.TimeoutExpired as error:
            raise Unavailable("Maven did not finish within 280 s") from error
        if done.returncode:
            said = [line for line in done.stdout.splitlines() if line.startswith("[ERROR]")]
            raise Unavailable(f"Maven failed: {' '.join(said[:1])[:300]}")
        with contextlib.suppress(OSError):  # somebody else was faster
            (Path(scratch) / "jars").rename(folder)


class Broker:
    """One Kafka node (broker and controller in one process) on loopback."""

    def __init__(self, process: subprocess.Popen[bytes], address: str) -> None:
        self._process = process
        self.address = address

    @property
    def options(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.address}

    def create(self, **partitions: int) -> None:
        from kafka import KafkaAdminClient
        from kafka.admin import NewTopic

        admin = KafkaAdminClient(bootstrap_servers=self.address)
        try:
            admin.create_topics([NewTopic(name, count, 1) for name, count in partitions.items()])
        finally:
            admin.close()

    def producer(self) -> Any:
        from kafka import KafkaProducer

        return KafkaProducer(bootstrap_servers=self.address, acks="all", linger_ms=5)

    def send(self, topic: str, values: list[str], partitions: int) -> None:
        """In turns to each partition, and only once the broker has them all."""
        producer = self.producer()
        try:
            for value, partition in zip(values, itertools.cycle(range(partitions)), strict=False):
                producer.send(topic, value.encode(), partition=partition)
            producer.flush()
        finally:
            producer.close()

    def count(self, topic: str) -> int:
        with self._consumer(topic) as (consumer, partitions):
            return sum(consumer.end_offsets(partitions).values())

    def read(self, topic: str) -> list[Any]:
        """Every record of a topic that is there now."""
        with self._consumer(topic) as (consumer, partitions):
            ends = consumer.end_offsets(partitions)
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            found: list[Any] = []
            until = time.monotonic() + 60
            while any(consumer.position(p) < ends[p] for p in partitions):
                assert time.monotonic() < until, f"{topic} could not be read to its end"
                for records in consumer.poll(500).values():
                    found += records
            return found

    @contextlib.contextmanager
    def _consumer(self, topic: str) -> Iterator[tuple[Any, list[Any]]]:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=self.address, enable_auto_commit=False)
        try:
            numbers = consumer.partitions_for_topic(topic) or ()
            yield consumer, [TopicPartition(topic, number) for number in numbers]
        finally:
            consumer.close()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def start_broker(folder: Path, wait_for: Callable[..., Any]) -> Broker:
    jars = broker_jars()
    node, controller = _free_ports(2)
    address = f"127.0.0.1:{node}"
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://{address},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://{address}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "data"),
        "auto.create.topics.enable": "false",
        # When the broker had it, whatever kept the client from sending it.
        "log.message.timestamp.type": "LogAppendTime",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    java = ["java", "-Xmx256m", "-cp", f"{jars}/*"]
    identity = "laxityTestClusterId000"  # 22 characters, as Kafka's own
    formatted = subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "-t", identity, "-c", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert formatted.returncode == 0, formatted.stderr[-2000:]
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(file)], stdout=log, stderr=subprocess.STDOUT
        )
    broker = Broker(process, address)
    try:
        wait_for(lambda: process.poll() is not None or _answers(node), "the broker to answer")
        assert process.poll() is None, (folder / "broker.log").read_text()[-2000:]
    except BaseException:
        broker.stop()
        raise
    return broker


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
