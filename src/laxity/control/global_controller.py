"""A global controller: one decision over several dataflows (Chi §4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from laxity.control.controller import ControllerEffect, DataflowController
from laxity.control.errors import OperationInProgressError, UnknownVertexError
from laxity.control.graph import Document
from laxity.control.ledger import Entry, Status
from laxity.control.operation import ControlOperation, operation_from
from laxity.control.store import MemoryStore, Store


@dataclass(frozen=True, slots=True)
class Group:
    """Operations on several dataflows that were decided together: dataflow → operation's id."""

    id: str
    operations: Mapping[str, str]
    effects: Mapping[str, tuple[ControllerEffect, ...]]
    """What is to be carried out now; nothing for a group that is read from the store."""


class GlobalController:
    """Speaks to each dataflow's controller. Either all dataflows accept, or none is touched; a
    group is in the store before its first operation is sent, so that `recover` can finish it."""

    def __init__(
        self, controllers: Mapping[str, DataflowController], store: Store | None = None
    ) -> None:
        self._controllers = dict(controllers)
        self._store: Store = store if store is not None else MemoryStore()

    def submit(self, operations: Mapping[str, ControlOperation], now: float, by: str = "") -> Group:
        for dataflow, operation in operations.items():
            controller = self._controller(dataflow)
            controller.check(operation, now)
            busy = controller.ledger.exclusive_running()
            if operation.exclusive and busy is not None:
                raise OperationInProgressError(
                    f"{busy} is in progress on {dataflow!r}; wait for it"
                )
        wanted = {d: {"name": o.name, "arguments": o.arguments()} for d, o in operations.items()}
        with self._store.transaction():
            id_ = f"group-{len(self._store.items('groups')):06}"
            self._store.put("groups", id_, {"wanted": wanted, "by": by, "operations": {}})
        return self._send(id_, now)

    def recover(self, now: float) -> list[Group]:
        """Send what is left of groups that a failure of this controller has cut short."""
        unfinished = [
            id_
            for id_, document in self._store.items("groups")
            if document["operations"].keys() != document["wanted"].keys()
        ]
        return [self._send(id_, now) for id_ in unfinished]

    def groups(self) -> list[Group]:
        """All that were ever decided, in their order."""
        rows = self._store.items("groups")
        return [Group(id_, document["operations"], {}) for id_, document in rows]

    def _send(self, id_: str, now: float) -> Group:
        document: Document = self._store.get("groups", id_) or {}
        ids: dict[str, str] = dict(document["operations"])
        effects: dict[str, tuple[ControllerEffect, ...]] = {}
        mark = f"{document['by']} ({id_})".strip()
        for dataflow, wanted in document["wanted"].items():
            if dataflow in ids:
                continue
            controller = self._controller(dataflow)
            # Sent before the failure, but not written down here any more?
            sent = [entry.id for entry in controller.ledger.history() if entry.by == mark]
            if sent:
                ids[dataflow] = sent[0]
            else:
                operation = operation_from(wanted["name"], wanted["arguments"])
                submitted = controller.submit(operation, now, by=mark)
                assert submitted.entry is not None
                ids[dataflow], effects[dataflow] = submitted.entry.id, submitted.effects
            self._store.put("groups", id_, {**document, "operations": ids})
        return Group(id_, ids, effects)

    def entries(self, group: Group) -> dict[str, Entry]:
        return {
            dataflow: self._controller(dataflow).ledger.entry(operation)
            for dataflow, operation in group.operations.items()
        }

    def completed(self, group: Group) -> bool:
        return all(e.status is Status.COMPLETED for e in self.entries(group).values())

    def _controller(self, dataflow: str) -> DataflowController:
        try:
            return self._controllers[dataflow]
        except KeyError:
            known = ", ".join(sorted(self._controllers))
            raise UnknownVertexError(
                f"no controller for the dataflow {dataflow!r}; there are {known}"
            ) from None
