"""An orchestrator in this process, put together from its parts."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

from laxity.fleet.client import Client, FixedLocator
from laxity.fleet.election import Election, FolderElection, make_token
from laxity.fleet.orchestrator import OrchestratorSettings
from laxity.fleet.service import OrchestratorService
from laxity.fleet.store import MetadataStore, SqliteStore


def serve(
    pipelines: list[dict[str, Any]],
    *,
    state_dir: Path,
    host: str = "127.0.0.1",
    port: int = 0,
    nodes: int = 1,
    moves: bool = True,
    zookeeper: str | None = None,
    lost_after: float = 12.0,
    cooling_down: float = 30.0,
) -> None:
    """Blocks until a signal. Prints the address once it leads."""
    token = make_token(state_dir)
    store: MetadataStore
    election: Election
    if zookeeper is None:
        store, election = SqliteStore(state_dir / "fleet.db"), FolderElection(state_dir)
    else:
        from laxity.fleet.zookeeper import ZooKeeperElection, ZooKeeperStore, connect

        session = connect(zookeeper)
        store, election = ZooKeeperStore(session), ZooKeeperElection(session)
    settings = OrchestratorSettings(
        nodes=nodes,
        lost_after=lost_after,
        silent_after=lost_after / 3,
        learn_for=min(3.0, lost_after / 3),
    )
    advise = None
    if moves:
        from laxity.fleet.load import Adviser, default_decisions

        advise = Adviser(default_decisions(cooling_down=cooling_down))
    service = OrchestratorService(
        store, election, token, host=host, port=port, settings=settings, advise=advise
    )
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: service.stop())

    def submit(url: str) -> None:
        client = Client(FixedLocator([url], token))
        for pipeline in pipelines:
            client.submit(pipeline)

    def ready(url: str) -> None:
        print(f"orchestrator at {url}, state in {state_dir}", flush=True)
        threading.Thread(target=submit, args=(url,), daemon=True).start()

    service.serve(ready)
