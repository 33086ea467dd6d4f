"""The API's own page: its OpenAPI description as HTML, made here.

The usual viewers are scripts from another host; a page that needs none works behind every
firewall and has nothing to attack.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 14px/1.45 ui-monospace, monospace; }
pre { padding: .75rem; border: 1px solid var(--line); border-radius: 6px; overflow-x: auto; }
h2 code { font-size: 1.05rem; } h2 { margin: 2.5rem 0 .25rem; font-size: 1.1rem; }
.method { display: inline-block; min-width: 4.2em; font-weight: 700; color: #0b7285; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; border-bottom: 1px solid var(--line); padding: .3rem .6rem .3rem 0;
  vertical-align: top; }
@media (prefers-color-scheme: dark) { body { background: #14171c; color: #e6e8eb; }
  .method { color: #66d9e8; } }
"""


def render(schema: Mapping[str, Any]) -> str:
    info = schema["info"]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width, initial-scale=1'>",
        f"<title>{escape(info['title'])} API</title><style>{_STYLE}</style>",
        f"<h1>{escape(info['title'])} API</h1>",
        f"<p>{escape(info.get('summary', ''))} Version {escape(info['version'])}.</p>",
        "<p>The same as <a href='/api/openapi.json'>OpenAPI JSON</a>.</p>",
        f"<p>{escape(info.get('description', ''))}</p>",
    ]
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            parts.append(_operation(path, method, operation))
    parts.append("<h1>Bodies</h1>")
    for name, body in schema.get("components", {}).get("schemas", {}).items():
        parts.append(_body(name, body))
    return "\n".join(parts)


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    lines = [
        f"<h2><span class=method>{method.upper()}</span> <code>{escape(path)}</code></h2>",
        f"<p>{escape(operation.get('description', operation.get('summary', '')))}</p>",
    ]
    rows = []
    for parameter in operation.get("parameters", []):
        about = parameter.get("description", "")
        rows.append((parameter["name"], parameter["in"], _type(parameter["schema"]), about))
    for content in operation.get("requestBody", {}).get("content", {}).values():
        rows.append(("body", "JSON", _type(content["schema"]), ""))
    if rows:
        lines.append("<table><tr><th>takes<th>in<th>type<th>")
        lines += ["<tr>" + "".join(f"<td>{cell}" for cell in _escaped(row)) for row in rows]
        lines.append("</table>")
    answers = (
        f"<tr><td>{escape(status)}<td>{escape(answer.get('description', ''))}<td>"
        + ", ".join(
            _type(c["schema"]) for c in answer.get("content", {}).values() if c.get("schema")
        )
        for status, answer in operation.get("responses", {}).items()
    )
    lines.append("<table><tr><th>answers<th><th>" + "".join(answers) + "</table>")
    return "\n".join(lines)


def _escaped(row: tuple[str, str, str, str]) -> tuple[str, str, str, str]:
    name, where, kind, about = row
    return escape(name), escape(where), kind, escape(about)


def _body(name: str, body: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code><td>{_type(about)}"
        f"<td>{escape(about.get('description', ''))}"
        for field, about in body.get("properties", {}).items()
    )
    text = escape(body.get("description", "").splitlines()[0] if body.get("description") else "")
    return f"<h2 id='{escape(name)}'>{escape(name)}</h2><p>{text}</p><table>{rows}</table>"


def _type(schema: Mapping[str, Any]) -> str:
    """A schema in a word or two, with links to the bodies it names."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"<a href='#{escape(name)}'>{escape(name)}</a>"
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return " or ".join(_type(s) for s in schema[choice])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if "enum" in schema:
        return " or ".join(escape(json.dumps(value)) for value in schema["enum"])
    return escape(str(schema.get("type", "anything")))
