"""`laxity host`: the middleware as a command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from laxity.host.metrics import Snapshot

host_app = typer.Typer(
    help="Operating-system priorities for streaming queries on this machine.",
    invoke_without_command=True,
)

_DRY_LOOKS = 5
"""Periods a dry run waits until metrics are known."""

StateDir = Annotated[
    Path | None, typer.Option("--state-dir", help="Where journal and status files live.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def register(app: typer.Typer) -> None:
    app.add_typer(host_app, name="host")


@host_app.callback()
def host(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option(help="A TOML file; see docs/host.md.")] = None,
    engine: Annotated[str | None, typer.Option(help="spark, flink or generic.")] = None,
    url: Annotated[str | None, typer.Option(help="The engine's REST API.")] = None,
    process: Annotated[
        str | None, typer.Option(help="Pattern of the engine's command lines.")
    ] = None,
    thread: Annotated[
        str | None,
        typer.Option(help="Pattern of thread names, with groups query and operator (generic)."),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Prometheus page or JSON file (generic).")
    ] = None,
    policy: Annotated[
        str, typer.Option(help="qs, hr, fcfs, random, constant or laxity.")
    ] = "laxity",
    translator: Annotated[
        str, typer.Option(help="nice, shares, quota, rr or shares+nice.")
    ] = "nice",
    period: Annotated[str, typer.Option(help="How often to decide.")] = "1s",
    target: Annotated[
        list[str] | None, typer.Option(help="QUERY=DURATION, any number of times.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of this loop's journal.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be set; set nothing.")
    ] = False,
    duration: Annotated[
        str | None, typer.Option(help="Stop after this long; otherwise at Ctrl-C.")
    ] = None,
    state_dir: StateDir = None,
) -> None:
    """Schedule the queries of one or several engines, until stopped; then put everything back."""
    if context.invoked_subcommand is not None:
        return
    from laxity.core.durations import parse_duration, parse_target
    from laxity.host.config import HostConfig, load_config
    from laxity.host.errors import InvalidHostConfigError

    if config is not None:
        settings = load_config(config)
    elif engine is not None:
        flags = {"kind": engine, "url": url, "process": process, "thread": thread}
        flags["metrics"] = metrics
        settings = HostConfig(
            engines=({key: value for key, value in flags.items() if value is not None},),
            policies=({"kind": policy, "translator": translator},),
            targets=dict(_target(item) for item in target or ()),
            period=parse_target(period, name="period"),
        )
    else:
        raise InvalidHostConfigError("say what to schedule: --config FILE, or --engine KIND")
    seconds = parse_duration(duration, name="duration") if duration else None
    _run(settings, name, dry_run, seconds, state_dir)


def _target(item: str) -> tuple[str, str]:
    from laxity.host.errors import InvalidHostConfigError

    query, equals, duration = item.rpartition("=")
    if not equals:
        raise InvalidHostConfigError(f"--target {item!r} is not of the form QUERY=DURATION")
    return query, duration


def _run(
    settings: Any, name: str | None, dry_run: bool, seconds: float | None, state_dir: Path | None
) -> None:
    import signal
    import time

    from rich.console import Console

    from laxity.host.config import make_bindings, make_drivers
    from laxity.host.runner import HostRunner, prefer_this_process

    notes = Console(stderr=True, highlight=False)
    out = Console(highlight=False, soft_wrap=True)
    would: list[str] = []
    runner = HostRunner(
        make_drivers(settings),
        lambda kernel, journal, notices: make_bindings(settings, kernel, journal, notices),
        name=name or settings.name,
        directory=state_dir,
        timeout=settings.period,
        say=lambda message: notes.print(message, soft_wrap=True),
        dry_run=would.append if dry_run else None,
    )
    if dry_run:
        # Nothing was changed, so there is nothing to put back.
        loop = runner.__enter__().loop
        loop.look()
        for _ in range(_DRY_LOOKS):
            time.sleep(settings.period)
            step = loop.step()
            if would or not step.snapshots:
                break
        for line in explained(would, step.snapshots.values()):
            out.print(line, markup=False)
        if not would:
            out.print("nothing would be changed")
        if not step.snapshots:
            raise typer.Exit(1)
        return
    # Blocked in all threads and waited for here: a handler could find the loop's locks held.
    endings = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, endings)
    prefer_this_process()  # before the loop's threads are made, which inherit it
    with runner:
        notes.print(f"scheduling every {settings.period:g} s; Ctrl-C puts everything back")
        runner.start()
        if seconds is None:
            signal.sigwait(endings)
        else:
            signal.sigtimedwait(endings, seconds)


def explained(lines: Iterable[str], snapshots: Iterable[Snapshot]) -> Iterator[str]:
    """Lines of a dry run, and whose the threads in them are."""
    import re

    owner = {
        thread.tid: f"{operator.id} ({thread.name})"
        for snapshot in snapshots
        for operator in snapshot.deployment.physical
        for thread in operator.threads
    }
    for line in lines:
        named = re.search(r"\bthread (\d+)|/(?:tasks|cgroup\.threads) <- (\d+)", line)
        whose = owner.get(int(named[1] or named[2])) if named else None
        yield f"{line}   {whose}" if whose else line


@host_app.command()
def status(as_json: AsJson = False, state_dir: StateDir = None) -> None:
    """What the host loops of this machine are doing."""
    import json
    import time

    from rich.console import Console
    from rich.table import Table

    from laxity.host.journal import default_directory
    from laxity.host.runner import read_statuses

    found = read_statuses(state_dir or default_directory())
    if as_json:
        typer.echo(json.dumps(found))
        return
    console = Console()
    if not found:
        console.print("no host loop is running")
        return
    table = Table("loop", "pid", "policy", "translator", "engine", "queries", "threads", "CPU")
    for entry in found:
        age = time.time() - entry["at"]
        state = str(entry["pid"]) if entry["alive"] else f"{entry['pid']} (died {age:.0f} s ago)"
        for row in range(max(len(entry["policies"]), len(entry["engines"]))):
            policies, engines = entry["policies"][row:], entry["engines"][row:]
            table.add_row(
                *((entry["name"], state) if row == 0 else ("", "")),
                *((policies[0]["policy"], policies[0]["translator"]) if policies else ("", "")),
                *(
                    (engines[0]["name"], str(engines[0]["queries"]), str(engines[0]["threads"]))
                    if engines
                    else ("", "", "")
                ),
                f"{entry['cpu_percent']:.2f} %" if row == 0 else "",
            )
    console.print(table)
    for entry in found:
        for problem in entry["problems"]:
            console.print(f"{entry['name']}: {problem}", soft_wrap=True)
        if not entry["alive"]:
            console.print("put back what it left with: laxity host restore")


@host_app.command()
def restore(as_json: AsJson = False, state_dir: StateDir = None) -> None:
    """Put back what loops that died have left (starting a loop does it too)."""
    import json

    from laxity.host.journal import default_directory, recover
    from laxity.host.kernel import LinuxKernel
    from laxity.host.runner import forget_dead

    directory = state_dir or default_directory()
    report = recover(LinuxKernel(), directory)
    forget_dead(directory)
    if as_json:
        typer.echo(json.dumps({"restored": report.restored, "failed": report.failed}))
    else:
        typer.echo(f"{report.restored} settings put back")
        for failure in report.failed:
            typer.echo(f"failed: {failure}")
    if report.failed:
        raise typer.Exit(1)
