"""Every experiment by name."""

from __future__ import annotations

from laxity.core.errors import LaxityError
from laxity.sim.reproduce import (
    bursts,
    checks,
    chi,
    chi_adapts,
    example,
    knowledge,
    multi,
    neptune,
    overhead,
    shares,
    single,
    skew,
    timeline,
)
from laxity.sim.reproduce.runner import Experiment

_ORDER = (
    "1",
    "4",
    "6",
    "7a",
    "7b",
    "7c",
    "8a",
    "8b",
    "8c",
    "9",
    "10",
    "11",
    "12",
    "13",
    "14",
    "15",
    "chi-8",
    "chi-9",
    "chi-10",
    "chi-11a",
    "chi-11b",
)


class UnknownExperimentError(LaxityError, KeyError):
    """A name that is no experiment's."""

    __str__ = Exception.__str__


def experiments() -> dict[str, Experiment]:
    cameo = (shares, example, single, timeline, multi, bursts, skew, knowledge, overhead, checks)
    modules = (*cameo, chi, chi_adapts, neptune)
    found: dict[str, Experiment] = {e.name: e for module in modules for e in module.EXPERIMENTS}
    return {name: found[name] for name in (*_ORDER, "speed", "sensitivity", *neptune.NAMES)}


def choose(names: list[str]) -> list[Experiment]:
    """The experiments of those names. "all" are Cameo's, "neptune" are Neptune's;
    "7" and "8" are all their parts."""
    known = experiments()
    chosen: dict[str, Experiment] = {}
    for name in names:
        wanted = name.lower().removeprefix("figure").removeprefix("fig").strip(" -_.")
        if wanted == "all":
            matching = list(_ORDER)
        elif wanted == "neptune":
            matching = list(neptune.NAMES)
        else:
            matching = [n for n in known if n == wanted or (n[:-1] == wanted and n[-1] in "abc")]
        if not matching:
            raise UnknownExperimentError(
                f"no experiment is named {name!r}; there are all, neptune, {', '.join(known)}"
            )
        chosen |= {n: known[n] for n in matching}
    return list(chosen.values())
