"""Translators by name, and what to use where control groups cannot be written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from laxity.host.errors import InvalidHostConfigError
from laxity.host.translators.api import Normalisation, Tools, Translator
from laxity.host.translators.combined import CombinedTranslator
from laxity.host.translators.groups import GroupTranslator
from laxity.host.translators.hierarchy import CgroupV1, find_hierarchy
from laxity.host.translators.threads import NiceTranslator, RoundRobinTranslator

TRANSLATOR_NAMES = ("nice", "shares", "quota", "rr", "shares+nice")


def make_translator(
    name: str, tools: Tools, *, normalisation: str = "auto", **options: Any
) -> Translator:
    """`shares` is cpu.shares or cpu.weight, whichever the machine has. Falls back to nice, with a
    notice, where the wanted mechanism is not available."""
    how = Normalisation.parse(normalisation)
    try:
        wanted = _make(name.strip().lower(), tools, how, options)
    except TypeError as error:
        raise InvalidHostConfigError(f"translator {name!r}: {error}") from None
    reason = wanted.unavailable()
    if reason is None:
        return wanted
    tools.notices.report(
        f"fallback-{tools.owner}", f"translator {wanted.name!r}: {reason}; using nice instead"
    )
    return NiceTranslator(tools, normalisation=how)


def _make(name: str, tools: Tools, how: Normalisation, options: dict[str, Any]) -> Translator:
    if name == "nice":
        return NiceTranslator(tools, normalisation=how, **options)
    if name == "rr":
        return RoundRobinTranslator(tools, normalisation=how, **options)
    if name in ("shares", "quota", "shares+nice"):
        groups = _groups(name, tools, how, options)
        if name != "shares+nice":
            return groups
        inner = replace(tools, owner=f"{tools.owner}-nice")
        return CombinedTranslator(groups, NiceTranslator(inner))
    raise InvalidHostConfigError(
        f"no translator is named {name!r}; known are {', '.join(TRANSLATOR_NAMES)}"
    )


def _groups(
    name: str, tools: Tools, how: Normalisation, options: dict[str, Any]
) -> GroupTranslator:
    hierarchy = find_hierarchy(tools.kernel)
    mechanism = "cpu.shares" if isinstance(hierarchy, CgroupV1) else "cpu.weight"
    return GroupTranslator(
        tools, hierarchy, name=mechanism, normalisation=how, quota=name == "quota", **options
    )
