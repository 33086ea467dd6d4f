"""Names of a JVM's threads, by Linux thread id.

The kernel keeps 15 characters of a name, too few to tell an engine's operators apart. HotSpot
tells the whole name in a thread dump, which it gives over a socket to anyone of the same user or
root: what `jcmd <pid> Thread.print` does, without starting a JVM each time.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from laxity.host.errors import DriverError

_THREAD = re.compile(r'"(?P<name>.*)" .*?\bnid=(?P<nid>0x[0-9a-f]+|\d+)')
_REQUEST = b"1\0threaddump\0\0\0\0"


def thread_names(pid: int, prefixes: Sequence[str] = ("",), timeout: float = 2.0) -> dict[int, str]:
    """Java threads only, of those the ones whose names begin like this; raises `DriverError`
    where the JVM cannot be asked. The JVM stops for some milliseconds to answer."""
    deadline = time.monotonic() + timeout
    inner = _namespaced_id(f"/proc/{pid}/status") or pid
    names = parse_thread_dump(_dump(pid, inner, deadline), prefixes)
    return names if inner == pid else _outer_ids(pid, names)


def parse_thread_dump(text: str, prefixes: Sequence[str] = ("",)) -> dict[int, str]:
    """Most of a dump are stack frames; going from name to name skips them."""
    names = {}
    for prefix in prefixes:
        opening = f'\n"{prefix}'
        at = text.find(opening)
        while at >= 0:
            thread = _THREAD.match(text, at + 1)
            if thread:
                names[int(thread["nid"], 0)] = thread["name"]
            at = text.find(opening, at + 1)
    return names


def _dump(pid: int, inner: int, deadline: float) -> str:
    door = Path(f"/proc/{pid}/root/tmp/.java_pid{inner}")
    try:
        if not door.is_socket():
            _ask_to_listen(pid, inner, door, deadline)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(max(0.05, deadline - time.monotonic()))
            connection.connect(str(door))
            connection.sendall(_REQUEST)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
    except OSError as error:
        raise DriverError(f"the JVM with pid {pid} gives no thread dump: {error}") from None
    status, _, text = answer.decode(errors="replace").partition("\n")
    if status.strip() != "0":
        raise DriverError(f"the JVM with pid {pid} refused a thread dump: {text.strip()[:200]}")
    return text


def _ask_to_listen(pid: int, inner: int, door: Path, deadline: float) -> None:
    """HotSpot opens the socket at SIGQUIT if a file of this name asks for it. Any other program
    would be ended by that signal, so make sure first."""
    if "libjvm.so" not in Path(f"/proc/{pid}/maps").read_text():
        raise DriverError(f"process {pid} is not a HotSpot JVM")
    request = Path(f"/proc/{pid}/root/tmp/.attach_pid{inner}")
    request.touch()
    # HotSpot ignores a request that is not owned by its own user.
    owner = os.stat(f"/proc/{pid}")
    with contextlib.suppress(PermissionError):
        os.chown(request, owner.st_uid, owner.st_gid)
    try:
        os.kill(pid, signal.SIGQUIT)
        while not door.is_socket():
            if time.monotonic() > deadline:
                raise DriverError(f"the JVM with pid {pid} did not open its attach socket in time")
            time.sleep(0.01)
    finally:
        request.unlink(missing_ok=True)


def _namespaced_id(status: str) -> int | None:
    """The id inside the innermost pid namespace, as the process itself knows it."""
    with contextlib.suppress(OSError):
        for line in Path(status).read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return None


def _outer_ids(pid: int, names: dict[int, str]) -> dict[int, str]:
    """A JVM in a container knows its threads by other ids than this host."""
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        inner = _namespaced_id(f"/proc/{pid}/task/{tid}/status")
        if inner in names:
            found[int(tid)] = names[inner]
    return found
