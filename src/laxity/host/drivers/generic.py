"""Any engine with telling thread names: processes and threads by pattern, metrics from a page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from laxity.host.drivers.api import COMMON_METRICS, Targets, common_metrics
from laxity.host.drivers.jvm import thread_names
from laxity.host.drivers.pages import OperatorKey, Page, PageReader
from laxity.host.drivers.processes import ProcessFinder
from laxity.host.entities import (
    Deployment,
    LogicalOperator,
    PhysicalOperator,
    Query,
    Thread,
    entity_id,
)
from laxity.host.errors import DriverError, InvalidHostConfigError
from laxity.host.metrics import Snapshot, Values
from laxity.host.threads import ThreadTable

ThreadsOf = Mapping[OperatorKey, list[Thread]]


class GenericDriver:
    """`process` matches command lines; `thread` matches thread names and has the named groups
    `query` and `operator`. Threads of the same name are replicas.

    Shape: from the page, or `pipelines` (query pattern-free name → operators in order), or, with
    `chain=True`, operators in the order of their names. Java's long thread names are read with
    `java=True`; otherwise the kernel's 15 characters count.
    """

    def __init__(
        self,
        name: str,
        *,
        process: str,
        thread: str,
        page: PageReader | None = None,
        provides: Sequence[str] | None = None,
        targets: Targets | None = None,
        pipelines: Mapping[str, Sequence[str]] | None = None,
        chain: bool = False,
        java: bool = False,
    ) -> None:
        self.name = name
        self._finder = ProcessFinder(process)
        self._thread = re.compile(thread)
        if not {"query", "operator"} <= set(self._thread.groupindex):
            raise InvalidHostConfigError(
                f"thread pattern {thread!r} needs the named groups query and operator, such as "
                r"'(?P<query>\w+)-(?P<operator>\w+)'"
            )
        self._page = page
        self._targets = targets or Targets()
        self._pipelines = pipelines or {}
        self._chain = chain
        self._java = java
        self._java_names: dict[Thread, str] = {}
        self._table = ThreadTable()
        self._threads: ThreadsOf = {}
        self._shape: Mapping[OperatorKey, tuple[str, ...]] = {}
        self._deployment = Deployment(name)
        self._ids: dict[OperatorKey, list[str]] = {}
        """Logical id of an operator, and those of its replicas."""
        if provides is None:
            provides = sorted(page.read().values) if page else []
        self.metrics = COMMON_METRICS | frozenset(provides)

    def snapshot(self, now: float, wanted: frozenset[str]) -> Snapshot:
        page = self._page.read() if self._page else Page()
        pids = self._finder.find()
        if not pids:
            raise DriverError(f"no process matches the pattern of engine {self.name!r}")
        self._table.keep(pids)
        threads: dict[OperatorKey, list[Thread]] = {}
        for pid in pids:
            for thread, name in self._names(pid):
                match = self._thread.search(name)
                if match:
                    threads.setdefault((match["query"], match["operator"]), []).append(thread)
        if (threads, page.downstream) != (self._threads, self._shape):
            self._threads, self._shape = threads, page.downstream
            self._deployment = self._build(threads, page)
        raw = common_metrics(self._deployment, wanted, self._table.cpu_seconds)
        for metric in wanted - raw.keys():
            raw[metric] = self._values(page.values.get(metric, {}))
        return Snapshot(self._deployment, now, raw)

    def _names(self, pid: int) -> list[tuple[Thread, str]]:
        threads = self._table.of(pid)
        if not self._java:
            return [(thread, thread.name) for thread in threads]
        if any(thread not in self._java_names for thread in threads):
            names = thread_names(pid)
            self._java_names = {t: names.get(t.tid, t.name) for t in threads}
        return [(thread, self._java_names[thread]) for thread in threads]

    def _build(self, threads: ThreadsOf, page: Page) -> Deployment:
        def operator_id(key: OperatorKey) -> str:
            return entity_id(self.name, *key)

        downstream = self._downstream(sorted(threads), page)
        logical = tuple(
            LogicalOperator(
                operator_id(key),
                key[0],
                tuple(operator_id((key[0], d)) for d in downstream[key] if (key[0], d) in threads),
            )
            for key in sorted(threads)
        )
        physical = tuple(
            PhysicalOperator(f"{operator_id(key)}#{i}", key[0], (operator_id(key),), (thread,))
            for key, replicas in sorted(threads.items())
            for i, thread in enumerate(sorted(replicas))
        )
        names = dict.fromkeys(query for query, _ in sorted(threads))
        queries = tuple(Query(q, self.name, self._targets.of(q)) for q in names)
        self._ids = {
            key: [operator_id(key), *(f"{operator_id(key)}#{i}" for i in range(len(replicas)))]
            for key, replicas in threads.items()
        }
        return Deployment(self.name, queries, logical, physical)

    def _downstream(
        self, keys: Sequence[OperatorKey], page: Page
    ) -> dict[OperatorKey, tuple[str, ...]]:
        found: dict[OperatorKey, tuple[str, ...]] = {}
        operators: dict[str, list[str]] = {}
        for query, operator in keys:
            operators.setdefault(query, []).append(operator)
        for query, names in operators.items():
            order = self._pipelines.get(query) or (names if self._chain else ())
            following = dict(pairwise(order))
            for operator in names:
                default = (following[operator],) if operator in following else ()
                found[query, operator] = page.downstream.get((query, operator), default)
        return found

    def _values(self, said: Mapping[OperatorKey, float]) -> Values:
        """A page speaks of operators; each replica is taken to have an equal part, which leaves
        one replica with the operator's own value."""
        values: dict[str, float] = {}
        for key, value in said.items():
            if key in self._ids:
                operator, *replicas = self._ids[key]
                values[operator] = value
                for replica in replicas:
                    values[replica] = value / len(replicas)
        return values

    def close(self) -> None:
        self._table.close()
        if self._page is not None:
            self._page.close()
