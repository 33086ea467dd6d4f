"""The state machines of figure 3b: which handler may follow which, at an operator and at the
controller. Transitions are tables; whatever is not in them cannot have happened.

    operator     WAITING ─first─► BEGUN ─each─► BEGUN ─last─► COMPLETED ─► DISPOSED
                                  (given up in any of these: ─cancel─► DISPOSED)
    controller   CREATED ─init─► SENT ─first─► BEGUN ─each─► BEGUN ─last─► COMPLETED ─► DISPOSED
"""

from __future__ import annotations

from enum import Enum

from laxity.control.errors import ProtocolError


class Phase(Enum):
    CREATED = "created"
    SENT = "sent"
    WAITING = "waiting"
    BEGUN = "begun"
    COMPLETED = "completed"
    DISPOSED = "disposed"


class Step(Enum):
    INIT = "init"
    BEGIN = "begin"
    NEXT = "next"
    COMPLETE = "complete"
    DISPOSE = "dispose"
    CANCEL = "cancel"


Table = dict[tuple[Phase, Step], Phase]

AT_OPERATOR: Table = {
    (Phase.WAITING, Step.BEGIN): Phase.BEGUN,
    (Phase.BEGUN, Step.NEXT): Phase.BEGUN,
    (Phase.BEGUN, Step.COMPLETE): Phase.COMPLETED,
    (Phase.COMPLETED, Step.DISPOSE): Phase.DISPOSED,
    (Phase.BEGUN, Step.CANCEL): Phase.DISPOSED,
    (Phase.COMPLETED, Step.CANCEL): Phase.DISPOSED,
}

AT_CONTROLLER: Table = {
    (Phase.CREATED, Step.INIT): Phase.SENT,
    (Phase.SENT, Step.BEGIN): Phase.BEGUN,
    (Phase.BEGUN, Step.NEXT): Phase.BEGUN,
    (Phase.BEGUN, Step.COMPLETE): Phase.COMPLETED,
    (Phase.COMPLETED, Step.DISPOSE): Phase.DISPOSED,
    (Phase.SENT, Step.CANCEL): Phase.DISPOSED,
    (Phase.BEGUN, Step.CANCEL): Phase.DISPOSED,
}


class Machine:
    """One operation's progress at one place: who has been heard, and who is awaited."""

    def __init__(self, table: Table, phase: Phase, expected: frozenset[str], where: str) -> None:
        self._table = table
        self._where = where
        self.phase = phase
        self.expected = expected
        self.heard: set[str] = set()

    def step(self, step: Step) -> None:
        try:
            self.phase = self._table[self.phase, step]
        except KeyError:
            raise ProtocolError(
                f"{self._where}: {step.value} cannot follow when it is {self.phase.value}"
            ) from None

    def hear(self, source: str) -> bool:
        """Whether this is the first word from an input. Later ones are repetitions of a restart."""
        if source not in self.expected:
            raise ProtocolError(
                f"{self._where}: a message from {source!r}, which is not among its inputs "
                f"{', '.join(sorted(self.expected))}"
            )
        if source in self.heard:
            return False
        self.heard.add(source)
        return True

    @property
    def all_heard(self) -> bool:
        return self.heard == self.expected
