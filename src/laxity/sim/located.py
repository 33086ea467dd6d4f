"""YAML and TOML values that know the line they stand in, so that errors can name it."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from laxity.core.durations import parse_duration
from laxity.core.errors import InvalidDurationError, LaxityError

Path_ = tuple[str | int, ...]


class InvalidScenarioError(LaxityError, ValueError):
    """A simulation file that cannot be read; the message has the line and the field."""


class Located:
    """A value, and where it is: file, line and the path of fields that leads to it."""

    def __init__(self, value: Any, origin: str, lines: dict[Path_, int], path: Path_ = ()) -> None:
        self.value = value
        self._origin = origin
        self._lines = lines
        self._path = path

    @property
    def field(self) -> str:
        text = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in self._path)
        return text.lstrip(".") or "the file"

    def error(self, problem: str) -> InvalidScenarioError:
        path = self._path
        while path and path not in self._lines:
            path = path[:-1]
        line = self._lines.get(path, 1)
        return InvalidScenarioError(f"{self._origin}, line {line}: field {self.field} {problem}")

    def get(self, name: str) -> Located | None:
        if self.value.get(name) is None:
            return None
        return Located(self.value[name], self._origin, self._lines, (*self._path, name))

    def need(self, name: str) -> Located:
        found = self.get(name)
        if found is None:
            raise self.error(f"lacks {name!r}")
        return found

    def table(self, *known: str) -> Located:
        """This as a table; a field that is not known is an error, with the nearest one."""
        if not isinstance(self.value, dict):
            raise self.error(f"must be a table of fields, got {self.value!r}")
        for name in self.value:
            if name not in known:
                child = Located(None, self._origin, self._lines, (*self._path, str(name)))
                raise child.error(f"is not known here; known are {', '.join(known)}")
        return self

    def items(self) -> Iterator[Located]:
        if not isinstance(self.value, list) or not self.value:
            raise self.error(f"must be a list with at least one entry, got {self.value!r}")
        for number, item in enumerate(self.value):
            yield Located(item, self._origin, self._lines, (*self._path, number))

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.error(f"must be text, got {self.value!r}")
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.error(f"must be true or false, got {self.value!r}")
        return self.value

    def count(self) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int) or self.value < 1:
            raise self.error(f"must be a whole number of at least 1, got {self.value!r}")
        return self.value

    def number(self, *, above: float = -math.inf, least: float = 0.0) -> float:
        value = self.value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(f"must be a number, got {value!r}")
        if not (math.isfinite(value) and value >= least and value > above):
            bound = f"above {above:g}" if above >= least else f"at least {least:g}"
            raise self.error(f"must be {bound}, got {value!r}")
        return float(value)

    def duration(self, *, positive: bool = False) -> float:
        try:
            seconds = parse_duration(self.value)
        except InvalidDurationError as error:
            raise self.error(f"is not a duration: {error}") from error
        if positive and seconds == 0:
            raise self.error("must be above zero")
        return seconds


def load(path: Path) -> Located:
    """The file as a located value; YAML unless it ends in .toml."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidScenarioError(f"{path}: cannot be read: {error}") from error
    if path.suffix.lower() == ".toml":
        return _toml(text, str(path))
    return _yaml(text, str(path))


def _yaml(text: str, origin: str) -> Located:
    try:
        import yaml
    except ImportError as error:
        raise InvalidScenarioError(
            "reading YAML needs PyYAML; install it with: pip install 'laxity[sim]'"
        ) from error
    lines: dict[Path_, int] = {}

    def walk(node: Any, path: Path_) -> None:
        lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*path, str(key.value))
                lines[inner] = key.start_mark.line + 1
                walk(value, inner)
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                walk(value, (*path, number))

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or error
        raise InvalidScenarioError(f"{origin}, line {line}: not YAML: {problem}") from error
    if node is not None:
        walk(node, ())
    return Located(value, origin, lines)


def _toml(text: str, origin: str) -> Located:
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        line = found[1] if found else "1"
        raise InvalidScenarioError(f"{origin}, line {line}: not TOML: {error}") from error
    return Located(value, origin, _toml_lines(text))


def _toml_lines(text: str) -> dict[Path_, int]:
    """The line of each table and key: tomllib does not tell. Keys inside inline tables count as
    the line they begin in."""
    lines: dict[Path_, int] = {}
    counts: dict[Path_, int] = {}
    table: Path_ = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*(\[\[?)\s*([\w.\-\"' ]+?)\s*\]\]?", line):
            names = tuple(name.strip(" \"'") for name in header[2].split("."))
            table = ()
            for depth, name in enumerate(names):
                plain = (*table, name)
                table = plain
                last = depth == len(names) - 1
                if last and header[1] == "[[":
                    counts[plain] = counts.get(plain, -1) + 1
                if plain in counts:
                    table = (*plain, counts[plain])
            lines.setdefault(table, number)
        elif key := re.match(r"\s*([\w\-\"']+)\s*=", line):
            lines.setdefault((*table, key[1].strip("\"'")), number)
    return lines
