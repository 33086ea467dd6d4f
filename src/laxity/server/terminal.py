"""`laxity top`: every query in a terminal, live with Textual or once with Rich."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from rich.console import Console
from rich.table import Table
from rich.text import Text

from laxity.core.durations import format_duration
from laxity.core.errors import LaxityError
from laxity.server.service import Service
from laxity.server.snapshots import as_json
from laxity.server.views import Overview, QueryView


class TerminalError(LaxityError, ValueError):
    """A column that there is not, or a live view that cannot be had."""


def _seconds(value: float | None) -> str:
    return "–" if value is None else format_duration(value)


def _met(q: QueryView) -> str:
    return "–" if q.target is None or q.latency.met is None else f"{q.latency.met:.1%}"


def state_of(q: QueryView) -> str:
    """As it is shown: overload outranks what it does at the moment."""
    if q.overloaded and q.state not in ("failed", "restarting", "paused", "stopped"):
        return "overloaded"
    return q.state


def _behind(q: QueryView) -> str:
    worst = sorted(q.behind.items(), key=lambda item: -item[1])[:2]
    return ", ".join(f"{who} {format_duration(s)}" for who, s in worst if s >= 0.001) or "–"


def _batch(q: QueryView) -> str:
    return f"{q.rows_per_batch} ≤ {q.limit}" if q.limit else str(q.rows_per_batch)


def _last(value: float | None) -> float:
    return float("inf") if value is None else value


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    text: Callable[[QueryView], str]
    key: Callable[[QueryView], object]
    right: bool = True


COLUMNS = (
    Column("query", lambda q: q.name, lambda q: q.name, right=False),
    Column("tenant", lambda q: q.tenant, lambda q: q.tenant, right=False),
    Column("state", state_of, state_of, right=False),
    Column("target", lambda q: _seconds(q.target), lambda q: _last(q.target)),
    Column("p50", lambda q: _seconds(q.latency.p50), lambda q: -(q.latency.p50 or 0.0)),
    Column("p99", lambda q: _seconds(q.latency.p99), lambda q: -(q.latency.p99 or 0.0)),
    Column("met", _met, lambda q: _last(q.latency.met if q.target is not None else None)),
    Column("laxity", lambda q: _seconds(q.laxity), lambda q: _last(q.laxity)),
    Column("batch", _batch, lambda q: -q.rows_per_batch),
    Column("rows/s", lambda q: f"{q.rows_per_second:.0f}", lambda q: -q.rows_per_second),
    Column("waits behind", _behind, lambda q: -sum(q.behind.values()), right=False),
)
_ALIASES = {"name": "query", "rows": "rows/s", "behind": "waits behind"}


def column(name: str) -> Column:
    wanted = _ALIASES.get(name, name)
    for found in COLUMNS:
        if found.name == wanted:
            return found
    known = ", ".join(c.name for c in COLUMNS)
    raise TerminalError(f"there is no column {name!r} to sort by; there are {known}")


def arrange(
    queries: Iterable[QueryView], *, sort: Column, wanted: str = "", reverse: bool = False
) -> list[QueryView]:
    """Filtered and sorted; ties in the order of names."""
    text = wanted.lower()
    kept = [q for q in queries if text in f"{q.name} {q.tenant} {state_of(q)}".lower()]
    kept.sort(key=lambda q: q.name)
    kept.sort(key=lambda q: sort.key(q), reverse=reverse)  # type: ignore[arg-type,return-value]
    return kept


def headline(o: Overview) -> str:
    promised = [q for q in o.queries if q.target is not None and q.latency.met is not None]
    results = sum(q.latency.count for q in promised)
    met = sum((q.latency.met or 0.0) * q.latency.count for q in promised)
    share = f"{met / results:.1%} in time" if results else "no results yet"
    running = sum(q.running_tasks for q in o.queries)
    over = "" if o.overload is None else f"   overloaded: p95 {o.overload:.1f} × target"
    return (
        f"{o.application}   {o.policy}   {len(o.queries)} queries   {share}   "
        f"{running} tasks on {o.cores} cores{over}"
    )


_STYLES = {
    "failed": "bold red",
    "restarting": "bold red",
    "overloaded": "yellow",
    "running": "green",
    "held": "cyan",
    "paused": "dim",
    "stopped": "dim",
}


def cell(c: Column, q: QueryView) -> Text:
    text = Text(c.text(q), justify="right" if c.right else "left", no_wrap=True)
    if c.name == "state":
        text.stylize(_STYLES.get(state_of(q), ""))
    elif c.name == "met" and q.target is not None and q.latency.met is not None:
        text.stylize("red" if q.overloaded else "green" if q.latency.met >= 0.99 else "yellow")
    return text


def table(o: Overview, queries: Iterable[QueryView]) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for c in COLUMNS:
        shown.add_column(c.name, justify="right" if c.right else "left", no_wrap=True)
    for q in queries:
        shown.add_row(*(cell(c, q) for c in COLUMNS))
    return shown


def show(
    service: Service, *, sort: str, wanted: str, period: float, once: bool, as_json: bool
) -> None:
    by = column(sort)
    overview = service.overview()  # says at once if nobody is there
    if as_json:
        sys.stdout.write(_json(overview, by, wanted))
        return
    if once or not sys.stdout.isatty():
        # Nobody looks at a pipe's width: lines are as long as they need to be.
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
        console.print(headline(overview), soft_wrap=True, markup=False)
        console.print(table(overview, arrange(overview.queries, sort=by, wanted=wanted)))
        return
    try:
        from laxity.server.terminal_app import Top
    except ImportError as error:
        raise TerminalError(
            f"the live view needs {error.name}: pip install 'laxity[top]', or use --once"
        ) from error
    Top(service, sort=by, wanted=wanted, period=period).run()


def _json(overview: Overview, by: Column, wanted: str) -> str:
    kept = tuple(arrange(overview.queries, sort=by, wanted=wanted))
    return as_json(replace(overview, queries=kept)).decode() + "\n"
