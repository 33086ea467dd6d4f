"""Where controllers keep their state: documents in tables, changed in transactions.

A change is on the disk before a controller sends anything that depends on it, so a new instance of
a failed controller knows all that the old one had promised.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from laxity.control.errors import StoreError


class Store(Protocol):
    """Documents are JSON data. Changes inside one transaction happen together or not at all."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        yield

    def get(self, table: str, key: str) -> Any | None: ...

    def put(self, table: str, key: str, document: Any) -> None: ...

    def items(self, table: str, prefix: str = "") -> list[tuple[str, Any]]:
        """In the order of their keys."""
        ...


class MemoryStore:
    """For tests and for dataflows that need not survive their process."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[str, str]] = {}

    @contextmanager
    def transaction(self) -> Iterator[None]:
        before = {table: dict(rows) for table, rows in self._tables.items()}
        try:
            yield
        except BaseException:
            self._tables = before
            raise

    def get(self, table: str, key: str) -> Any | None:
        found = self._tables.get(table, {}).get(key)
        return None if found is None else json.loads(found)

    def put(self, table: str, key: str, document: Any) -> None:
        self._tables.setdefault(table, {})[key] = _encode(document)

    def items(self, table: str, prefix: str = "") -> list[tuple[str, Any]]:
        rows = sorted(self._tables.get(table, {}).items())
        return [(key, json.loads(body)) for key, body in rows if key.startswith(prefix)]


class SqliteStore:
    """One file, synchronised with the disk at every commit. Several processes may share it."""

    def __init__(self, path: Path | str) -> None:
        try:
            self._connection = sqlite3.connect(
                path, timeout=30.0, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS documents "
                "(tbl TEXT, key TEXT, body TEXT NOT NULL, PRIMARY KEY (tbl, key)) WITHOUT ROWID"
            )
        except sqlite3.Error as error:
            raise StoreError(
                f"{path} cannot hold the control plane's state ({error}); give the path of a "
                f"file that is new or was made by Laxity, in a folder that can be written"
            ) from None

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._run("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._run("ROLLBACK")
            raise
        self._run("COMMIT")

    def get(self, table: str, key: str) -> Any | None:
        rows = self._run("SELECT body FROM documents WHERE tbl = ? AND key = ?", table, key)
        return json.loads(rows[0][0]) if rows else None

    def put(self, table: str, key: str, document: Any) -> None:
        self._run(
            "INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", table, key, _encode(document)
        )

    def items(self, table: str, prefix: str = "") -> list[tuple[str, Any]]:
        rows = self._run(
            "SELECT key, body FROM documents WHERE tbl = ? AND substr(key, 1, ?) = ? ORDER BY key",
            table,
            len(prefix),
            prefix,
        )
        return [(key, json.loads(body)) for key, body in rows]

    def _run(self, statement: str, *values: Any) -> list[Any]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"the control plane's store failed: {error}") from error


def _encode(document: Any) -> str:
    try:
        return json.dumps(document)
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"only JSON data can be kept ({error}); an operation's fields, results and snapshots "
            f"must be made of numbers, strings, booleans, lists and string-keyed dictionaries"
        ) from None
