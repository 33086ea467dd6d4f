"""What may import what (docs/architecture.md), read from the source with `ast`: nothing is run."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import laxity

ROOT = Path(laxity.__file__).parent

SHARED = {"__version__", "_version", "clock", "pipeline", "plugins", "recording"}
"""Small modules beside the packages, for everybody but the core."""

MAY_IMPORT: dict[str, set[str]] = {
    # package: the parts of laxity it may import beside itself
    "core": set(),
    "testing": {"core"},
    "sim": {"core", "control", "fleet", *SHARED},
    "control": {"core", *SHARED},
    "fleet": {"core", "control", *SHARED},
    "server": {"core", *SHARED},
}
"""Packages not listed may import any other but `bench`, which only the command line reaches."""

JVM = {"pyspark", "py4j"}
JVM_USERS = {"spark", "bench"}

PURE_STDLIB = {
    "__future__",
    "collections",
    "dataclasses",
    "datetime",
    "enum",
    "graphlib",
    "heapq",
    "itertools",
    "json",
    "math",
    "re",
    "typing",
}
"""All that the core may take from the standard library: no clock, no threads, no I/O, no chance."""


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import in a file, those inside functions included."""
    here = ("laxity", *path.relative_to(ROOT).parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(here[: len(here) - node.level]) if node.level else ""
            base = ".".join(part for part in (above, node.module) if part)
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def package_of(name: str) -> str | None:
    """The part of laxity a dotted name belongs to: `laxity.core.queue` → core."""
    first, _, rest = name.partition(".")
    return rest.partition(".")[0] if first == "laxity" and rest else None


def violations(path: Path) -> Iterator[str]:
    package = path.relative_to(ROOT).parts[0].removesuffix(".py")
    for line, name in imports(path):
        where = f"{path.relative_to(ROOT.parent)}:{line} imports {name}"
        top = name.partition(".")[0]
        if top in JVM and package not in JVM_USERS:
            yield f"{where}; only {' and '.join(sorted(JVM_USERS))} may"
        target = package_of(name)
        if package in MAY_IMPORT and target not in {None, package, *MAY_IMPORT[package]}:
            yield f"{where}; {package} may not"
        if target == "bench" and package not in {"bench", "cli"}:
            yield f"{where}; nothing is built on a benchmark"
        if package == "core" and target is None and top not in PURE_STDLIB:
            yield f"{where}; the core is pure"


def test_nobody_breaks_the_import_rules() -> None:
    found = [v for path in sorted(ROOT.rglob("*.py")) for v in violations(path)]
    assert found == []


def test_the_core_is_really_looked_at() -> None:
    assert len(modules("core")) > 15
    assert {"laxity.core.queue.TwoLevelQueue", "heapq.heappush"} <= {
        name for path in modules("core") for _, name in imports(path)
    }


def test_the_core_calls_nothing_that_reads_the_world() -> None:
    for path in modules("core"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"open", "print", "input", "id", "hash"}, (
                    path,
                    node.lineno,
                )


@pytest.mark.parametrize(
    ("where", "source", "says"),
    [
        ("core/x.py", "import time", "the core is pure"),
        ("core/x.py", "def f():\n    from threading import Lock", "the core is pure"),
        ("core/x.py", "from laxity.spark import attach", "core may not"),
        ("core/x.py", "from ..sim import node", "core may not"),
        ("core/policies/x.py", "from ...host import loop", "core may not"),
        ("host/x.py", "import pyspark.sql", "only bench and spark may"),
        ("sim/x.py", "from laxity import spark", "sim may not"),
        ("spark/x.py", "import laxity.bench.cli", "nothing is built on a benchmark"),
    ],
)
def test_the_rules_catch_what_they_forbid(
    where: str, source: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    path = tmp_path / where
    path.parent.mkdir(parents=True)
    path.write_text(source)
    assert any(says in v for v in violations(path))
