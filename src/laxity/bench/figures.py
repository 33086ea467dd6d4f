"""Tables of figures that were taken several times: medians, with the least and the most."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.table import Table

from laxity.core.durations import format_duration

T = TypeVar("T")

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    name: str
    figure: Callable[[T], float]
    form: Callable[[float], str]

    def cell(self, samples: Sequence[T], between: str) -> str:
        values = [self.figure(sample) for sample in samples]
        if not any(values) and (not values or self.form(0.0) == NOTHING):
            return NOTHING
        text = self.form(statistics.median(values))
        if len(values) > 1:
            text += f"{between}({self.form(min(values))} … {self.form(max(values))})"
        return text


def table(title: str, columns: Sequence[Column[T]], rows: Mapping[str, Sequence[T]]) -> Table:
    """For the terminal."""
    shown = Table(title=title)
    shown.add_column("", no_wrap=True)
    for column in columns:
        shown.add_column(column.name, justify="right")
    for name, samples in rows.items():
        shown.add_row(name, *(column.cell(samples, "\n") for column in columns))
    return shown


def markdown(columns: Sequence[Column[T]], rows: Mapping[str, Sequence[T]]) -> list[str]:
    return [
        "| | " + " | ".join(column.name for column in columns) + " |",
        "| --- |" + " ---: |" * len(columns),
        *(
            f"| {name} | " + " | ".join(c.cell(samples, "<br>") for c in columns) + " |"
            for name, samples in rows.items()
        ),
    ]


def duration(value: float) -> str:
    return format_duration(value)


def percent(value: float) -> str:
    return f"{value:.1%}"


def thousands(value: float) -> str:
    return f"{value / 1000:,.0f}k"


def two_digits(value: float) -> str:
    return f"{value:.2f}"


def whole(value: float) -> str:
    return f"{value:,.0f}"


def ratio(value: float) -> str:
    return f"{value:.2f} ×"


def if_any(form: Callable[[float], str]) -> Callable[[float], str]:
    """A dash where there is nothing."""
    return lambda value: form(value) if value else NOTHING
