"""Plots, all in one style. Matplotlib is imported here only."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from laxity.core.errors import LaxityError
from laxity.sim.reproduce.report import Claim

COLOURS = {
    "cameo": "#0b6e4f",
    "fifo": "#c8553d",
    "orleans": "#3d5a98",
    "slots": "#8a8d91",
}


class MissingPlotLibraryError(LaxityError, ImportError):
    """matplotlib is not installed."""


def colour(scheduler: str) -> str | None:
    return COLOURS.get(scheduler)


@contextmanager
def figure(
    path: Path,
    panels: int = 1,
    *,
    title: str,
    height: float = 3.4,
    width: float = 5.0,
    claims: Sequence[Claim] = (),
) -> Iterator[list[Any]]:
    """Axes to draw on; saved as a PNG on leaving, with what the paper has beside what came out
    here written below."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingPlotLibraryError(
            "plots need matplotlib; install it with: pip install 'laxity[sim]'"
        ) from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    lines = _captions(claims, round(width * panels * 16))
    caption = _LINE * len(lines) + 0.15 if lines else 0.0
    size = (width * panels, height + caption)
    fig, axes = pyplot.subplots(1, panels, figsize=size, squeeze=False)
    try:
        yield list(axes[0])
        for axis in axes[0]:
            axis.spines[["top", "right"]].set_visible(False)
            axis.grid(True, alpha=0.25, linewidth=0.6)
            _readable_ticks(axis)
        fig.suptitle(title, fontsize=11)
        fig.tight_layout(rect=(0, caption / size[1], 1, 1))
        fig.text(0.01, 0.08 / size[1], "\n".join(lines), fontsize=_SMALL, va="bottom",
                 color="#444444", linespacing=1.3)  # fmt: skip
        fig.savefig(path, dpi=120)
    finally:
        pyplot.close(fig)


_SMALL, _LINE = 7.0, 0.135
"""Size of the captions' letters, and the height of a line of them in inches."""


def _captions(claims: Sequence[Claim], columns: int) -> list[str]:
    return [
        line
        for claim in claims
        for line in textwrap.wrap(
            f"{claim.what}: paper {claim.text(claim.paper)}; here {claim.text(claim.ours)} "
            f"({claim.verdict.value})",
            columns,
            subsequent_indent="    ",
        )
    ]


def _readable_ticks(axis: Any) -> None:
    """0.2 and 5 on logarithmic axes, not powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for line in (axis.xaxis, axis.yaxis):
        if line.get_scale() == "log":
            low, high = sorted(line.get_view_interval())
            few = high / max(low, 1e-300) < 300
            line.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
            line.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            line.set_minor_formatter(NullFormatter())


def target_line(axis: Any, target: float) -> None:
    """The paper's grey dotted line."""
    axis.axhline(target, color="grey", linestyle=":", linewidth=1.2, label="target")
