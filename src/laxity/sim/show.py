"""Answers and reports as tables, JSON and plots."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from laxity.core.durations import format_duration
from laxity.sim.files import Scenario
from laxity.sim.reproduce.report import Report, Verdict
from laxity.sim.results import JobResult
from laxity.sim.whatif import Answer

_STYLES = {
    Verdict.AGREES: "green",
    Verdict.DIRECTION: "yellow",
    Verdict.DISAGREES: "red",
    Verdict.SHOWN: "dim",
}


def print_reports(console: Console, reports: list[Report]) -> None:
    for report in reports:
        table = Table(title=f"{report.name}: {report.title} ({report.seconds:.1f} s)",
                      title_justify="left")  # fmt: skip
        for heading in ("claim", "paper", "here", "verdict"):
            table.add_column(heading, overflow="fold")
        notes = []
        for claim in report.claims:
            mark = ""
            if claim.why and claim.verdict is not Verdict.AGREES:
                if claim.why not in notes:
                    notes.append(claim.why)
                mark = f" [{notes.index(claim.why) + 1}]"
            style = _STYLES[claim.verdict]
            verdict = f"[{style}]{claim.verdict.value}[/]{escape(mark)}"
            table.add_row(claim.what, claim.text(claim.paper), claim.text(claim.ours), verdict)
        console.print(table)
        if report.note:
            console.print(f"  {report.note}")
        for number, note in enumerate(notes, 1):
            console.print(f"  {escape(f'[{number}]')} {note}")
        console.print("  " + ", ".join(str(path) for path in report.files), style="dim")
    tally = Counter(claim.verdict for report in reports for claim in report.claims)
    console.print(", ".join(f"{tally[verdict]} {verdict.value}" for verdict in Verdict))


def reports_json(reports: list[Report]) -> str:
    return json.dumps([report.as_json() for report in reports], indent=2)


def _seconds(value: float) -> str:
    return "-" if math.isnan(value) else format_duration(value)


def _share(job: JobResult) -> str:
    return "-" if math.isnan(job.success) else f"{job.success:.1%}"


def print_answer(console: Console, scenario: Scenario, answer: Answer, saved: Path | None) -> None:
    cluster = scenario.cluster
    table = Table(
        title=f"{cluster.nodes} nodes × {cluster.workers} cores, {answer.result.scheduler}",
        title_justify="left",
    )
    for heading in ("query", "target", "p50", "p99", "in time", "rows/s", "behind"):
        table.add_column(heading, justify="left" if heading == "query" else "right")
    for query in scenario.queries:
        job = answer.result.jobs[query.job.name]
        target = format_duration(job.target) if query.has_target else "best effort"
        own = job.latencies
        rate = f"{job.rows / answer.result.measured:,.0f}"
        behind = format_duration(job.behind) if job.behind > 0 else "-"
        table.add_row(
            job.name, target, _seconds(own.p50), _seconds(own.p99), _share(job), rate, behind
        )
    console.print(table)
    console.print(f"utilisation        {answer.result.busy:.0%}")
    enough = "none up to 4096" if answer.cores is None else str(answer.cores)
    console.print(f"cores that suffice {enough}")
    console.print(f"breaks first       {_break_text(answer)}")
    if saved is not None:
        console.print(f"plot               {saved}")


def _break_text(answer: Answer) -> str:
    if answer.breaks is None:
        return "nothing, up to 64 times the load"
    names = ", ".join(answer.breaks.queries)
    if answer.breaks.load == 1.0:
        return f"{names}: misses already at this load"
    return f"{names}, at {answer.breaks.load:.2f} times the load"


def answer_json(scenario: Scenario, answer: Answer, saved: Path | None) -> str:
    def number(value: float) -> float | None:
        return None if not math.isfinite(value) else float(f"{value:.6g}")

    queries: list[dict[str, Any]] = []
    for query in scenario.queries:
        job = answer.result.jobs[query.job.name]
        queries.append(
            {
                "name": job.name,
                "tenant": query.job.tenant,
                "target": job.target if query.has_target else None,
                "p50": number(job.latencies.p50),
                "p99": number(job.latencies.p99),
                "success": number(job.success),
                "behind": number(job.behind),
                "rows_per_second": number(job.rows / answer.result.measured),
            }
        )
    breaks = answer.breaks and {"load": answer.breaks.load, "queries": list(answer.breaks.queries)}
    return json.dumps(
        {
            "scheduler": answer.result.scheduler,
            "nodes": scenario.cluster.nodes,
            "cores": scenario.cluster.workers,
            "utilisation": number(answer.result.busy),
            "smallest_cores": answer.cores,
            "breaks_first": breaks,
            "queries": queries,
            "loads": [{"load": load, "success": shares} for load, shares in answer.loads],
            "plot": None if saved is None else str(saved),
        },
        indent=2,
    )


def plot_answer(scenario: Scenario, answer: Answer, path: Path) -> Path:
    """Latency against target, and how success falls as load grows."""
    from laxity.sim.reproduce import plots

    path.parent.mkdir(parents=True, exist_ok=True)
    with plots.figure(path, 2, title=_headline(scenario, answer)) as (bars, lines):
        for index, query in enumerate(scenario.queries):
            job = answer.result.jobs[query.job.name]
            if job.latencies.count:
                for offset, label, value, shade in (
                    (-0.2, "p50", job.latencies.p50, "#0b6e4f"),
                    (0.2, "p99", job.latencies.p99, "#9db4d8"),
                ):
                    bars.bar(index + offset, value, 0.4, color=shade, label=_once(bars, label))
            if query.has_target:
                bars.plot([index - 0.45, index + 0.45], [job.target] * 2, color="#c8553d",
                          label=_once(bars, "target"))  # fmt: skip
                lines.plot(
                    [load for load, _ in answer.loads],
                    [shares[job.name] for _, shares in answer.loads],
                    "o-",
                    label=job.name,
                )
        bars.set_xticks(range(len(scenario.queries)), [q.job.name for q in scenario.queries])
        bars.set_yscale("log")
        bars.set_ylabel("latency (s)")
        if _labels(bars):
            bars.legend(fontsize=8)
        if answer.breaks is not None:
            lines.axvline(answer.breaks.load, color="#c8553d", linestyle=":", linewidth=1.2)
        lines.set_xlabel("load, as a multiple of the file's")
        lines.set_ylabel("results in time (0 where input piles up)", fontsize=9)
        if _labels(lines):
            lines.legend(fontsize=8, loc="lower left")
    return path


def _labels(axis: Any) -> list[str]:
    return list(axis.get_legend_handles_labels()[1])


def _once(axis: Any, label: str) -> str | None:
    """A legend names each thing once."""
    return None if label in _labels(axis) else label


def _headline(scenario: Scenario, answer: Answer) -> str:
    cluster, breaks = scenario.cluster, answer.breaks
    suffice = "no number suffices" if answer.cores is None else f"{answer.cores} suffice"
    first = "nothing breaks" if breaks is None else f"{breaks.queries[0]} breaks first"
    at = "" if breaks is None else f", at {breaks.load:.2f} × the load"
    return f"{cluster.nodes} × {cluster.workers} cores, {suffice}; {first}{at}"
