"""The REST API over real HTTP."""

from __future__ import annotations

import gzip
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from laxity.server.access import AccessError
from laxity.server.serving import AddressError, Server, parse_address
from laxity.server.testing import ScriptedService
from server.conftest import TOKEN, Client


def test_overview_shows_queries_and_tenants(client: Client) -> None:
    seen = client.get("/api/v1/overview").json()
    assert [q["name"] for q in seen["queries"]] == ["alerts", "bulk", "copy"]
    assert [t["name"] for t in seen["tenants"]] == ["ads", "reports"]
    assert seen["queries"][0]["latency"]["met"] == pytest.approx(2 / 3)


def test_a_query_by_name_or_id(client: Client) -> None:
    by_name = client.get("/api/v1/queries/alerts").json()
    assert by_name["misses"]["missed"] == 20
    assert client.get("/api/v1/queries/id-alerts").json()["query"] == by_name["query"]
    answer = client.get("/api/v1/queries/nobody")
    assert answer.status == 404
    assert "alerts" in answer.json()["error"]


def test_a_target_is_changed_while_it_runs(client: Client, service: ScriptedService) -> None:
    answer = client("PATCH", "/api/v1/queries/alerts", {"target": "500ms"})
    assert answer.status == 200
    assert answer.json()["query"]["target"] == 0.5
    assert service.queries["alerts"].target == 0.5
    overview = client.get("/api/v1/overview").json()
    assert overview["queries"][0]["target"] == 0.5
    client("PATCH", "/api/v1/queries/alerts", {"target": None})
    assert service.queries["alerts"].target is None


def test_pause_and_resume(client: Client, service: ScriptedService) -> None:
    client("PATCH", "/api/v1/queries/bulk", {"paused": True})
    assert service.queries["bulk"].paused
    assert client.get("/api/v1/queries/bulk").json()["query"]["state"] == "paused"
    client("PATCH", "/api/v1/queries/bulk", {"paused": False})
    assert not service.queries["bulk"].paused


def test_caps(client: Client, service: ScriptedService) -> None:
    answer = client("PUT", "/api/v1/tenants/reports/cap", {"slots": 2})
    assert [t["cap_slots"] for t in answer.json()["tenants"]] == [None, 2]
    client("PUT", "/api/v1/tenants/reports/cap", {"share": 0.5})
    assert service.caps == {"reports": 0.5}
    client("DELETE", "/api/v1/tenants/reports/cap")
    assert service.caps == {}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("PATCH", "/api/v1/queries/alerts", {"target": "soon"}, 400, "800ms"),
        ("PATCH", "/api/v1/queries/alerts", {"target": -1}, 422, "greater than 0"),
        ("PATCH", "/api/v1/queries/alerts", {}, 400, "say what to change"),
        ("PATCH", "/api/v1/queries/alerts", {"colour": "red"}, 422, "colour"),
        ("PATCH", "/api/v1/queries/nobody", {"paused": True}, 404, "alerts"),
        ("PATCH", "/api/v1/queries/alerts", b"{", 422, "JSON"),
        ("PUT", "/api/v1/tenants/ads/cap", {"slots": 0}, 422, "slots"),
        ("PUT", "/api/v1/tenants/ads/cap", {"slots": 1, "share": 0.5}, 422, "share"),
        ("PUT", "/api/v1/tenants/nobody/cap", {"slots": 1}, 404, "ads"),
        ("GET", "/api/v1/timeline?seconds=nan", None, 422, "seconds"),
        ("GET", "/api/v1/nothing", None, 404, "Not Found"),
        ("POST", "/api/v1/overview", {}, 405, "Not Allowed"),
        ("PATCH", "/api/v1/queries/alerts", b"x" * 70_000, 413, "bytes"),
    ],
)
def test_bad_requests_get_a_reason(
    client: Client, method: str, path: str, body: object, status: int, reason: str
) -> None:
    answer = client(method, path, body)
    assert answer.status == status
    assert reason in answer.json()["error"]
    assert b"Traceback" not in answer.body
    assert b"/src/" not in answer.body


def test_a_form_of_another_site_changes_nothing(client: Client, service: ScriptedService) -> None:
    form = {"Content-Type": "text/plain"}
    answer = client("PATCH", "/api/v1/queries/bulk", {"paused": True}, headers=form)
    assert answer.status == 415
    foreign = {"Origin": "http://attacker.example"}
    answer = client("PATCH", "/api/v1/queries/bulk", {"paused": True}, headers=foreign)
    assert answer.status == 403
    assert "access-control-allow-origin" not in answer.headers
    assert not service.queries["bulk"].paused


def test_changes_need_the_token(server: Server, service: ScriptedService) -> None:
    for token in (None, "another-token-entirely"):
        answer = Client(server.url, token)("PATCH", "/api/v1/queries/bulk", {"paused": True})
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert not service.queries["bulk"].paused
    assert Client(server.url, None).get("/api/v1/overview").status == 200


