"""The seam to an engine: what an operator of it must be able to do.

An engine gives each operator a host and a `ControlProcessor`, passes it the control messages that
arrive among the data, and carries out the effects that come back. It must deliver the messages of
a channel in order and exactly once, and process one message at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from laxity.control.graph import Route
from laxity.control.instructions import Custom
from laxity.control.keys import KeyRange

StatePart = Mapping[str, Any]
"""A piece of an operator's state on its way to another: opaque but to the engine's hosts."""


class OperatorHost(Protocol):
    """One operator, as the control plane sees it. What an engine cannot do it leaves out of the
    controller's `capabilities`; then the operation is refused before it is sent."""

    @property
    def name(self) -> str: ...

    def split_state(self, keep: KeyRange, share: KeyRange) -> StatePart:
        """Give away what lies in `share`; `keep` is what will be left after all shares."""
        ...

    def spread_state(
        self, table: str, keys: KeyRange, among: tuple[str, ...], to_all: bool
    ) -> Mapping[str, StatePart]:
        """A table's rows for some keys, for each of the helpers; this operator is one itself
        if it is in `among`."""
        ...

    def merge_state(self, part: StatePart, keys: KeyRange | None) -> None: ...

    def load_function(self, function: str) -> None: ...

    def set_parameters(self, values: Mapping[str, Any]) -> None: ...

    def reconnect(self, routes: Mapping[str, tuple[Route, ...]]) -> None: ...

    def perform(self, instruction: Custom) -> Any: ...

    def snapshot(self) -> Any:
        """A consistent copy of the operator's state, or a reference to one; JSON data."""
        ...

    def metrics(self) -> Mapping[str, Any]:
        """What monitoring may ask for; JSON data."""
        ...
