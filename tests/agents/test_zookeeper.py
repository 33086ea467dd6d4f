"""Leader and metadata in a real ZooKeeper (Debian's package), on loopback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.harness import Fleet
from laxity.fleet.client import Client
from laxity.fleet.refusals import StoreAwayError

JAR = Path("/usr/share/java/zookeeper.jar")
pytest.importorskip("kazoo")


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not JAR.exists() or shutil.which("java") is None:
        pytest.skip("no ZooKeeper here: apt-get install zookeeper")
    folder = tmp_path_factory.mktemp("zookeeper")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "zoo.cfg"
    config.write_text(
        f"dataDir={folder}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        f"tickTime=500\nadmin.enableServer=false\n"
    )
    jars = "/etc/zookeeper/conf:/usr/share/java/*"
    command = ["java", "-Xmx128m", "-cp", jars, "org.apache.zookeeper.server.ZooKeeperServerMain"]
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen([*command, str(config)], stdout=log, stderr=log)
    try:
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert server.poll() is None, (folder / "log").read_text()[-2000:]
                assert time.monotonic() < until, "ZooKeeper did not start"
                time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@pytest.mark.slow
def test_a_standby_takes_over_with_what_zookeeper_kept(
    zookeeper: str, fleet_of: Callable[..., Fleet]
) -> None:
    from laxity.fleet.zookeeper import ZooKeeperLocator, ZooKeeperStore, connect

    fleet = fleet_of("copy")
    fleet.orchestrator("first", str(fleet.pipeline), "--zookeeper", zookeeper)
    fleet.wait(lambda: "orchestrator at" in fleet.log("first"), "the first leads")
    fleet.client = Client(ZooKeeperLocator(zookeeper, (fleet.state / "token").read_text()))
    fleet.orchestrator("second", "--zookeeper", zookeeper)
    url = fleet.show()["url"]
    fleet.agent("n1", "--url", url)  # and the agent's own way is tested with the command
    fleet.wait(lambda: fleet.runs("copy", "n1"), "copy runs")
    old = ZooKeeperStore(connect(zookeeper))
    fleet.kill("first")
    fleet.wait(lambda: fleet.show().get("term") == 2, "the second leads")
    assert fleet.show()["queries"][0]["name"] == "copy"
    with pytest.raises(StoreAwayError, match="taken over"):
        old.save({})
    old.close()


def test_no_zookeeper_there() -> None:
    from laxity.fleet.zookeeper import connect

    with pytest.raises(StoreAwayError, match="no ZooKeeper answers"):
        connect("127.0.0.1:1", timeout=1.0)
