"""Leader and metadata in a real ZooKeeper (Debian's package), as a plain process on loopback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.harness import Fleet
from agents.test_faults import exactly_once, runs_once
from laxity.fleet.client import Client
from laxity.fleet.refusals import StoreAwayError

JAR = Path("/usr/share/java/zookeeper.jar")
pytest.importorskip("kazoo")


class ZooKeeper:
    """One server; its data outlives it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port: int = free.getsockname()[1]
        self.hosts = f"127.0.0.1:{self._port}"
        (folder / "zoo.cfg").write_text(
            f"dataDir={folder}/data\nclientPort={self._port}\nclientPortAddress=127.0.0.1\n"
            "tickTime=500\nadmin.enableServer=false\n"
        )
        self.start()

    def start(self) -> None:
        # The jar names all it needs in its manifest; no service is started, no file of the
        # system's is written.
        command = ["java", "-Xmx128m", "-cp", f"/etc/zookeeper/conf:{JAR}"]
        command += ["-Dzookeeper.jmx.log4j.disable=true"]
        command += ["org.apache.zookeeper.server.ZooKeeperServerMain"]
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self._folder / "zoo.cfg")], stdout=log, stderr=log, cwd=self._folder
            )
        until = time.monotonic() + 60
        while not self._serves():
            told = (self._folder / "log").read_text()[-2000:]
            assert self._process.poll() is None, told
            assert time.monotonic() < until, f"ZooKeeper did not start: {told}"
            time.sleep(0.1)

    def _serves(self) -> bool:
        """It listens some time before it answers."""
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=5) as asking:
                asking.sendall(b"srvr")
                return b"Mode: standalone" in asking.makefile("rb").read()
        except OSError:
            return False

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZooKeeper]:
    if not JAR.exists() or shutil.which("java") is None:
        pytest.skip("no ZooKeeper here: apt-get install zookeeper")
    (tmp_path / "zookeeper").mkdir()
    server = ZooKeeper(tmp_path / "zookeeper")
    yield server
    server.kill()


@pytest.fixture
def fleet(zookeeper: ZooKeeper, fleet_of: Callable[..., Fleet]) -> Fleet:
    """Two orchestrators, two agents, all of them finding each other through ZooKeeper."""
    from laxity.fleet.zookeeper import ZooKeeperLocator

    fleet = fleet_of("copy")
    way = ("--zookeeper", zookeeper.hosts)
    fleet.orchestrator("first", str(fleet.pipeline), "--place", "copy=n1", *way)
    fleet.wait(lambda: "orchestrator at" in fleet.log("first"), "the first leads")
    fleet.client = Client(ZooKeeperLocator(zookeeper.hosts, (fleet.state / "token").read_text()))
    fleet.orchestrator("second", *way)
    fleet.agent("n1", *way)
    fleet.agent("n2", *way)
    fleet.up("n1", "n2")
    fleet.wait(lambda: fleet.runs("copy", "n1"), "copy runs")
    return fleet


def moves_on(fleet: Fleet, target: str) -> None:
    """What there is of the fleet works: a query is moved and loses nothing."""
    fleet.up("n1", "n2")
    runs_once(fleet, "copy")
    fleet.client.move("copy", target)
    fleet.wait(lambda: fleet.runs("copy", target), f"copy runs on {target}")
    fleet.feed("copy", 2)
    exactly_once(fleet, "copy")


@pytest.mark.slow
def test_a_standby_takes_over_with_what_zookeeper_kept(fleet: Fleet) -> None:
    leader = fleet.show()["url"]
    fleet.kill("first")
    fleet.wait(lambda: fleet.show().get("term") == 2, "the second leads")
    assert fleet.show()["url"] != leader
    assert fleet.query("copy")["target"] == 1.0  # no agent reports that: it was kept
    moves_on(fleet, "n2")


@pytest.mark.slow
def test_zookeeper_itself_goes_away_and_comes_back(fleet: Fleet, zookeeper: ZooKeeper) -> None:
    zookeeper.kill()
    fleet.feed("copy", 2)
    exactly_once(fleet, "copy")  # queries need neither of them
    time.sleep(12)  # longer than its sessions live
    zookeeper.start()
    fleet.wait(lambda: fleet.show().get("term"), "somebody leads again")
    moves_on(fleet, "n2")


@pytest.mark.slow
def test_a_ruler_that_was_succeeded_cannot_save(zookeeper: ZooKeeper) -> None:
    from laxity.fleet.zookeeper import ZooKeeperStore, connect

    old, new = (ZooKeeperStore(connect(zookeeper.hosts)) for _ in range(2))
    try:
        with pytest.raises(StoreAwayError, match="no rule has begun"):
            old.save({"by": "nobody"})
        assert old.begin_term() == 1
        old.save({"by": "old"})
        assert new.begin_term() == 2
        with pytest.raises(StoreAwayError, match="taken over"):
            old.save({"by": "old, again"})
        assert new.load() == {"by": "old"}
        new.save({"by": "new"})
        assert new.load() == {"by": "new"}
    finally:
        old.close()
        new.close()


def test_no_zookeeper_there() -> None:
    from laxity.fleet.zookeeper import connect

    with pytest.raises(StoreAwayError, match="no ZooKeeper answers"):
        connect("127.0.0.1:1", timeout=1.0)
