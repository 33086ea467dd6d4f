"""A control message as bytes, laid out so that each operator reads its own part and no other.

    LXC1 | length of the head | head (JSON) | configurations, one after the other (JSON each)

The head tells where each operator's configuration lies. Forwarding makes a new head and takes the
configurations over as they are: what is meant for others is never parsed on the way.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from laxity.control.errors import ProtocolError
from laxity.control.messages import Configuration, ControlMessage, Delivery, Kind, Payload

_MAGIC = b"LXC1"
_HEAD = struct.Struct(">4sI")


def encode(message: ControlMessage) -> bytes:
    index: dict[str, tuple[int, int]] = {}
    parts: list[bytes] = []
    offset = 0
    for vertex, configuration in message.configurations.items():
        part = _json(configuration.as_document())
        index[vertex] = offset, len(part)
        parts.append(part)
        offset += len(part)
    return _framed(_head(message, index), b"".join(parts))


def decode(data: bytes, reader: str | None = None) -> ControlMessage:
    """The message, with the configuration of `reader` alone, or of everybody."""
    head, body = _parts(data)
    index: dict[str, list[int]] = head["index"]
    wanted = index if reader is None else {k: v for k, v in index.items() if k == reader}
    try:
        configurations = {
            vertex: Configuration.from_document(json.loads(body[start : start + length]))
            for vertex, (start, length) in wanted.items()
        }
        return ControlMessage(
            Delivery(**head["delivery"]),
            Kind(head["kind"]),
            head["name"],
            head["arguments"],
            configurations,
            head["payload"],
            tuple((source, payload) for source, payload in head["bundle"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"these bytes are no control message: {error}") from None


def forward(data: bytes, source: str, destination: str, payload: Payload | None = None) -> bytes:
    """The same message on its next channel, like `ControlMessage.forwarded`."""
    head, body = _parts(data)
    head["delivery"] |= {"source": source, "destination": destination}
    head["payload"] = dict(payload or {})
    return _framed(head, body)


def _head(message: ControlMessage, index: dict[str, tuple[int, int]]) -> dict[str, Any]:
    delivery = message.delivery
    return {
        "delivery": {name: getattr(delivery, name) for name in Delivery.__slots__},
        "kind": message.kind.value,
        "name": message.name,
        "arguments": dict(message.arguments),
        "payload": dict(message.payload),
        "bundle": [[source, dict(payload)] for source, payload in message.bundle],
        "index": index,
    }


def _framed(head: dict[str, Any], body: bytes) -> bytes:
    text = _json(head)
    return _HEAD.pack(_MAGIC, len(text)) + text + body


def _parts(data: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        magic, length = _HEAD.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError(f"they begin with {magic!r}, not {_MAGIC!r}")
        head = json.loads(data[_HEAD.size : _HEAD.size + length])
        if not isinstance(head, dict) or not {"index", "delivery"} <= head.keys():
            raise ValueError("their head is incomplete")
    except (struct.error, ValueError) as error:
        raise ProtocolError(f"these bytes are no control message: {error}") from None
    return head, data[_HEAD.size + length :]


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise ProtocolError(f"a control message carries JSON data only: {error}") from None
