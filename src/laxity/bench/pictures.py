"""The contest's pictures."""

from __future__ import annotations

import statistics
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
    for axis in (over_time, shares):
        tidy(axis)
    over_time.legend(frameon=False, fontsize=8)
    save(figure, path)


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
        axis.set(xlabel="latency-sensitive queries on one driver", xscale="log")
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
