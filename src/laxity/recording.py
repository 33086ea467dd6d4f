"""Recordings: what a real run looked like, so that the simulator can ask "what if" about it.

JSON lines, appended as a run goes, so a run that is killed leaves a readable file:

    {"kind": "laxity-recording", "version": 1, "nodes": 2, "cores": 4}
    {"kind": "query", "name": "alerts", "tenant": "ads", "target": 0.8, "batch_interval": 0.5,
     "window": {"size": 1.0, "slide": 1.0, "delay": 0.0},
     "stages": [{"name": "scan", "parallelism": 4, "cost_mean": 0.012, "cost_spread": 0.003,
                 "rows_mean": 1000.0, "windowed": false, "after": []}, …]}
    {"kind": "rate", "query": "alerts", "at": 12.0, "rows_per_second": 52000.0}
    {"kind": "latency", "query": "alerts", "results": 118, "p50": 0.31, "p99": 0.74, "met": 0.99}

Times are seconds. A `query` or `latency` line replaces the earlier one of the same query, so a
recorder repeats it when costs have drifted; `rate` lines accumulate.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from laxity.core.errors import LaxityError

KIND = "laxity-recording"
VERSION = 1


class InvalidRecordingError(LaxityError, ValueError):
    """A recording that cannot be read; the message has the line and the field."""


@dataclass(frozen=True, slots=True)
class WindowRecord:
    size: float
    slide: float
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class StageRecord:
    """`cost_mean` and `cost_spread` are seconds of one task (one operator's share of a batch)
    that carried `rows_mean` rows; zero rows where they were not counted. `after` names the
    stages it reads from: empty at a source."""

    name: str
    parallelism: int
    cost_mean: float
    cost_spread: float = 0.0
    rows_mean: float = 0.0
    windowed: bool = False
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RateSample:
    """Rows a second that arrived at all sources of a query, measured at `at` seconds after the
    recording began."""

    at: float
    rows_per_second: float


@dataclass(frozen=True, slots=True)
class LatencyRecord:
    """What the query's users saw: over `results` results. `met` is the fraction in time."""

    results: int
    p50: float
    p99: float
    met: float


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """`batch_interval` is the mean time between two batches; `target` None is best effort."""

    name: str
    stages: tuple[StageRecord, ...]
    tenant: str = "default"
    target: float | None = None
    batch_interval: float = 1.0
    window: WindowRecord | None = None
    rates: tuple[RateSample, ...] = ()
    latency: LatencyRecord | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    nodes: int
    cores: int
    """Cores of one node."""
    queries: tuple[QueryRecord, ...] = field(default=())


# Writing: one function a line, for recorders that append; `write` for all at once.


def header_line(nodes: int, cores: int) -> str:
    return _dump({"kind": KIND, "version": VERSION, "nodes": nodes, "cores": cores})


def query_line(query: QueryRecord) -> str:
    record = asdict(query)
    del record["rates"], record["latency"]
    return _dump({"kind": "query"} | record)


def rate_line(query: str, sample: RateSample) -> str:
    return _dump({"kind": "rate", "query": query} | asdict(sample))


def latency_line(query: str, latency: LatencyRecord) -> str:
    return _dump({"kind": "latency", "query": query} | asdict(latency))


def lines(recording: Recording) -> Iterator[str]:
    yield header_line(recording.nodes, recording.cores)
    for query in recording.queries:
        yield query_line(query)
        for sample in query.rates:
            yield rate_line(query.name, sample)
        if query.latency is not None:
            yield latency_line(query.name, query.latency)


def write(path: str | Path, recording: Recording) -> None:
    text = "".join(line + "\n" for line in lines(recording))
    Path(path).write_text(text, encoding="utf-8")


def _dump(record: dict[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":"), allow_nan=False)


# Reading.


def is_recording(path: str | Path) -> bool:
    """Does the file begin like a recording? (Its name does not matter.)"""
    with Path(path).open(encoding="utf-8", errors="replace") as file:
        return KIND in file.readline()


def read(path: str | Path) -> Recording:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRecordingError(f"{path}: cannot be read: {error}") from error
    return parse(text.splitlines(), origin=str(path))


def parse(source: Iterable[str], *, origin: str = "recording") -> Recording:
    """The recording in `source`; `origin` names it in errors."""
    header: _Line | None = None
    queries: dict[str, QueryRecord] = {}
    rates: dict[str, list[RateSample]] = {}
    latencies: dict[str, LatencyRecord] = {}
    for number, text in enumerate(source, 1):
        if not text.strip():
            continue
        line = _Line.parse(text, f"{origin}, line {number}")
        if header is None:
            header = line
            _check_header(line)
            continue
        match line.text("kind"):
            case "query":
                query = _query(line)
                queries[query.name] = query
            case "rate":
                sample = RateSample(line.number("at"), line.number("rows_per_second"))
                rates.setdefault(_known(line, queries), []).append(sample)
            case "latency":
                latencies[_known(line, queries)] = LatencyRecord(
                    line.count("results", least=0),
                    line.number("p50"),
                    line.number("p99"),
                    line.number("met"),
                )
            case kind:
                raise line.error("kind", f"is {kind!r}; known are query, rate and latency")
    if header is None:
        raise InvalidRecordingError(
            f"{origin}: the file is empty; a recording starts with a header"
        )
    return Recording(
        header.count("nodes"),
        header.count("cores"),
        tuple(
            _with_measurements(query, rates.get(name, []), latencies.get(name))
            for name, query in queries.items()
        ),
    )


def _check_header(line: _Line) -> None:
    if line.text("kind") != KIND:
        raise line.error("kind", f"must be {KIND!r} in the first line of a recording")
    if line.count("version") != VERSION:
        raise line.error(
            "version", f"is {line.count('version')}; this release reads version {VERSION}"
        )


def _known(line: _Line, queries: dict[str, QueryRecord]) -> str:
    name = line.text("query")
    if name not in queries:
        raise line.error("query", f"names {name!r}, which no earlier query line describes")
    return name


def _with_measurements(
    query: QueryRecord, rates: list[RateSample], latency: LatencyRecord | None
) -> QueryRecord:
    return QueryRecord(
        query.name,
        query.stages,
        query.tenant,
        query.target,
        query.batch_interval,
        query.window,
        tuple(sorted(rates, key=lambda sample: sample.at)),
        latency,
    )


def _query(line: _Line) -> QueryRecord:
    stages = tuple(_stage(stage) for stage in line.children("stages"))
    names = [stage.name for stage in stages]
    if not stages or len(set(names)) != len(names):
        raise line.error("stages", "must be a list of stages with distinct names")
    for number, stage in enumerate(stages):
        for upstream in stage.after:
            if upstream not in names:
                raise line.error(f"stages[{number}].after", f"names the unknown {upstream!r}")
    target = line.number("target", least=0.0) if line.get("target") is not None else None
    window = None
    if line.get("window") is not None:
        inner = line.child("window")
        window = WindowRecord(
            inner.positive("size"), inner.positive("slide"), inner.number("delay", default=0.0)
        )
    return QueryRecord(
        line.text("name"),
        stages,
        line.text("tenant", default="default"),
        target,
        line.positive("batch_interval", default=1.0),
        window,
    )


def _stage(line: _Line) -> StageRecord:
    after = line.get("after") or []
    if not (isinstance(after, list) and all(isinstance(name, str) for name in after)):
        raise line.error("after", f"must be a list of stage names, got {after!r}")
    windowed = line.get("windowed") or False
    if not isinstance(windowed, bool):
        raise line.error("windowed", f"must be true or false, got {windowed!r}")
    return StageRecord(
        line.text("name"),
        line.count("parallelism"),
        line.number("cost_mean"),
        line.number("cost_spread", default=0.0),
        line.number("rows_mean", default=0.0),
        windowed,
        tuple(after),
    )


class _Line:
    """One JSON object with the place it stands at, so that every error can name its field."""

    def __init__(self, fields: dict[str, Any], place: str, prefix: str = "") -> None:
        self._fields = fields
        self._place = place
        self._prefix = prefix

    @classmethod
    def parse(cls, text: str, place: str) -> _Line:
        try:
            fields = json.loads(text)
        except ValueError as error:
            raise InvalidRecordingError(f"{place}: not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise InvalidRecordingError(f"{place}: must be a JSON object, got {text[:40]!r}")
        return cls(fields, place)

    def error(self, name: str, problem: str) -> InvalidRecordingError:
        return InvalidRecordingError(f"{self._place}: field {self._prefix}{name} {problem}")

    def get(self, name: str) -> Any:
        return self._fields.get(name)

    def text(self, name: str, default: str | None = None) -> str:
        value = self._fields.get(name, default)
        if not isinstance(value, str) or not value:
            raise self.error(name, f"must be text, got {value!r}")
        return value

    def number(self, name: str, *, default: float | None = None, least: float = 0.0) -> float:
        value = self._fields.get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(name, f"must be a number, got {value!r}")
        if not (math.isfinite(value) and value >= least):
            raise self.error(name, f"must be finite and at least {least:g}, got {value!r}")
        return float(value)

    def positive(self, name: str, *, default: float | None = None) -> float:
        value = self.number(name, default=default)
        if value == 0:
            raise self.error(name, "must be above zero")
        return value

    def count(self, name: str, *, least: int = 1) -> int:
        value = self._fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.error(name, f"must be a whole number of at least {least}, got {value!r}")
        return value

    def child(self, name: str) -> _Line:
        value = self._fields.get(name)
        if not isinstance(value, dict):
            raise self.error(name, f"must be an object, got {value!r}")
        return _Line(value, self._place, f"{self._prefix}{name}.")

    def children(self, name: str) -> Iterator[_Line]:
        value = self._fields.get(name)
        if not isinstance(value, list):
            raise self.error(name, f"must be a list, got {value!r}")
        for number, item in enumerate(value):
            if not isinstance(item, dict):
                raise self.error(f"{name}[{number}]", f"must be an object, got {item!r}")
            yield _Line(item, self._place, f"{self._prefix}{name}[{number}].")
