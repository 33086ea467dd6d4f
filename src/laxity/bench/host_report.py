"""Tables and plots of the host benchmark's rows: medians over rounds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from rich import box
from rich.table import Table

from laxity.bench.host_contest import DEFAULT, MODES, Row

Key = tuple[bool, float, str]
"""With blocking operators or not, load, mode."""


def read_rows(paths: Iterable[Path]) -> list[Row]:
    return [json.loads(line) for path in paths for line in path.read_text().splitlines() if line]


def medians(rows: Iterable[Row]) -> dict[Key, dict[str, float]]:
    grouped: dict[Key, list[Row]] = {}
    for row in rows:
        grouped.setdefault((row["blocking"], row["load"], row["mode"]), []).append(row)
    fields = (
        *("throughput", "latency", "latency_p99", "end_to_end", "end_to_end_p99"),
        *("met", "urgent_met", "queue_spread", "own_cpu"),
    )
    return {
        key: {f: median(r[f] for r in group) for f in fields} | {"rounds": float(len(group))}
        for key, group in sorted(grouped.items(), key=lambda item: _order(item[0]))
    }


def _order(key: Key) -> tuple[bool, float, int]:
    blocking, load, mode = key
    return blocking, load, MODES.index(mode) if mode in MODES else len(MODES)


def table(results: dict[Key, dict[str, float]], blocking: bool) -> Table:
    title = "10 % of the operators block" if blocking else "no blocking operators"
    shown = Table(
        *("load", "mode", "tuples/s", "latency", "p99", "end to end", "p99", "urgent met"),
        *("queue spread", "own CPU", "rounds"),
        title=f"20 pipelines of 5 operators, {title}",
        box=box.MARKDOWN,
    )
    for (blocks, load, mode), values in results.items():
        if blocks != blocking:
            continue
        shown.add_row(
            f"{load:g}",
            mode,
            f"{values['throughput']:.0f}",
            *(
                f"{values[f] * 1000:.0f} ms"
                for f in ("latency", "latency_p99", "end_to_end", "end_to_end_p99")
            ),
            f"{values['urgent_met']:.0%}",
            f"{values['queue_spread']:.1f}",
            f"{values['own_cpu']:.2%}" if mode != DEFAULT else "",
            f"{values['rounds']:.0f}",
        )
    return shown


def against_default(results: dict[Key, dict[str, float]]) -> Table:
    """The paper's two claims, as this machine shows them."""
    shown = Table(
        *("blocking", "mode", "best throughput gain", "best latency gain", "best end-to-end gain"),
        title="the best of each policy over the operating system's default, over all loads",
        box=box.MARKDOWN,
    )
    for blocking in sorted({key[0] for key in results}):
        for mode in MODES[1:]:
            ratios = [
                (_ratio(v, d, "throughput"), _ratio(d, v, "latency"), _ratio(d, v, "end_to_end"))
                for (b, load, m), v in results.items()
                if (b, m) == (blocking, mode) and (d := results.get((b, load, DEFAULT)))
            ]
            if ratios:
                throughput, latency, ends = (max(r[i] for r in ratios) for i in range(3))
                shown.add_row(
                    "yes" if blocking else "no",
                    mode,
                    f"{throughput - 1:+.0%}",
                    f"{latency:.1f}x",
                    f"{ends:.1f}x",
                )
    return shown


def _ratio(above: dict[str, float], below: dict[str, float], field: str) -> float:
    return above[field] / below[field] if below[field] > 0 else 0.0


def mixed_table(rows: Sequence[Row]) -> Table:
    """Latencies are the worse of a kind's queries; rows/s their sum."""
    shown = Table(
        *("mode", "Flink alerts p50", "p99", "of offered", "Flink bulk rows/s"),
        *("Spark alerts p50", "max", "Spark bulk rows/s", "own CPU", "rounds"),
        title="Flink and Spark at the same time",
        box=box.MARKDOWN,
    )
    for mode in dict.fromkeys(row["mode"] for row in rows):
        group = [row for row in rows if row["mode"] == mode]
        value = {k: median(r[k] for r in group) for k in group[0] if k != "mode"}
        shown.add_row(
            mode,
            *(f"{value[f] * 1000:.0f} ms" for f in ("flink_alerts_p50", "flink_alerts_p99")),
            f"{value['flink_alerts_rows'] / value['flink_alerts_offered']:.0%}",
            f"{value['flink_bulk_rows']:.0f}",
            *(f"{value[f] * 1000:.0f} ms" for f in ("spark_alerts_p50", "spark_alerts_max")),
            f"{value['spark_bulk_rows']:.0f}",
            f"{value['own_cpu']:.2%}",
            str(len(group)),
        )
    return shown


def cost_table(rows: Sequence[Row]) -> Table:
    shown = Table(
        *("policy", "translator", "own CPU, of one core"),
        title="100 operators, a pass every second",
        box=box.MARKDOWN,
    )
    for row in rows:
        shown.add_row(row["policy"], row["translator"], f"{row['own_cpu']:.2%}")
    return shown


def plot(results: dict[Key, dict[str, float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels: Sequence[tuple[str, str, bool]] = (
        ("throughput", "tuples/s into all pipelines", False),
        ("latency", "latency, s", True),
        ("end_to_end", "end-to-end latency, s", True),
        ("urgent_met", "urgent targets met", False),
    )
    kinds = sorted({key[0] for key in results})
    figure, axes = pyplot.subplots(
        len(kinds), len(panels), figsize=(4 * len(panels), 3.2 * len(kinds)), squeeze=False
    )
    for row, blocking in enumerate(kinds):
        for column, (field, label, logarithmic) in enumerate(panels):
            axis = axes[row][column]
            for i, mode in enumerate(MODES):
                points = [
                    (load, values[field])
                    for (b, load, m), values in results.items()
                    if (b, m) == (blocking, mode)
                ]
                if points:
                    line = {"marker": "o", "markersize": 3, "color": f"C{i}", "label": mode}
                    axis.plot(*zip(*points, strict=True), **line)
            if logarithmic:
                axis.set_yscale("log")
            axis.set_xlabel("load (1 = all cores)")
            axis.set_title(label + (", blocking" if blocking else ""), fontsize=9)
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
