"""What an experiment hands back: rows for the CSV, and claims set beside the paper's."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


class Verdict(Enum):
    AGREES = "agrees"
    DIRECTION = "direction only"
    DISAGREES = "disagrees"
    SHOWN = "not comparable"


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of the paper and what came out here.

    `paper` and `ours` are factors or fractions where numbers are compared: within a factor of
    `tolerance` is agreement. A claim without numbers is its `holds`. `why` explains a difference.
    A claim that is not `comparable` is shown for what it is: ours, next to what the paper has.
    """

    what: str
    paper: float | str
    ours: float | str
    holds: bool
    unit: str = ""
    why: str = ""
    tolerance: float = 2.0
    comparable: bool = True

    @property
    def verdict(self) -> Verdict:
        if not self.comparable:
            return Verdict.SHOWN
        if not self.holds:
            return Verdict.DISAGREES
        if isinstance(self.paper, str) or isinstance(self.ours, str):
            return Verdict.AGREES
        if self.paper <= 0 or self.ours <= 0 or not math.isfinite(self.ours):
            return Verdict.DIRECTION
        ratio = self.ours / self.paper
        within = 1 / self.tolerance <= ratio <= self.tolerance
        return Verdict.AGREES if within else Verdict.DIRECTION

    def text(self, value: float | str) -> str:
        if isinstance(value, str):
            return value
        if self.unit == "%":
            return f"{value * 100:.1f} %" if abs(value) >= 0.001 else f"{value * 100:.2g} %"
        return f"{value:.3g}{' ' + self.unit if self.unit else ''}"


def factor(what: str, paper: float, ours: float, why: str = "") -> Claim:
    """`ours` times worse than Cameo; the direction holds if it is worse at all."""
    return Claim(what, paper, ours, ours > 1.0, "×", why)


@dataclass(slots=True)
class Report:
    """`rows` go to the CSV. `files` is what was written. `note` is what a reader must know to judge
    the claims."""

    name: str
    title: str
    rows: list[Row]
    claims: list[Claim]
    note: str = ""
    files: list[Path] = field(default_factory=list)
    seconds: float = 0.0

    def write_csv(self, folder: Path) -> None:
        path = folder / f"{self.name}.csv"
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows({k: _plain(v) for k, v in row.items()} for row in self.rows)
        self.files.append(path)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "seconds": round(self.seconds, 3),
            "note": self.note,
            "claims": [
                {
                    "what": claim.what,
                    "paper": claim.paper,
                    "ours": _plain(claim.ours),
                    "unit": claim.unit,
                    "verdict": claim.verdict.value,
                    "why": claim.why,
                }
                for claim in self.claims
            ],
            "files": [str(path) for path in self.files],
        }


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return None if not math.isfinite(value) else float(f"{value:.6g}")
    return value
