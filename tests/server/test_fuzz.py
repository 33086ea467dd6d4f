"""Schemathesis: whatever is sent, answers are as the API describes them, and never a 500."""

from __future__ import annotations

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.types import Receive, Scope, Send

from laxity.server.access import Access
from laxity.server.api import build_api
from laxity.server.front import Front
from laxity.server.watch import Watch
from server.conftest import TOKEN, scripted

_service = scripted()
_watch = Watch(_service, period=1.0)
_watch.look()
_front = Front(_watch, Access.of("127.0.0.1", TOKEN), build_api(_watch), None)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    await _front(scope, receive, send)


schema = schemathesis.openapi.from_asgi("/api/openapi.json", app, headers={"Host": "127.0.0.1"})


@schema.parametrize()
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_as_described(case: schemathesis.Case) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": "127.0.0.1"}
    # A string is a target only if it is a duration, which a schema cannot say.
    case.call_and_validate(headers=headers, excluded_checks=[positive_data_acceptance])
    _service.set_paused("alerts", False)


@schema.parametrize()
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_nothing_changes_without_the_token(case: schemathesis.Case) -> None:
    before = (
        [(q.target, q.paused) for q in _service.queries.values()],
        dict(_service.caps),
    )
    response = case.call(headers={"Host": "127.0.0.1"})
    assert response.status_code < 500
    if case.method not in ("GET", "HEAD"):
        assert response.status_code in (401, 403, 405, 421)
    after = (
        [(q.target, q.paused) for q in _service.queries.values()],
        dict(_service.caps),
    )
    assert before == after
