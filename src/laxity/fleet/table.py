"""`laxity fleet show` for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from laxity.core.durations import format_duration


def print_fleet(fleet: dict[str, Any], console: Console | None = None) -> None:
    console = console or Console(highlight=False)
    nodes = Table("node", "state", "heard", "Spark", "cores", "busy", "of it others", "runs")
    for n in fleet["nodes"]:
        host = n["host"]
        state = n["reach"] + (", draining" if n["draining"] else "")
        busy = f"{host['busy']:.1f}/{host['cores']}" if host else "–"
        others = f"{host['external_cpu']:.0%}" if host else "–"
        heard = f"{n['heard']:.0f} s ago"
        runs = str(len(n["runs"]))
        nodes.add_row(n["name"], state, heard, n["version"], str(n["cores"]), busy, others, runs)
    queries = Table("query", "node", "state", "target", "p50", "met", "rows/s", "score")
    scores = {q: s for n in fleet["nodes"] for q, s in n["load"].get("scores", {}).items()}
    for q in fleet["queries"]:
        m = q["measures"]
        state = q["state"]
        if q["moving"]:
            state += f" → {q['moving']['to']} ({q['moving']['step']})"
        if q["reason"]:
            state += f": {q['reason']}"
        queries.add_row(
            q["name"],
            q["node"] or "–",
            state,
            "–" if q["target"] is None else format_duration(q["target"]),
            "–" if m.get("latency") is None else format_duration(m["latency"]),
            "–" if m.get("met") is None else f"{m['met']:.0%}",
            "–" if not m else f"{m['rows_per_second']:.0f}",
            "–" if q["name"] not in scores else f"{scores[q['name']]:.3g}",
        )
    if fleet["nodes"]:
        console.print(nodes)
    else:
        console.print("no agent has reported yet; start one with: laxity agent --name n1")
    if fleet["queries"]:
        console.print(queries)
    else:
        console.print("no queries yet; place some with: laxity fleet place FILE")
    for m in fleet["moves"][:5]:
        pause = "" if m["pause"] is None else f", paused {m['pause']:.2f} s"
        why = f": {m['why']}" if m["why"] else ""
        by = "" if m["by"] == "user" else f" by the {m['by']}"
        console.print(f"{m['query']}: {m['source']} → {m['target']}{by}, {m['step']}{pause}{why}")
    for n in fleet["nodes"]:
        for notice in n["load"].get("notices", ()):
            console.print(f"{n['name']}: {notice}", style="yellow")
    if fleet["learning"]:
        console.print("the orchestrator has just started and listens to agents")
