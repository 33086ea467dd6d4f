"""Who may look and who may change: loopback looks freely, everything else needs the token.

A browser is not trusted for being on this machine: a page from elsewhere can make it send
requests here. So requests under a foreign host name (DNS rebinding) are refused, and changes need
the token in a header that no other site can make a browser send.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from laxity.core.errors import LaxityError

_LOCAL_NAMES = {"localhost", "localhost.localdomain", "ip6-localhost"}
_TOKEN = re.compile(r"[\x21-\x7e]+")
SHORTEST_TOKEN = 16


class AccessError(LaxityError, ValueError):
    """An address or token that would leave the door open."""


def new_token() -> str:
    return secrets.token_urlsafe(24)


def read_token(path: Path) -> str:
    """A token from a file, so that it shows neither in a process list nor in a shell history."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise AccessError(f"cannot read the token file {path}: {reason}") from error
    return check_token(text)


def check_token(token: str) -> str:
    if len(token) < SHORTEST_TOKEN or not _TOKEN.fullmatch(token):
        raise AccessError(
            f"a token has at least {SHORTEST_TOKEN} printable characters without spaces; "
            f"make one with: python -c 'import secrets; print(secrets.token_urlsafe(24))'"
        )
    return token


@lru_cache(maxsize=256)  # of what clients send as Host, too
def is_loopback(host: str) -> bool:
    name = host.strip("[]").lower()
    if name in _LOCAL_NAMES or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class Access:
    """The rules for one server. `given` says that a person chose the token."""

    host: str
    token: str
    given: bool = True

    @classmethod
    def of(cls, host: str, token: str | None) -> Access:
        """For an address: beyond loopback a token is not optional."""
        if token is not None:
            return cls(host, check_token(token))
        if not is_loopback(host):
            raise AccessError(
                f"{host} can be reached from other machines: give a token (--token-file FILE), "
                f"or listen on 127.0.0.1"
            )
        return cls(host, new_token(), given=False)

    @property
    def local(self) -> bool:
        return is_loopback(self.host)

    def refuse_reading(self, headers: Mapping[str, str]) -> Refusal | None:
        wrong_host = self.refuse_host(headers)
        if wrong_host is not None:
            return wrong_host
        if self.local or self._has_token(headers):
            return None
        return Refusal(401, "send the token as 'Authorization: Bearer TOKEN'")

    def refuse_changing(self, headers: Mapping[str, str]) -> Refusal | None:
        wrong_host = self.refuse_host(headers)
        if wrong_host is not None:
            return wrong_host
        if self._from_other_site(headers):
            return Refusal(403, "changes are not taken from other sites")
        if not self._has_token(headers):
            return Refusal(401, "changes need the token: 'Authorization: Bearer TOKEN'")
        return None

    def _has_token(self, headers: Mapping[str, str]) -> bool:
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        # Both as bytes and always compared: neither length nor content decides how long it takes.
        same = hmac.compare_digest(sent.strip().encode(), self.token.encode())
        return same and scheme.lower() == "bearer"

    def refuse_host(self, headers: Mapping[str, str]) -> Refusal | None:
        """Bound to loopback, only names of this machine are for us."""
        if not self.local:
            return None
        name = host_name(headers.get("host", ""))
        if name and not is_loopback(name):
            return Refusal(421, "this server answers only under names of this machine")
        return None

    @staticmethod
    def _from_other_site(headers: Mapping[str, str]) -> bool:
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return True
        origin = headers.get("origin")
        if origin is None:
            return False
        return origin.partition("://")[2].lower() != headers.get("host", "").lower()


def host_name(host: str) -> str:
    """Without the port: `[::1]:80` → ::1."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host
