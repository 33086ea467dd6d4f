"""Plots, all in one style. Matplotlib is imported here only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from laxity.core.errors import LaxityError

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
def figure(path: Path, panels: int = 1, *, title: str, height: float = 3.4) -> Iterator[list[Any]]:
    """Axes to draw on; saved as a PNG on leaving."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingPlotLibraryError(
            "plots need matplotlib; install it with: pip install 'laxity[sim]'"
        ) from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    fig, axes = pyplot.subplots(1, panels, figsize=(5.0 * panels, height), squeeze=False)
    try:
        yield list(axes[0])
        for axis in axes[0]:
            axis.spines[["top", "right"]].set_visible(False)
            axis.grid(True, alpha=0.25, linewidth=0.6)
        fig.suptitle(title, fontsize=11)
        fig.tight_layout()
        fig.savefig(path, dpi=120)
    finally:
        pyplot.close(fig)


def target_line(axis: Any, target: float) -> None:
    """The paper's grey dotted line."""
    axis.axhline(target, color="grey", linestyle=":", linewidth=1.2, label="target")
