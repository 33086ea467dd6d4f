"""The sources of a running query, and how much of each a batch may be told to take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from laxity.semantics import Source

# Sources that take a limit even where the user set none, by class name.
_LIMITED_BY = {
    "FileStreamSource": "files",
    "DeltaSource": "files",
    "KafkaMicroBatchStream": "rows",
    "KafkaSource": "rows",
}
# The same before the source exists, by the name it has in the plan, with the option for each unit.
_PLANNED: Mapping[str, tuple[str, dict[str, str]]] = {
    "FileSource": ("files", {"maxfilespertrigger": "files", "maxbytespertrigger": "bytes"}),
    "delta": ("files", {"maxfilespertrigger": "files", "maxbytespertrigger": "bytes"}),
    "kafka": ("rows", {"maxoffsetspertrigger": "rows"}),
}


def read_sources(stream_execution: Any, plan: Any) -> tuple[Source, ...]:
    """From the sources themselves; from the plan while the query has not made them yet."""
    running = stream_execution.uniqueSources()
    if running.size():
        return tuple(_running_source(pair._1(), pair._2()) for pair in _elements(running))
    leaves = [(leaf, str(leaf.nodeName())) for leaf in _elements(plan.collectLeaves())]
    return tuple(_planned_source(leaf, n) for leaf, n in leaves if n.startswith("Streaming"))


def _elements(collection: Any) -> Iterator[Any]:
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _running_source(source: Any, limit: Any) -> Source:
    class_name = str(source.getClass().getName())
    kind, amount = _read_limit(limit)
    if kind is None:
        kind = _LIMITED_BY.get(class_name.rpartition(".")[2])
    return Source(_tidy(source.toString()), class_name, kind, amount)


def _read_limit(limit: Any) -> tuple[str | None, int | None]:
    """Unit and amount of a ReadLimit; of a composite one, the first part that caps."""
    name = str(limit.getClass().getSimpleName())
    if name == "ReadMaxRows":
        return "rows", limit.maxRows()
    if name == "ReadMaxFiles":
        return "files", limit.maxFiles()
    if name == "ReadMaxBytes":
        return "bytes", limit.maxBytes()
    if name == "CompositeReadLimit":
        parts = [_read_limit(part) for part in limit.getReadLimits()]
        return next((part for part in parts if part[0] is not None), (None, None))
    return None, None


def _planned_source(leaf: Any, relation: str) -> Source:
    if relation == "StreamingRelation":
        provider = leaf.dataSource().className()
        options = {pair._1(): pair._2() for pair in _elements(leaf.dataSource().options())}
    elif relation == "StreamingRelationV2":
        provider = leaf.table().getClass().getName()
        options = dict(leaf.extraOptions())
    else:
        return Source(_tidy(leaf.toString()), relation)
    description = _tidy(leaf.sourceName())
    kind, units = _PLANNED.get(description.partition("[")[0], (None, {}))
    for option, value in options.items():
        unit = units.get(str(option).lower())
        if unit is not None and str(value).isdigit():
            return Source(description, str(provider), unit, int(value))
    return Source(description, str(provider), kind)


def _tidy(description: Any) -> str:
    """Without the hash that Java's default text for an object ends in."""
    text, _, rest = str(description).partition("@")
    if rest and "[" not in text:
        return text.rpartition(".")[2]
    whole = str(description)
    return whole + "]" * (whole.count("[") - whole.count("]"))  # Spark forgets one for "rate"
