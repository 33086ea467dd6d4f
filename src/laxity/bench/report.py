"""How a benchmark says what it ran: the machine, and its rows as a table or as JSON."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from laxity import __version__


def machine() -> dict[str, Any]:
    """What a reader needs to judge a number."""
    return {
        "laxity": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
    }


def describe(facts: Mapping[str, Any]) -> str:
    return (
        f"laxity {facts['laxity']} on {facts['python']}, {facts['system']}, "
        f"{facts['cores']} cores ({facts['processor']}), {facts['memory_gib']} GiB"
    )


def begin() -> tuple[Console, dict[str, Any]]:
    """A console that has said what machine this is."""
    facts = machine()
    # Piped into a file, a table must not be squeezed into 80 columns.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 180)
    console.print(describe(facts), style="dim")
    return console, facts


def command() -> str:
    """What was typed, as it can be typed again."""
    return shlex.join(["laxity", *sys.argv[1:]])


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n")


def publish(
    console: Console,
    out: Path,
    title: str,
    lines: Sequence[str],
    document: Mapping[str, Any],
    json: Path | None,
) -> None:
    """A page and its numbers in a folder: what was found, by which command, on what machine."""
    facts = machine()
    found = {"command": command(), "machine": facts, **document}
    write_json(out / "results.json", found)
    if json is not None:
        write_json(json, found)
    page = out / "report.md"
    page.write_text(
        "\n".join([f"# {title}", "", f"`{command()}`", "", describe(facts), "", *lines])
    )
    console.print(f"Report: {page}")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
