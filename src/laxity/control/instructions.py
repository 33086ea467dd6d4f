"""What a configuration tells an operator to do. Plain data: durable, sendable, comparable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from laxity.control.errors import ProtocolError
from laxity.control.graph import Document, Route, read_range, read_route, route_document
from laxity.control.keys import KeyRange


@dataclass(frozen=True, slots=True)
class SplitState:
    """Keep these keys; ship each of the others to the operator that takes it over."""

    keep: KeyRange
    shares: tuple[tuple[str, KeyRange], ...] = ()


@dataclass(frozen=True, slots=True)
class MergeState:
    """Take in what the others shipped, as far as it lies in this range."""

    keys: KeyRange


@dataclass(frozen=True, slots=True)
class SpreadState:
    """Share one table of the state with helpers, for some keys: each row to one of them, or
    every row to all of them (figure 5a: partition A's rows, replicate B's)."""

    table: str
    keys: KeyRange
    among: tuple[str, ...]
    to_all: bool = False


@dataclass(frozen=True, slots=True)
class LoadFunction:
    """Compute with this function from now on. Functions are known to the engine by name."""

    function: str


@dataclass(frozen=True, slots=True)
class SetParameters:
    """Change some of the operator's parameters, all at once."""

    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Use this routing table from now on."""

    routes: Mapping[str, tuple[Route, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Custom:
    """An instruction that only its own operation, or the engine, understands."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


Instruction = (
    SplitState | MergeState | SpreadState | LoadFunction | SetParameters | Reconnect | Custom
)

MOVES_STATE = (SplitState, MergeState, SpreadState)
"""Instructions that only a blocking operation may give."""


def instruction_name(instruction: Instruction) -> str:
    """How an engine names what it can carry out."""
    return instruction.name if isinstance(instruction, Custom) else type(instruction).__name__


def as_document(instruction: Instruction) -> Document:
    body: Document
    match instruction:
        case SplitState(keep, shares):
            body = {"keep": keep.intervals, "shares": [[to, k.intervals] for to, k in shares]}
        case MergeState(keys):
            body = {"keys": keys.intervals}
        case SpreadState(table, keys, among, to_all):
            body = {"table": table, "keys": keys.intervals, "among": among, "to_all": to_all}
        case LoadFunction(function):
            body = {"function": function}
        case SetParameters(values):
            body = {"values": dict(values)}
        case Reconnect(routes):
            body = {"routes": {s: [route_document(r) for r in rs] for s, rs in routes.items()}}
        case Custom(name, arguments):
            body = {"name": name, "arguments": dict(arguments)}
    return {"instruction": type(instruction).__name__, **body}


def from_document(document: Document) -> Instruction:
    match document["instruction"]:
        case "SplitState":
            shares = tuple((to, read_range(keys)) for to, keys in document["shares"])
            return SplitState(read_range(document["keep"]), shares)
        case "MergeState":
            return MergeState(read_range(document["keys"]))
        case "SpreadState":
            return SpreadState(
                document["table"],
                read_range(document["keys"]),
                tuple(document["among"]),
                document["to_all"],
            )
        case "LoadFunction":
            return LoadFunction(document["function"])
        case "SetParameters":
            return SetParameters(document["values"])
        case "Reconnect":
            routes = document["routes"].items()
            return Reconnect({stage: tuple(map(read_route, found)) for stage, found in routes})
        case "Custom":
            return Custom(document["name"], document["arguments"])
        case unknown:
            raise ProtocolError(f"there is no instruction {unknown!r}")
