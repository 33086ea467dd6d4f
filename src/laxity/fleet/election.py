"""Who is the orchestrator: at most one at a time, the others stand by."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import threading
from pathlib import Path
from typing import IO, Protocol

from laxity.fleet.client import LEADER_FILE, TOKEN_FILE


class Election(Protocol):
    def win(self, url: str, stop: threading.Event) -> bool:
        """Wait until it is our turn, and leave our address where agents look. False if `stop`
        came first."""
        ...

    @property
    def leads(self) -> bool:
        """Still? Whoever cannot be sure says no."""
        ...

    @property
    def lost(self) -> bool:
        """For good: another may lead by now."""
        ...

    def resign(self) -> None: ...


class FolderElection:
    """A lock on a file of the state folder: the kernel gives it up with the process, however
    that ends, and never while it lives."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._file: IO[str] | None = None

    def win(self, url: str, stop: threading.Event) -> bool:
        file = open(self._folder / "leader.lock", "a")  # noqa: SIM115  # held while we lead
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if stop.wait(0.2):
                    file.close()
                    return False
        self._file = file
        draft = self._folder / f".{LEADER_FILE}.{os.getpid()}"
        draft.write_text(json.dumps({"url": url, "pid": os.getpid()}))
        os.replace(draft, self._folder / LEADER_FILE)
        return True

    @property
    def leads(self) -> bool:
        return self._file is not None

    @property
    def lost(self) -> bool:
        return False

    def resign(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def make_token(folder: Path) -> str:
    """The fleet's shared secret: made once, readable by its owner alone."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / TOKEN_FILE
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(handle, "w") as file:
        token = secrets.token_urlsafe(24)
        file.write(token)
    return token
