"""`laxity top` and `laxity dashboard`: look at a running service by its address."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laxity.core.errors import LaxityError

Address = Annotated[
    str, typer.Argument(help="HOST:PORT, a port, or http(s)://… of what `laxity run` serves.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="A file with its token; needed beyond loopback, and for changes."),
]

DEFAULT = "127.0.0.1:8642"


class MissingPackageError(LaxityError, ImportError):
    """An extra that was not installed."""

    __str__ = Exception.__str__


def register(app: typer.Typer) -> None:
    app.command()(top)
    app.command()(dashboard)


def _columns(incomplete: str) -> list[str]:
    from laxity.server.terminal import COLUMNS

    return [column.name for column in COLUMNS if column.name.startswith(incomplete)]


def top(
    address: Address = DEFAULT,
    token_file: TokenFile = None,
    sort: Annotated[
        str,
        typer.Option(
            help="name, tenant, state, target, p50, p99, met, laxity or rows.",
            autocompletion=_columns,
        ),
    ] = "target",
    filter: Annotated[  # noqa: A002  # the flag's name
        str, typer.Option(help="Only queries whose name, tenant or state contains this.")
    ] = "",
    every: Annotated[str, typer.Option(help="How often to look.")] = "1s",
    once: Annotated[bool, typer.Option("--once", help="Print the table once and leave.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON once and leave.")] = False,
) -> None:
    """All queries live in the terminal: targets, latencies, laxity, who is in whose way.

    Keys: s sorts by the next column, r reverses, / filters, p pauses or resumes the chosen query,
    q leaves. Without a terminal, or with --once, the table is printed once.
    """
    from laxity.core.durations import parse_target
    from laxity.server.access import read_token
    from laxity.server.client import RemoteService
    from laxity.server.terminal import show

    token = None if token_file is None else read_token(token_file)
    service = RemoteService(address, token)
    period = parse_target(every, name="every")
    show(service, sort=sort, wanted=filter, period=period, once=once, as_json=json)


def dashboard(
    of: Address = DEFAULT,
    token_file: TokenFile = None,
    address: Annotated[
        str, typer.Option(help="HOST:PORT to listen on; port 0 takes any that is free.")
    ] = "127.0.0.1:0",
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Serve a dashboard on this machine for a service that runs on another.

    Its token stays with this process; a browser here looks freely and needs one only to change.
    """
    import signal
    import threading
    import webbrowser

    from laxity.server.access import read_token
    from laxity.server.client import RemoteService

    try:
        from laxity.server.serving import Server
    except ImportError as error:
        raise MissingPackageError(
            f"{error.name} is missing: pip install 'laxity[server]'"
        ) from error
    token = None if token_file is None else read_token(token_file)
    service = RemoteService(of, token)
    service.overview()  # says at once if nobody is there
    done = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: done.set())
    with Server(service, address, token=token) as server:
        url = server.url if server.access.given else server.private_url
        typer.echo(f"dashboard of {service.address}: {url}", err=True)
        if open_browser:
            webbrowser.open(server.private_url)
        done.wait()
