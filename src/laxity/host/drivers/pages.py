"""Metrics of engines nobody wrote a driver for: a Prometheus page, or a JSON file.

Prometheus: `laxity_queue_size{query="alerts",operator="parse"} 17`; other metric and label names
can be mapped. JSON: `{"alerts": {"parse": {"queue_size": 17, "downstream": ["join"]}}}`; the
optional `downstream` gives the query its shape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from laxity.host.drivers.http import RestClient
from laxity.host.errors import DriverError

OperatorKey = tuple[str, str]
"""Query and operator."""

_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)\{(?P<labels>.*)\}\s+(?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(slots=True)
class Page:
    """What one reading of a page said."""

    values: dict[str, dict[OperatorKey, float]] = field(default_factory=dict)
    downstream: dict[OperatorKey, tuple[str, ...]] = field(default_factory=dict)

    def add(self, metric: str, key: OperatorKey, value: float) -> None:
        """Samples that differ in other labels, such as a subtask, add up."""
        of_metric = self.values.setdefault(metric, {})
        of_metric[key] = of_metric.get(key, 0.0) + value


def parse_prometheus(
    text: str,
    names: Mapping[str, str] | None = None,
    query_label: str = "query",
    operator_label: str = "operator",
) -> Page:
    """`names` maps ours to theirs; without it every `laxity_<metric>` is taken."""
    ours = {theirs: metric for metric, theirs in (names or {}).items()}
    page = Page()
    for line in text.splitlines():
        sample = _SAMPLE.match(line)
        if sample is None:
            continue
        name = sample["name"]
        metric = ours.get(name) or (name[7:] if not ours and name.startswith("laxity_") else None)
        labels = dict(_LABEL.findall(sample["labels"])) if metric else {}
        if metric and query_label in labels and operator_label in labels:
            try:
                page.add(
                    metric, (labels[query_label], labels[operator_label]), float(sample["value"])
                )
            except ValueError:
                continue
    return page


def parse_json(text: str) -> Page:
    page = Page()
    try:
        for query, operators in json.loads(text).items():
            for operator, said in operators.items():
                key = (query, operator)
                for name, value in said.items():
                    if name == "downstream":
                        page.downstream[key] = tuple(value)
                    else:
                        page.values.setdefault(name, {})[key] = float(value)
    except (ValueError, AttributeError, TypeError) as error:
        raise DriverError(f"the metrics file is not of the documented form: {error}") from None
    return page


class PageReader:
    """Reads a URL, a Prometheus file or (by its name) a JSON file."""

    def __init__(
        self,
        source: str,
        names: Mapping[str, str] | None = None,
        labels: tuple[str, str] = ("query", "operator"),
    ) -> None:
        self._source = source
        self._names = names
        self._labels = labels
        self._client = RestClient(source) if "://" in source else None

    def read(self) -> Page:
        if self._client is not None:
            text = self._client.text()
        else:
            try:
                text = Path(self._source).read_text()
            except OSError as error:
                raise DriverError(f"metrics file {self._source}: {error.strerror}") from None
        if self._source.endswith(".json"):
            return parse_json(text)
        return parse_prometheus(text, self._names, *self._labels)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
