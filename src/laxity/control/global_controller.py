"""A global controller: one decision over several dataflows (Chi §4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from laxity.control.controller import ControllerEffect, DataflowController
from laxity.control.errors import OperationInProgressError, UnknownVertexError
from laxity.control.ledger import Entry, Status
from laxity.control.operation import ControlOperation


@dataclass(frozen=True, slots=True)
class Group:
    """Operations on several dataflows that were decided together: dataflow → operation's id."""

    operations: Mapping[str, str]
    effects: Mapping[str, tuple[ControllerEffect, ...]]


class GlobalController:
    """Speaks to each dataflow's controller. Either all dataflows accept, or none is touched."""

    def __init__(self, controllers: Mapping[str, DataflowController]) -> None:
        self._controllers = dict(controllers)

    def submit(self, operations: Mapping[str, ControlOperation], now: float, by: str = "") -> Group:
        for dataflow, operation in operations.items():
            controller = self._controller(dataflow)
            controller.check(operation, now)
            busy = controller.ledger.exclusive_running()
            if operation.exclusive and busy is not None:
                raise OperationInProgressError(
                    f"{busy} is in progress on {dataflow!r}; wait for it"
                )
        ids: dict[str, str] = {}
        effects: dict[str, tuple[ControllerEffect, ...]] = {}
        for dataflow, operation in operations.items():
            submitted = self._controller(dataflow).submit(operation, now, by=by)
            assert submitted.entry is not None
            ids[dataflow], effects[dataflow] = submitted.entry.id, submitted.effects
        return Group(ids, effects)

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
