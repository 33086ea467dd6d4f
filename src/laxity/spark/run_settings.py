"""The settings of `laxity run`: a TOML file, and flags that outrank it.

Every key is known and checked; a typing error is refused by name instead of being ignored.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from laxity.core.durations import parse_duration, parse_target
from laxity.core.errors import LaxityError
from laxity.server.access import read_token
from laxity.spark.settings import Settings

DEFAULT_FILE = "laxity.toml"
DEFAULT_ADDRESS = "127.0.0.1:8642"


class RunSettingsError(LaxityError, ValueError):
    """A settings file or flag that cannot be used."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between the restarts of a query that keeps failing."""

    first: float = 1.0
    longest: float = 60.0
    most: int | None = None
    """Restarts in a row before it is given up; None never gives up."""
    healthy_after: float = 60.0
    """A query that ran so long has recovered: counting starts anew."""

    def pause(self, failures: int) -> float:
        """Before the restart that follows the n-th failure in a row."""
        return min(self.longest, self.first * 2.0 ** min(max(0, failures - 1), 60))

    def gives_up(self, failures: int) -> bool:
        return self.most is not None and failures > self.most


@dataclass(frozen=True, slots=True)
class RunSettings:
    master: str | None = None
    name: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    checkpoints: str | None = None
    spark_log: str = "ERROR"
    policy: str = "llf"
    options: Mapping[str, Any] = field(default_factory=dict)
    serve: bool = True
    address: str = DEFAULT_ADDRESS
    token: str | None = None
    period: float = 1.0
    events_file: Path | None = None
    webhook: str | None = None
    backoff: Backoff = Backoff()
    grace: float = 10.0
    caps: Mapping[str, int | float] = field(default_factory=dict)
    targets: Mapping[str, float | None] = field(default_factory=dict)

    def with_flags(self, **given: Any) -> RunSettings:
        """Flags outrank the file; those not given (None) leave it."""
        if given.get("master") is not None:
            check_master(given["master"])
        conf = {**self.conf, **(given.pop("conf", None) or {})}
        return replace(self, conf=conf, **{k: v for k, v in given.items() if v is not None})


def check_master(master: str) -> str:
    """Spark refuses others too, but with a stack trace of its own."""
    if not re.match(r"local($|\[|-cluster\[)|yarn$|spark://|k8s://", master):
        raise RunSettingsError(
            f"{master!r} is no master of Spark's: write local[4], spark://HOST:PORT, yarn or "
            f"k8s://https://HOST:PORT"
        )
    return master


def load_settings(path: Path | None, beside: Path) -> RunSettings:
    """The given file, or `laxity.toml` beside the pipeline if there is one."""
    if path is None:
        path = beside.parent / DEFAULT_FILE
        if not path.is_file():
            return RunSettings()
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RunSettingsError(f"cannot read the settings {path}: {error.strerror}") from error
    try:
        return parse_settings(tomllib.loads(text), path.parent)
    except tomllib.TOMLDecodeError as error:
        raise RunSettingsError(f"{path} is not TOML: {error}") from error
    except LaxityError as error:
        raise RunSettingsError(f"{path}: {error}") from error


def parse_settings(document: Mapping[str, Any], folder: Path = Path()) -> RunSettings:
    """From a parsed document; paths in it are relative to its folder."""
    top = _Table(document, "the file")
    session = top.table("session")
    laxity = top.table("laxity")
    server = top.table("server")
    events = top.table("events")
    restart = top.table("restart")
    tenants = top.table("tenants")
    targets = top.table("targets")
    top.end()
    options = laxity.rest()
    policy = options.pop("policy", "llf")
    Settings.of(**options)  # refuses what it does not know
    token_file = server.text("token-file")
    events_file = events.text("file")
    settings = RunSettings(
        master=session.text("master", check_master),
        name=session.text("name"),
        conf={k: _spark_value(k, v) for k, v in session.table("conf").rest().items()},
        checkpoints=_checkpoints(session.text("checkpoints"), folder),
        spark_log=session.text("log") or "ERROR",
        policy=_text("policy", policy),
        options=options,
        serve=server.flag("enabled", True),
        address=server.text("address") or DEFAULT_ADDRESS,
        token=None if token_file is None else read_token(folder / token_file),
        period=server.duration("period", 1.0),
        events_file=None if events_file is None else folder / events_file,
        webhook=events.text("webhook"),
        backoff=Backoff(
            restart.duration("first", 1.0),
            restart.duration("longest", 60.0),
            restart.count("most"),
            restart.duration("healthy-after", 60.0),
        ),
        grace=parse_duration(session.take("grace", 10.0), name="grace"),
        caps={name: _cap(name, tenants.table(name)) for name in tenants.names()},
        targets={
            name: None if value == "none" else parse_target(value, name=f"target of {name!r}")
            for name, value in targets.rest().items()
        },
    )
    for table in (session, server, events, restart):
        table.end()
    return settings


def _checkpoints(path: str | None, folder: Path) -> str | None:
    """`./here` is beside the settings; everything else is Spark's to read, on its file system."""
    if path is not None and path.startswith("./"):
        return (folder / path).resolve().as_uri()
    return path


def _cap(tenant: str, table: _Table) -> int | float:
    slots, share = table.count("cap"), table.take("share", None)
    table.end()
    if (slots is None) == (share is None):
        raise RunSettingsError(f"[tenants.{tenant}] takes cap = SLOTS or share = 0.5: one of them")
    if slots is not None:
        return slots
    if not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise RunSettingsError(f"a share is above 0 and at most 1, got {share!r}")
    return float(share)


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise RunSettingsError(f"{key} is a text in quotes, got {value!r}")
    return value


def _spark_value(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise RunSettingsError(
        f"[session.conf] {key} is not a text or number; put dotted names in quotes: "
        f'"spark.sql.shuffle.partitions" = 4'
    )


class _Table:
    """A TOML table whose every key must be asked for."""

    def __init__(self, values: object, name: str) -> None:
        if not isinstance(values, Mapping):
            raise RunSettingsError(f"{name} is a table, got {values!r}")
        self._values = dict(values)
        self._name = name
        self._known: list[str] = []

    def names(self) -> list[str]:
        return list(self._values)

    def take(self, key: str, default: Any) -> Any:
        self._known.append(key)
        return self._values.pop(key, default)

    def table(self, key: str) -> _Table:
        return _Table(self.take(key, {}), f"[{key}]")

    def text(self, key: str, check: Callable[[str], str] = str) -> str | None:
        value = self.take(key, None)
        return None if value is None else check(_text(key, value))

    def flag(self, key: str, default: bool) -> bool:
        value = self.take(key, default)
        if not isinstance(value, bool):
            raise RunSettingsError(f"{key} is true or false, got {value!r}")
        return value

    def count(self, key: str) -> int | None:
        value = self.take(key, None)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise RunSettingsError(f"{key} is a whole number from 1 on, got {value!r}")
        return value

    def duration(self, key: str, default: float) -> float:
        return parse_target(self.take(key, default), name=key)

    def rest(self) -> dict[str, Any]:
        rest, self._values = self._values, {}
        return rest

    def end(self) -> None:
        for key in self._values:
            raise RunSettingsError(
                f"{self._name} has no key {key!r}; it has {', '.join(sorted(self._known))}"
            )


def parse_pairs(pairs: list[str], flag: str, value: Callable[[str], Any] = str) -> dict[str, Any]:
    """`KEY=VALUE` flags."""
    found = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise RunSettingsError(f"{flag} takes KEY=VALUE, got {pair!r}")
        found[key.strip()] = value(text)
    return found
