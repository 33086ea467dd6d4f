"""Control operations on a Spark query: `laxity.control`'s, with a boundary as their barrier.

To the control plane a Spark query is a dataflow of one operator. Its message is delivered while the
query stands between two micro-batches: nothing is in flight, all that came before is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from laxity.control.contexts import ControllerContext, OperatorContext
from laxity.control.instructions import Custom
from laxity.control.messages import ControlMessage
from laxity.control.operation import ControlOperation

if TYPE_CHECKING:
    from laxity.spark.control.query import QueryControl


class QueryHost:
    """The one operator: the query as a whole."""

    def __init__(self, query: QueryControl, name: str) -> None:
        self.query = query
        self._name = name
        self.batch = -1
        self.failure: Exception | None = None

    @property
    def name(self) -> str:
        return self._name

    def load_function(self, function: str) -> None:
        raise NotImplementedError("use Change(functions=…)")

    def set_parameters(self, values: Mapping[str, Any]) -> None:
        raise NotImplementedError("use Change(variables=…)")

    def split_state(self, keep: Any, share: Any) -> Any:
        raise NotImplementedError("Spark divides state: use Scale")

    def spread_state(self, table: str, keys: Any, among: Any, to_all: bool) -> Any:
        raise NotImplementedError("Spark divides state: use Scale")

    def merge_state(self, part: Any, keys: Any) -> None:
        raise NotImplementedError("Spark divides state: use Scale")

    def reconnect(self, routes: Any) -> None:
        raise NotImplementedError("Spark plans every batch anew")

    def perform(self, instruction: Custom) -> Any:
        raise NotImplementedError(instruction.name)

    def snapshot(self) -> Any:
        return {"batch": self.batch}

    def metrics(self) -> Mapping[str, Any]:
        return dict(self.query.streaming_query.lastProgress or {})


@dataclass(frozen=True)
class SparkOperation(ControlOperation):
    """Base of operations on Spark queries. Fields are JSON data; override `check` to refuse before
    anything changes, and `at_boundary` to act. Chi's own handlers can be overridden as well."""

    restarts: ClassVar[bool] = False
    """Whether it stops the query and starts it again, and so may take its time."""

    def check(self, query: QueryControl) -> None:
        """Raise what is wrong. The query runs on meanwhile."""

    def at_boundary(self, query: QueryControl, batch: int) -> dict[str, Any]:
        """Act, while the query stands before `batch`. Returns what the history shall tell."""
        return {}

    def on_complete_at_operator(self, ctx: OperatorContext) -> None:
        host = ctx.host
        assert isinstance(host, QueryHost)
        try:
            found = self.at_boundary(host.query, host.batch)
        except Exception as error:
            # The control plane must see an end, or nothing could ever run on this query again.
            host.failure = error
            found = {"failed": f"{type(error).__name__}: {error}"}
        ctx.attach_once("result", {"batch": host.batch, **found})

    def on_next_at_controller(self, ctx: ControllerContext, message: ControlMessage) -> None:
        ctx.result = message.payload["result"]
