"""`laxity agent`: a Spark application of a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laxity.fleet.cli import _DEFAULT_DIR, StateDir, TokenFile, Url, ZooKeeper, connect


def register(app: typer.Typer) -> None:
    app.command()(agent)


def agent(
    name: Annotated[str, typer.Option(help="Its name in the fleet; unique.")],
    state_dir: StateDir = _DEFAULT_DIR,
    url: Url = None,
    token_file: TokenFile = None,
    zookeeper: ZooKeeper = None,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[*]",
    memory: Annotated[str, typer.Option(help="Memory of the driver.")] = "1g",
    conf: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE for Spark, any number of times.")
    ] = None,
    checkpoints: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the checkpoints; the same for all agents, on a store all see."
        ),
    ] = None,
    warm: Annotated[bool, typer.Option(help="Warm up before the first query.")] = True,
    ttl: Annotated[
        str, typer.Option(help="Silence after which another may take its queries over.")
    ] = "10s",
    period: Annotated[str, typer.Option(help="Between two reports.")] = "1s",
    cooling_down: Annotated[
        str, typer.Option(help="How long it asks for no move after one.")
    ] = "30s",
) -> None:
    """Run a Spark application that takes its queries from the fleet, until stopped."""
    import logging
    import signal

    from laxity.core.durations import parse_target
    from laxity.fleet.agent import Agent, AgentSettings
    from laxity.fleet.load import NodeLoad, default_decisions
    from laxity.fleet.refusals import RefusedError
    from laxity.spark.agent.engine import SparkEngine
    from laxity.spark.agent.session import make_session

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    settings = {}
    for item in conf or ():
        key, found, value = item.partition("=")
        if not found:
            raise RefusedError(f"--conf takes KEY=VALUE, got {item!r}")
        settings[key] = value
    spark = make_session(name, master, memory, settings)
    engine = SparkEngine(
        spark, checkpoints=None if checkpoints is None else checkpoints.absolute(), warm=warm
    )
    seconds = parse_target(period, name="period")
    cool = parse_target(cooling_down, name="cooling-down")
    one = Agent(
        name,
        engine,
        connect(state_dir, url, token_file, zookeeper),
        AgentSettings(period=seconds, ttl=parse_target(ttl, name="ttl")),
        assess=NodeLoad(name, default_decisions(cooling_down=cool), step=seconds),
    )
    for what in (signal.SIGTERM, signal.SIGINT):
        signal.signal(what, lambda *_: one.stop())
    typer.echo(f"{name}: Spark {engine.version} on {master}, ready")
    one.run()
