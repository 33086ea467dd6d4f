"""`laxity fleet …`: start an orchestrator, place queries, look, move, drain."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.status import Status

    from laxity.fleet.client import Client

fleet_app = typer.Typer(
    help="Queries on a fleet of Spark applications: placed, watched, moved.",
    no_args_is_help=True,
)

StateDir = Annotated[
    Path, typer.Option("--state-dir", envvar="LAXITY_FLEET", help="Folder of the fleet.")
]
Url = Annotated[
    str | None, typer.Option(help="Address of the orchestrator, if not on this machine.")
]
TokenFile = Annotated[Path | None, typer.Option(help="The fleet's token; with --url.")]
ZooKeeper = Annotated[
    str | None, typer.Option(help="host:port,… of a ZooKeeper that keeps leader and metadata.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Until it is done.")]

_DEFAULT_DIR = Path.home() / ".laxity" / "fleet"


def register(app: typer.Typer) -> None:
    app.add_typer(fleet_app, name="fleet")


def connect(
    state_dir: Path, url: str | None, token_file: Path | None, zookeeper: str | None = None
) -> Client:
    """A client by whichever way was named."""
    from laxity.fleet.client import Client, FixedLocator, FolderLocator, read_token

    if zookeeper is not None:
        from laxity.fleet.zookeeper import ZooKeeperLocator

        return Client(ZooKeeperLocator(zookeeper, read_token(token_file or state_dir / "token")))
    if url is not None:
        token = read_token(token_file or state_dir / "token")
        return Client(FixedLocator(url.split(","), token))
    return Client(FolderLocator(state_dir))


@fleet_app.command()
def start(
    pipeline: Annotated[
        list[Path] | None, typer.Argument(help="Pipeline files whose queries to place.")
    ] = None,
    state_dir: StateDir = _DEFAULT_DIR,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 0,
    nodes: Annotated[int, typer.Option(min=1, help="Agents to wait for before placing.")] = 1,
    place: Annotated[
        list[str] | None, typer.Option(help="QUERY=NODE, any number of times.")
    ] = None,
    moves: Annotated[
        bool, typer.Option("--moves/--no-moves", help="Move queries by their interference.")
    ] = True,
    zookeeper: ZooKeeper = None,
    lost_after: Annotated[
        str, typer.Option(help="Silence after which an agent's queries are offered to others.")
    ] = "12s",
    cooling_down: Annotated[
        str, typer.Option(help="How long a node is left alone after a move.")
    ] = "30s",
) -> None:
    """Run an orchestrator until stopped. A second one stands by until the first is gone."""
    from laxity.core.durations import parse_target
    from laxity.fleet.serve import serve

    serve(
        [describe(path, place or []) for path in pipeline or ()],
        state_dir=state_dir,
        host=host,
        port=port,
        nodes=nodes,
        moves=moves,
        zookeeper=zookeeper,
        lost_after=parse_target(lost_after, name="lost-after"),
        cooling_down=parse_target(cooling_down, name="cooling-down"),
    )


def describe(path: Path, place: list[str]) -> dict[str, Any]:
    """A pipeline file as the orchestrator wants to know it."""
    from laxity.fleet.refusals import RefusedError
    from laxity.pipeline import load_pipeline

    loaded = load_pipeline(path)
    where: dict[str, str] = {}
    for item in place:
        query, found, node = item.partition("=")
        if not found or not node:
            raise RefusedError(f"--place takes QUERY=NODE, got {item!r}")
        if query in {q.name for q in loaded.queries}:
            where[query] = node
    return {
        "pipeline": str(path.resolve()),
        "digest": loaded.digest,
        "queries": [{"name": q.name, "target": q.target} for q in loaded.queries],
        "place": where,
    }


@fleet_app.command()
def place(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline file.")],
    at: Annotated[list[str] | None, typer.Option(help="QUERY=NODE, any number of times.")] = None,
    state_dir: StateDir = _DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
    zookeeper: ZooKeeper = None,
) -> None:
    """Give a running fleet the queries of a pipeline file."""
    found = describe(pipeline, at or [])
    connect(state_dir, url, token_file, zookeeper).submit(found)
    typer.echo(f"{len(found['queries'])} queries of {pipeline} are being placed")


@fleet_app.command()
def show(
    state_dir: StateDir = _DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
    zookeeper: ZooKeeper = None,
    as_json: AsJson = False,
) -> None:
    """Nodes, queries and moves, as far as they are known."""
    fleet = connect(state_dir, url, token_file, zookeeper).fleet()
    if as_json:
        typer.echo(json.dumps(fleet, indent=2))
        return
    from laxity.fleet.table import print_fleet

    print_fleet(fleet)


@fleet_app.command()
def move(
    query: Annotated[str, typer.Argument(help="Its name.")],
    node: Annotated[str, typer.Argument(help="Name of an agent.")],
    state_dir: StateDir = _DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
    zookeeper: ZooKeeper = None,
    wait: Wait = True,
) -> None:
    """Move a query, with its state, to another node."""
    client = connect(state_dir, url, token_file, zookeeper)
    began = client.move(query, node)
    if not wait:
        typer.echo(f"{query}: {began['source']} → {node} has begun")
        return
    going = f"{query}: {began['source']} → {node}"
    with _status(f"{going}, {_STEPS['prepare']}") as status:
        done = await_move(
            client,
            query,
            began["number"],
            on_step=lambda step: status.update(f"{going}, {_STEPS.get(step, step)}"),
        )
    if done["step"] != "done":
        from laxity.fleet.refusals import RefusedError

        raise RefusedError(done["why"])
    typer.echo(_outcome(done))


_STEPS = {
    "prepare": "the target prepares, the source runs on",
    "stop": "the source ends its batch",
    "start": "the target resumes",
}


def _status(text: str) -> Status:
    """On a terminal alone; what is done is told on stdout."""
    from rich.console import Console

    return Console(stderr=True, highlight=False).status(text)


def _outcome(move: dict[str, Any]) -> str:
    if move["step"] != "done":
        return f"{move['query']} stays on {move['source']}: {move['why']}"
    pause = "" if move["pause"] is None else f"; it paused for {move['pause']:.2f} s"
    return f"{move['query']} runs on {move['target']}{pause}"


def await_move(
    client: Client,
    query: str,
    number: int,
    *,
    seconds: float = 600.0,
    on_step: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """The move once it has ended, well or not."""
    from laxity.fleet.refusals import FleetError, OrchestratorUnreachableError

    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            for found in client.fleet()["moves"]:
                if found["query"] == query and found["number"] == number:
                    if found["ended"]:
                        return found  # type: ignore[no-any-return]
                    on_step(found["step"])
        except OrchestratorUnreachableError:
            pass  # it may be restarting
        time.sleep(0.1)
    raise FleetError(f"the move of {query} has not ended within {seconds:.0f} s")


@fleet_app.command()
def drain(
    node: Annotated[str, typer.Argument(help="Name of an agent.")],
    state_dir: StateDir = _DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
    zookeeper: ZooKeeper = None,
    undo: Annotated[bool, typer.Option("--undo", help="Open the node again.")] = False,
    wait: Wait = True,
) -> None:
    """Move everything away from a node, and place nothing there."""
    client = connect(state_dir, url, token_file, zookeeper)
    before = {m["number"] for m in client.fleet()["moves"] if m["ended"]}
    client.drain(node, on=not undo)
    if wait and not undo:
        _await_empty(client, node, before)
    typer.echo(f"{node} is {'open again' if undo else 'empty' if wait else 'being drained'}")


def _await_empty(client: Client, node: str, told: set[int]) -> None:
    """Tells of each query that leaves, and of those that cannot."""
    with _status(f"{node} is being drained") as status:
        while True:
            fleet = client.fleet()
            for move in reversed(fleet["moves"]):
                if move["ended"] and move["source"] == node and move["number"] not in told:
                    told.add(move["number"])
                    typer.echo(_outcome(move))
            left = [q for q in fleet["queries"] if q["node"] == node and q["state"] != "stopped"]
            if not left:
                return
            states = ", ".join(f"{q['name']} ({q['state']})" for q in left)
            status.update(f"{node} still has {states}")
            time.sleep(0.2)


@fleet_app.command()
def retire(
    query: Annotated[str, typer.Argument(help="Its name.")],
    state_dir: StateDir = _DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
    zookeeper: ZooKeeper = None,
) -> None:
    """Stop a query for good; its checkpoint stays."""
    connect(state_dir, url, token_file, zookeeper).retire(query)
    typer.echo(f"{query} is being stopped")