def test_a_rebound_host_name_is_refused(client: Client) -> None:
    assert client.get("/api/v1/overview", host="attacker.example").status == 421


def test_beyond_loopback_nothing_is_shown_without_the_token(service: ScriptedService) -> None:
    with Server(service, "0.0.0.0:0", token=TOKEN, dashboard=False) as public:
        stranger = Client(f"http://127.0.0.1:{public.port}", None)
        for path in ("/api/v1/overview", "/api/v1/queries/alerts", "/metrics", "/api/v1/events"):
            assert stranger.get(path).status == 401
        assert stranger.get("/healthz").json() == {"status": "ok"}
        friend = Client(stranger.url)
        assert friend.get("/api/v1/overview").status == 200


def test_beyond_loopback_a_server_without_a_token_does_not_start(service: ScriptedService) -> None:
    with pytest.raises(AccessError, match="--token-file"):
        Server(service, "0.0.0.0:0")


def test_everybody_gets_the_same_bytes(service: ScriptedService) -> None:
    """However many look within a period, the service is asked once."""
    with Server(service, "127.0.0.1:0", token=TOKEN, dashboard=False, period=60.0) as server:
        before = service.calls
        client = Client(server.url)
        with ThreadPoolExecutor(16) as pool:
            bodies = list(pool.map(lambda _: client.get("/api/v1/overview").body, range(200)))
            list(pool.map(lambda _: client.get("/api/v1/queries/alerts").body, range(200)))
    assert len(set(bodies)) == 1
    assert service.calls - before == 1, "the detail; the overview was there from the start"


@pytest.mark.parametrize("path", ["timeline?seconds=30", "events?limit=200", "queries/alerts"])
def test_what_dashboards_poll_is_made_once(service: ScriptedService, path: str) -> None:
    """And only the first who asks wakes the framework; the next ones get what lies ready."""
    with Server(service, "127.0.0.1:0", token=TOKEN, dashboard=False, period=60.0) as server:
        assert server.watch.ready(path) is None
        first = Client(server.url).get(f"/api/v1/{path}")
        page = server.watch.ready(path)
        assert page is not None
        assert page.body == first.body == Client(server.url).get(f"/api/v1/{path}").body


def test_a_query_string_is_not_part_of_a_name(server: Server, client: Client) -> None:
    assert client.get("/api/v1/queries/alerts?limit=200").json()["query"]["name"] == "alerts"
    assert client.get("/api/v1/events?limit=1&since=0").json()["events"]


def test_pages_are_packed_and_tagged(client: Client) -> None:
    packed = client.get("/api/v1/overview", accept_encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.body))["application"] == "scripted"


def test_an_unchanged_page_is_not_sent_again(server: Server, client: Client) -> None:
    server.watch.stop()  # so that it stays unchanged
    first = client.get("/api/v1/overview")
    again = client.get("/api/v1/overview", if_none_match=first.headers["etag"])
    assert again.status == 304
    assert again.body == b""


def test_a_service_that_breaks_is_reported_without_its_insides(
    server: Server, client: Client, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(seconds: float) -> None:
        raise RuntimeError("secret at /home/somebody/file.py")

    monkeypatch.setattr(service, "timeline", broken)
    answer = client.get("/api/v1/timeline?seconds=77")
    assert answer.status == 500
    assert b"secret" not in answer.body


def test_the_api_describes_itself(client: Client) -> None:
    schema = client.get("/api/openapi.json").json()
    assert set(schema["paths"]) >= {"/api/v1/overview", "/api/v1/queries/{name}", "/metrics"}
    page = client.get("/api")
    assert page.headers["content-type"].startswith("text/html")
    assert b"/api/v1/tenants/{tenant}/cap" in page.body
    assert b"<script" not in page.body


def test_changes_are_events(client: Client) -> None:
    client("PATCH", "/api/v1/queries/alerts", {"target": "1s"})
    events = client.get("/api/v1/events").json()["events"]
    assert events[-1]["kind"] == "changed"
    assert events[-1]["query"] == "alerts"
    later = client.get(f"/api/v1/events?since={events[-1]['number']}").json()["events"]
    assert later == []


def test_addresses() -> None:
    assert parse_address("9000") == ("127.0.0.1", 9000)
    assert parse_address(":9000") == ("127.0.0.1", 9000)
    assert parse_address("0.0.0.0:9000") == ("0.0.0.0", 9000)
    assert parse_address("[::1]:9000") == ("::1", 9000)
    assert parse_address("localhost") == ("localhost", 8642)
    for bad in ("localhost:http", "1.2.3.4:99999"):
        with pytest.raises(AddressError, match="HOST:PORT"):
            parse_address(bad)


def test_a_taken_port_is_said(server: Server, service: ScriptedService) -> None:
    with pytest.raises(AddressError, match="port 0"):
        Server(service, f"127.0.0.1:{server.port}", dashboard=False)
