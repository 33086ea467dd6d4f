"""The contest's pictures."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laxity.bench.contest import Outcome
from laxity.bench.density import Curve, Probe

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#c44e52", "#4c72b0", "#dd8452", "#8172b3", "#55a868", "#937860", "#da8bc3", "#8c8c8c")
DPI = 120


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")  # no display is needed, none is looked for
    from matplotlib import pyplot

    return pyplot


def save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=DPI)
    _pyplot().close(figure)


def draw_latencies(outcomes: Mapping[str, Outcome], path: Path) -> None:
    """Every answer over time, and the distribution, of modes by title."""
    figure, axes = _pyplot().subplots(1, 2, figsize=(11, 4), width_ratios=(2, 1))
    over_time: Axes = axes[0]
    shares: Axes = axes[1]
    target = 0.0
    for number, (title, outcome) in enumerate(outcomes.items()):
        colour = COLOURS[number % len(COLOURS)]
        target = outcome.target
        answers = sorted(outcome.answers, key=lambda a: a[1])
        times = [at for _, at, _ in answers]
        latencies = [latency for _, _, latency in answers]
        over_time.plot(times, latencies, "o", color=colour, markersize=4, label=title)
        ordered = outcome.latencies
        fractions = [(i + 1) / len(ordered) for i in range(len(ordered))]
        shares.plot(ordered, fractions, color=colour, label=title)
    over_time.axhline(target, color="grey", linestyle=":", label="target")
    shares.axvline(target, color="grey", linestyle=":")
    over_time.set(xlabel="seconds", ylabel="latency (s)", title="Every answer of the alert queries")
    shares.set(xlabel="latency (s)", ylabel="share of answers", title="Distribution", ylim=(0, 1))
    if len(outcomes) > 2:
        over_time.set_yscale("log")
        shares.set_xscale("log")
        shares.xaxis.set_minor_formatter("")
    for axis in (over_time, shares):
        tidy(axis)
    over_time.legend(frameon=False, fontsize=8)
    save(figure, path)


def draw_over_time(outcomes: Mapping[str, Outcome], path: Path) -> None:
    """What bulk got done, CPU in use and batches run, second by second, of modes by title."""
    figure, axes = _pyplot().subplots(3, 1, figsize=(11, 8), sharex=True)
    done: Axes = axes[0]
    cpu: Axes = axes[1]
    batches: Axes = axes[2]
    for number, (title, outcome) in enumerate(outcomes.items()):
        colour = COLOURS[number % len(COLOURS)]
        if outcome.bulk_by_batch:
            ends, rows = zip(*outcome.bulk_by_batch, strict=True)
            total = [count / 1e6 for count in itertools.accumulate(rows)]
            done.step(ends, total, where="post", color=colour, label=title)
        if outcome.cpu_by_second:
            cpu.plot(*zip(*outcome.cpu_by_second, strict=True), color=colour, label=title)
        each = Counter(int(at) for at in outcome.batch_ends)
        seconds = range(int(outcome.seconds))
        batches.plot(seconds, [each[at] for at in seconds], color=colour, label=title)
    done.set(title="Bulk rows done (millions)")
    cpu.set(title="CPU (cores)", ylim=(0, None))
    batches.set(title="Batches a second, of all queries", xlabel="seconds", ylim=(0, None))
    for axis in axes:
        tidy(axis)
    cpu.legend(frameon=False, fontsize=8)
    save(figure, path)


SPAN = 6.0
"""Seconds a timeline shows."""


def draw_timelines(outcomes: Mapping[str, Outcome], path: Path) -> None:
    """When tasks ran, a lane for each query and stage: figure 7c of Cameo for whole queries."""
    shown = {title: outcome for title, outcome in outcomes.items() if outcome.tasks}
    if not shown:
        return
    lanes = {title: _lanes(outcome) for title, outcome in shown.items()}
    heights = [max(2, len(each)) for each in lanes.values()]
    figure, axes = _pyplot().subplots(
        len(shown),
        1,
        figsize=(11, 1.2 + 0.22 * sum(heights)),
        sharex=True,
        squeeze=False,
        height_ratios=heights,
    )
    for axis, (title, outcome) in zip(axes[:, 0], shown.items(), strict=True):
        begin = max(0.0, outcome.seconds / 2 - SPAN / 2)
        for lane, (query, stage) in enumerate(lanes[title]):
            spans = [
                (start - begin, max(end - start, 0.004))
                for name, at, start, end in outcome.tasks
                if (name, at) == (query, stage) and begin < end and start < begin + SPAN
            ]
            colour = COLOURS[stage % len(COLOURS)]
            axis.broken_barh(spans, (lane - 0.4, 0.8), color=colour)
        names = [f"{query} · {stage}" for query, stage in lanes[title]]
        axis.set(yticks=range(len(names)), ylim=(len(names) - 0.5, -0.5), xlim=(0, SPAN))
        axis.set_yticklabels(names, fontsize=6)
        axis.set_title(title, fontsize=9)
        tidy(axis)
    axes[-1, 0].set(xlabel="seconds; a bar is a task, a lane a query and a stage of its batch")
    save(figure, path)


def _lanes(outcome: Outcome) -> list[tuple[str, int]]:
    return sorted({(query, stage) for query, stage, _, _ in outcome.tasks})


def draw_density(curves: Mapping[str, Curve], path: Path) -> None:
    """Targets met, and CPU a query, by the number of queries."""
    figure, axes = _pyplot().subplots(1, 2, figsize=(11, 4))
    met: Axes = axes[0]
    cost: Axes = axes[1]
    loads = list(dict.fromkeys(curve.job.load.title for curve in curves.values()))
    modes = list(dict.fromkeys(curve.job.mode.name for curve in curves.values()))
    for title, curve in curves.items():
        colour = COLOURS[modes.index(curve.job.mode.name) % len(COLOURS)]
        style = ("-", "--", ":")[loads.index(curve.job.load.title) % 3]
        points = curve.by_count()
        for axis, figure_of in ((met, _met), (cost, _cost)):
            medians = [
                statistics.median(figure_of(p) for p in probes) for probes in points.values()
            ]
            axis.plot(
                list(points), medians, style, marker="o", markersize=3, color=colour, label=title
            )
        for held in curve.held:
            met.axvline(held, color=colour, linestyle=style, alpha=0.3)
    met.axhline(99, color="grey", linestyle=":")
    met.set(ylabel="targets met (%)", ylim=(0, 103), title="Answers within 0.8 s")
    cost.set(ylabel="ms", ylim=(0, None), title="CPU a query takes each second")
    for axis in (met, cost):
        axis.set(xlabel="latency-sensitive queries on one driver")
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter("{x:.0f}")
        tidy(axis)
    met.legend(frameon=False, fontsize=8)
    save(figure, path)


def _met(probe: Probe) -> float:
    return 100 * probe.met


def _cost(probe: Probe) -> float:
    return 1000 * probe.cpu_per_query


def tidy(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.3)
