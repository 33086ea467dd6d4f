"""Where the orchestrator keeps what must outlive it: one document, and the number of its rule.

Assignments and moves are a few kilobytes that change a few times a minute, so the whole document
is written each time, in one transaction.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any, Protocol

from laxity.fleet.refusals import StoreAwayError


class MetadataStore(Protocol):
    def begin_term(self) -> int:
        """A number no earlier rule had. From here on only this one may save."""
        ...

    def load(self) -> dict[str, Any] | None: ...

    def save(self, document: dict[str, Any]) -> None:
        """Raises `StoreAwayError` if it cannot, or if a later rule has begun."""
        ...

    def close(self) -> None: ...


class SqliteStore:
    """A file beside the orchestrator: nothing further to run."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._term = 0
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, timeout=10)
            self._db.execute("PRAGMA journal_mode=WAL")
            with self._db:
                self._db.execute(
                    "CREATE TABLE IF NOT EXISTS fleet "
                    "(one INTEGER PRIMARY KEY CHECK (one = 1), term INTEGER, document TEXT)"
                )
                self._db.execute("INSERT OR IGNORE INTO fleet VALUES (1, 0, NULL)")
        except sqlite3.Error as error:
            raise StoreAwayError(f"cannot open the fleet's store {path}: {error}") from error

    def begin_term(self) -> int:
        with self._db:
            self._db.execute("UPDATE fleet SET term = term + 1")
        self._term = int(self._db.execute("SELECT term FROM fleet").fetchone()[0])
        return self._term

    def load(self) -> dict[str, Any] | None:
        text = self._db.execute("SELECT document FROM fleet").fetchone()[0]
        return None if text is None else json.loads(text)

    def save(self, document: dict[str, Any]) -> None:
        try:
            with self._db:
                done = self._db.execute(
                    "UPDATE fleet SET document = ? WHERE term = ?",
                    (json.dumps(document), self._term),
                )
        except sqlite3.Error as error:
            raise StoreAwayError(f"cannot write the fleet's store {self._path}: {error}") from error
        if done.rowcount != 1:
            raise StoreAwayError(f"another orchestrator has taken over {self._path}")

    def close(self) -> None:
        self._db.close()
