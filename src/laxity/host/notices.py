"""Saying a thing once: a fault that lasts is one line when it begins and one when it is over."""

from __future__ import annotations

import logging
from collections.abc import Callable

_log = logging.getLogger("laxity.host")


class Notices:
    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self._say = say or _log.warning
        self._current: dict[str, str] = {}

    @property
    def current(self) -> tuple[str, ...]:
        """What is still wrong."""
        return tuple(self._current.values())

    def report(self, key: str, message: str) -> None:
        """Said the first time, and again only after it was over."""
        if key not in self._current:
            self._say(message)
        self._current[key] = message

    def over(self, key: str, message: str | None = None) -> None:
        if self._current.pop(key, None) is not None and message is not None:
            self._say(message)

    def tell(self, message: str) -> None:
        """An event, not a state."""
        self._say(message)
