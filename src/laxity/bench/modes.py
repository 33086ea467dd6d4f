"""The ways to run the same tenants: stock Spark in every way an expert would try, and Laxity."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from laxity.core.errors import LaxityError


class UnknownModeError(LaxityError, KeyError):
    """A mode nobody has defined."""

    __str__ = Exception.__str__


@dataclass(frozen=True, slots=True)
class Mode:
    """`laxity` holds the options of attach(), or is None for stock Spark."""

    name: str
    title: str
    conf: dict[str, str] = field(default_factory=dict)
    pools: str | None = None
    """A pool for each query: "equal", or "tuned" with weight 100 and a minimum share of all slots
    for the latency-sensitive."""
    triggers: tuple[str, str] | None = None
    """Processing-time intervals of the latency-sensitive and of the bulk queries."""
    laxity: dict[str, Any] | None = None
    engine: str = "spark"
    alone: bool = False
    """The latency-sensitive have the machine to themselves, one of each kind: the limit."""


_FAIR = {"spark.scheduler.mode": "FAIR"}

FIFO = Mode("fifo", "Spark FIFO")
FAIR = Mode("fair", "Spark FAIR, a pool a query", _FAIR, "equal")
FAIR_TUNED = Mode("fair-tuned", "Spark FAIR, tuned by hand", _FAIR, "tuned")
# A quarter of the target, and one batch a window: what an expert would try first.
TRIGGERS = Mode(
    "triggers", "Spark FIFO, triggers tuned by hand", triggers=("200 milliseconds", "10 seconds")
)
EXPERT = Mode(
    "expert",
    "FAIR and triggers, tuned by hand",
    _FAIR,
    "tuned",
    triggers=("200 milliseconds", "10 seconds"),
)
LAXITY = Mode("laxity", "Laxity", laxity={})
FLINK = Mode("flink", "Flink, one job a query", engine="flink")
ALONE = Mode("alone", "The query alone, stock Spark", alone=True)

STOCK = (FIFO, FAIR, FAIR_TUNED, TRIGGERS, EXPERT)
POLICIES = tuple(
    Mode(f"laxity-{policy}", f"Laxity, {policy.upper()}", laxity={"policy": policy})
    for policy in ("edf", "sjf", "fifo", "token")
)
WITHOUT = tuple(
    Mode(f"without-{name}", f"Laxity without {name}", laxity={option: off})
    for name, option, off in (
        ("order", "order", False),
        ("moment", "moment", False),
        ("size", "size", False),
        ("reserve", "reserve", 0),
        ("host", "host", False),
        ("files", "files", False),
        ("interpret", "interpret", False),
        ("lean", "lean", False),
    )
)
MODES = {mode.name: mode for mode in (*STOCK, LAXITY, *POLICIES, *WITHOUT, ALONE, FLINK)}


def find_modes(names: str) -> list[Mode]:
    """By name, separated by commas; `stock`, `policies`, `without` and `all` (what runs on
    Spark) stand for groups."""
    groups = {
        "stock": STOCK,
        "policies": POLICIES,
        "without": WITHOUT,
        "all": tuple(mode for mode in MODES.values() if mode.engine == "spark"),
    }
    found: dict[str, Mode] = {}
    for name in (part.strip() for part in names.split(",") if part.strip()):
        if name not in groups and name not in MODES:
            known = ", ".join((*MODES, *groups))
            raise UnknownModeError(f"no mode is named {name!r}; there are {known}")
        for mode in groups.get(name) or (MODES[name],):
            found[mode.name] = mode
    if not found:
        raise UnknownModeError("name at least one mode")
    return list(found.values())


def find_spark_modes(names: str) -> list[Mode]:
    """The same where there is one kind of tenant, on Spark."""
    found = find_modes(names)
    for mode in found:
        if mode.alone or mode.engine != "spark":
            raise UnknownModeError(f"mode {mode.name!r} is for contests of mixes only")
    return found
