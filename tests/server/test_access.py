"""Who may look and who may change."""

from __future__ import annotations

import pytest

from laxity.server.access import (
    Access,
    AccessError,
    check_token,
    host_name,
    is_loopback,
    new_token,
    read_token,
)

TOKEN = "a-token-of-some-length"
HOST = {"host": "127.0.0.1:8642"}
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def local() -> Access:
    return Access.of("127.0.0.1", TOKEN)


@pytest.fixture
def public() -> Access:
    return Access.of("0.0.0.0", TOKEN)


def test_beyond_loopback_a_token_is_not_optional() -> None:
    with pytest.raises(AccessError, match="--token-file"):
        Access.of("0.0.0.0", None)
    with pytest.raises(AccessError, match="--token-file"):
        Access.of("::", None)


def test_on_loopback_one_is_made() -> None:
    one, other = Access.of("127.0.0.1", None), Access.of("localhost", None)
    assert not one.given
    assert len(one.token) >= 32
    assert one.token != other.token


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "[::1]", "localhost"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example.com", "127.0.0.1.x.io"],
)
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_loopback_may_look(local: Access) -> None:
    assert local.refuse_reading(HOST) is None


def test_a_rebound_name_may_not(local: Access) -> None:
    refusal = local.refuse_reading({"host": "attacker.example:8642"})
    assert refusal is not None
    assert refusal.status == 421


def test_strangers_may_not_look_without_the_token(public: Access) -> None:
    refusal = public.refuse_reading({"host": "spark.example:8642"})
    assert refusal is not None
    assert refusal.status == 401
    assert public.refuse_reading({"host": "spark.example:8642", **BEARER}) is None


@pytest.mark.parametrize(
    "sent",
    ["", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer tökén"],
)
def test_changes_need_the_token_even_on_loopback(local: Access, sent: str) -> None:
    refusal = local.refuse_changing({**HOST, "authorization": sent})
    assert refusal is not None
    assert refusal.status == 401


def test_with_it_they_pass(local: Access) -> None:
    assert local.refuse_changing({**HOST, **BEARER}) is None
    same = {"origin": "http://127.0.0.1:8642", "sec-fetch-site": "same-origin"}
    assert local.refuse_changing({**HOST, **BEARER, **same}) is None


@pytest.mark.parametrize(
    "foreign",
    [
        {"origin": "http://attacker.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_other_sites_may_not_change_even_with_it(local: Access, foreign: dict[str, str]) -> None:
    refusal = local.refuse_changing({**HOST, **BEARER, **foreign})
    assert refusal is not None
    assert refusal.status == 403


def test_tokens_are_long_and_plain(tmp_path: object) -> None:
    assert check_token(new_token())
    for bad in ("", "short", "with spaces in between", "ümlaut-ümlaut-ümlaut"):
        with pytest.raises(AccessError, match="token_urlsafe"):
            check_token(bad)


def test_a_token_from_a_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(file) == TOKEN
    with pytest.raises(AccessError, match="cannot read the token file"):
        read_token(tmp_path / "none")


def test_host_names() -> None:
    assert host_name("[::1]:80") == "::1"
    assert host_name("localhost:80") == "localhost"
    assert host_name("localhost") == "localhost"
