"""A server seen through another: views survive the way, errors keep their meaning."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laxity.server.client import RemoteError, RemoteService, normal_address, revive
from laxity.server.service import NotFoundError, RefusedError, Service, UnavailableError
from laxity.server.serving import Server
from laxity.server.snapshots import as_json
from laxity.server.testing import ScriptedService
from laxity.server.views import Overview, QueryDetail, QueryView, Timeline
from server.conftest import TOKEN


@pytest.fixture
def remote(server: Server) -> RemoteService:
    return RemoteService(server.url, TOKEN)


def test_it_is_a_service(remote: RemoteService) -> None:
    assert isinstance(remote, Service)


def test_views_survive_the_way(remote: RemoteService, service: ScriptedService) -> None:
    for kind, value in (
        (Overview, service.overview()),
        (QueryDetail, service.detail("alerts")),
        (Timeline, service.timeline(30)),
    ):
        again = revive(kind, json.loads(as_json(value)))
        assert type(again) is kind
        assert as_json(again) == as_json(value)
    assert remote.detail("alerts").query.name == "alerts"
    assert [q.name for q in remote.overview().queries] == ["alerts", "bulk", "copy"]
    assert remote.timeline(30).bars


@given(st.builds(QueryView, st.text(), behind=st.dictionaries(st.text(), st.floats(0, 9))))
def test_any_view_survives(view: QueryView) -> None:
    again = revive(QueryView, json.loads(as_json(view)))
    assert as_json(again) == as_json(view)


def test_what_a_newer_server_added_is_left_out() -> None:
    assert revive(QueryView, {"name": "a", "colour": "red"}) == QueryView("a")


def test_changes_arrive(remote: RemoteService, service: ScriptedService) -> None:
    remote.set_target("alerts", 0.5)
    remote.set_paused("bulk", True)
    remote.set_cap("reports", slots=3, share=None)
    assert service.queries["alerts"].target == 0.5
    assert service.queries["bulk"].paused
    assert service.caps == {"reports": 3}
    remote.set_cap("reports", slots=None, share=None)
    assert service.caps == {}


def test_errors_keep_their_meaning(remote: RemoteService, server: Server) -> None:
    with pytest.raises(NotFoundError, match="alerts"):
        remote.detail("nobody")
    with pytest.raises(RefusedError):
        remote.set_cap("ads", slots=0, share=None)
    with pytest.raises(RemoteError, match="--token-file"):
        RemoteService(server.url).set_paused("bulk", True)
    with pytest.raises(UnavailableError, match="cannot be reached"):
        RemoteService("127.0.0.1:9").overview()


def test_addresses() -> None:
    assert normal_address("8642") == "http://127.0.0.1:8642"
    assert normal_address("spark:8642") == "http://spark:8642"
    assert normal_address("https://spark/path?x") == "https://spark"
    with pytest.raises(RemoteError, match="HOST:PORT"):
        normal_address("ftp://spark")


def test_a_dashboard_of_another_server(server: Server, service: ScriptedService) -> None:
    """What `laxity dashboard` does: the token stays with the process in between."""
    with Server(RemoteService(server.url, TOKEN), "127.0.0.1:0", dashboard=False) as second:
        through = RemoteService(second.url, second.access.token)
        through.set_paused("bulk", True)
        assert service.queries["bulk"].paused
        assert through.detail("bulk").query.paused
