"""The REST API, described by OpenAPI.

Answers come ready-made from the `Watch`; the models here describe them and check what is sent in.
Every error is `{"error": reason}`: no traces, no paths.
"""

from __future__ import annotations

import logging
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from laxity import __version__
from laxity.core.durations import format_duration, parse_target
from laxity.core.errors import LaxityError
from laxity.server import control_api, events, views
from laxity.server.docs_page import render
from laxity.server.metrics import CONTENT_TYPE
from laxity.server.service import NotFoundError, RefusedError, UnavailableError
from laxity.server.snapshots import Page
from laxity.server.watch import Watch

log = logging.getLogger("laxity")

LONGEST_TIMELINE = 300.0
LONGEST_NAME = 200

PREFIX = "/api/v1"


class Problem(BaseModel):
    error: str


class Health(BaseModel):
    status: str


class EventList(BaseModel):
    events: list[events.Event]


class QueryChange(BaseModel):
    """What to change; what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")
    target: Annotated[str, Field(max_length=50)] | Annotated[float, Field(gt=0)] | None = Field(
        None, description='A duration: "800ms", "2h" or seconds; null makes it best effort.'
    )
    paused: bool = Field(
        False, description="Hold its next batch until it is resumed; nothing is lost."
    )


class SlotCap(BaseModel):
    """At most so many tasks at a time."""

    model_config = ConfigDict(extra="forbid")
    slots: Annotated[int, Field(ge=1, le=1_000_000, strict=True)]


class ShareCap(BaseModel):
    """At most a share of all cores."""

    model_config = ConfigDict(extra="forbid")
    share: Annotated[float, Field(gt=0, le=1, strict=True)]


_PROBLEMS: dict[int | str, dict[str, Any]] = {
    401: {"model": Problem, "description": "The token is missing or wrong."},
    421: {"model": Problem, "description": "Asked under a name that is not this machine's."},
    503: {"model": Problem, "description": "What is served has stopped or cannot be reached."},
}
_NO_SUCH: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "description": "No query or tenant of that name."}
}
_CHANGING: dict[int | str, dict[str, Any]] = {
    **_PROBLEMS,
    **_NO_SUCH,
    400: {"model": Problem, "description": "The change makes no sense."},
    403: {"model": Problem, "description": "Asked from another site."},
    413: {"model": Problem, "description": "The body is too large."},
    415: {"model": Problem, "description": "The body is not JSON."},
    422: {"model": Problem, "description": "A field has a value it cannot have."},
}

QueryName = Annotated[
    str, Path(max_length=LONGEST_NAME, description="Its name, or its id.", examples=["alerts"])
]
TenantName = Annotated[str, Path(max_length=LONGEST_NAME, examples=["ads"])]


def build_api(watch: Watch) -> FastAPI:
    api = FastAPI(
        title="Laxity",
        version=__version__,
        summary="Streaming queries and their deadlines.",
        description=(
            "Reading needs no token on loopback; elsewhere, and for every change, send it as "
            "`Authorization: Bearer TOKEN`."
        ),
        openapi_url="/api/openapi.json",
        docs_url=None,  # FastAPI's own page loads scripts from another host
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )
    api.include_router(_reading(watch))
    api.include_router(_changing(watch))
    _describe_security(api)

    @api.get("/api", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(render(api.openapi()))

    @api.get("/healthz", tags=["operation"], response_model=Health)
    def health() -> Response:
        """Is the server up? Says nothing else, and needs no token."""
        return JSONResponse({"status": "ok"})

    _handle_errors(api)
    return api


def _reading(watch: Watch) -> APIRouter:
    router = APIRouter()

    @router.get(
        f"{PREFIX}/overview",
        tags=["reading"],
        responses={200: {"model": views.Overview}, **_PROBLEMS},
        response_class=Response,
    )
    def overview() -> Response:
        """Every query and tenant at a glance, as of the last period."""
        watch.overview()
        page = watch.overview_page()
        return json_page(page) if page is not None else _problem(503, "not ready yet")

    @router.get(
        PREFIX + "/queries/{name}",
        tags=["reading"],
        responses={
            200: {"model": views.QueryDetail},
            422: {"model": Problem},
            **_PROBLEMS,
            **_NO_SUCH,
        },
        response_class=Response,
    )
    def query(name: QueryName) -> Response:
        """One query: its results, where the time of missed ones went, its plan and costs."""
        return json_page(watch.detail_page(name))

    @router.get(
        f"{PREFIX}/timeline",
        tags=["reading"],
        responses={200: {"model": views.Timeline}, 422: {"model": Problem}, **_PROBLEMS},
        response_class=Response,
    )
    def timeline(
        seconds: Annotated[float, Query(ge=1, le=LONGEST_TIMELINE, allow_inf_nan=False)] = 30.0,
    ) -> Response:
        """What ran and what waited, in the last seconds."""
        return json_page(watch.timeline_page(round(seconds)))

    @router.get(
        f"{PREFIX}/events",
        tags=["reading"],
        responses={200: {"model": EventList}, 422: {"model": Problem}, **_PROBLEMS},
        response_class=Response,
    )
    def recent_events(
        since: Annotated[int, Query(ge=0, le=2**53, description="After this number.")] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        """Misses, overloads, failures, recoveries and changes, oldest first."""
        return json_page(watch.events_page(since, limit))

    @router.get(
        "/metrics",
        tags=["operation"],
        responses={200: {"content": {"text/plain": {}}}, **_PROBLEMS},
        response_class=Response,
    )
    def metrics() -> Response:
        """For Prometheus."""
        return Response(watch.metrics_page().body, media_type=CONTENT_TYPE)

    control_api.add_routes(
        router,
        watch,
        PREFIX,
        reading=True,
        responses={400: _CHANGING[400], 422: {"model": Problem}, **_PROBLEMS, **_NO_SUCH},
    )
    return router


def _changing(watch: Watch) -> APIRouter:
    router = APIRouter()

    @router.patch(
        PREFIX + "/queries/{name}",
        tags=["changing"],
        responses={200: {"model": views.QueryDetail}, **_CHANGING},
        response_class=Response,
    )
    def change_query(name: QueryName, change: QueryChange) -> Response:
        """Set or lift its target, pause or resume it, while it runs."""
        asked = change.model_fields_set
        if not asked:
            raise RefusedError("say what to change: target, paused or both")
        found = watch.service.detail(name).query
        if "target" in asked:
            seconds = None if change.target is None else parse_target(change.target)
            watch.service.set_target(found.name, seconds)
            what = "best effort" if seconds is None else format_duration(seconds)
            watch.changed(found.name, found.tenant, f"target is now {what}", target=seconds)
        if "paused" in asked:
            watch.service.set_paused(found.name, change.paused)
            what = "paused" if change.paused else "resumed"
            watch.changed(found.name, found.tenant, what, paused=change.paused)
        return json_page(watch.detail_page(found.name))

    @router.put(
        PREFIX + "/tenants/{tenant}/cap",
        tags=["changing"],
        responses={200: {"model": views.Overview}, **_CHANGING},
        response_class=Response,
    )
    def set_cap(tenant: TenantName, cap: SlotCap | ShareCap) -> Response:
        """Limit what a tenant may use at a time."""
        slots = cap.slots if isinstance(cap, SlotCap) else None
        share = cap.share if isinstance(cap, ShareCap) else None
        _check_tenant(watch, tenant)
        watch.service.set_cap(tenant, slots=slots, share=share)
        text = f"{share:.0%} of the cores" if slots is None else f"{slots} slots"
        watch.changed("", tenant, f"cap is now {text}", slots=slots, share=share)
        return overview_now(watch)

    @router.delete(
        PREFIX + "/tenants/{tenant}/cap",
        tags=["changing"],
        responses={200: {"model": views.Overview}, **_CHANGING},
        response_class=Response,
    )
    def lift_cap(tenant: TenantName) -> Response:
        """Lift a tenant's cap."""
        _check_tenant(watch, tenant)
        watch.service.set_cap(tenant, slots=None, share=None)
        watch.changed("", tenant, "cap is lifted")
        return overview_now(watch)

    control_api.add_routes(router, watch, PREFIX, reading=False, responses=_CHANGING)
    return router


def _check_tenant(watch: Watch, name: str) -> None:
    """A cap for a name that no query has would be kept forever and do nothing."""
    known = [t.name for t in watch.overview().tenants]
    if name not in known:
        raise NotFoundError(f"no tenant is named so; there are: {', '.join(known) or 'none'}")


def overview_now(watch: Watch) -> Response:
    watch.overview()
    page = watch.overview_page()
    return _problem(503, "not ready yet") if page is None else json_page(page)


def json_page(page: Page) -> Response:
    return Response(page.body, media_type="application/json", headers={"etag": page.tag.decode()})


def _problem(status: int, reason: str) -> Response:
    return JSONResponse({"error": reason}, status_code=status)


def _describe_security(api: FastAPI) -> None:
    make = api.openapi

    def described() -> dict[str, Any]:
        if api.openapi_schema is None:
            schema = make()
            schema.setdefault("components", {})["securitySchemes"] = {
                "token": {"type": "http", "scheme": "bearer"}
            }
            for path in schema["paths"].values():
                for method, operation in path.items():
                    reads = method == "get"
                    operation["security"] = [{"token": []}, *([{}] if reads else [])]
        return api.openapi_schema or {}

    api.openapi = described  # type: ignore[method-assign]


def _methods(api: FastAPI, request: Request) -> list[str]:
    """Everything a path answers; the framework names the methods of one route only."""
    found: set[str] = set()
    for method in ("GET", "PATCH", "PUT", "DELETE", "POST"):
        scope = {**request.scope, "method": method}
        if any(route.matches(scope)[0] is Match.FULL for route in api.routes):
            found.add(method)
    return sorted(found)


def _handle_errors(api: FastAPI) -> None:
    @api.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        reasons = []
        for found in error.errors()[:5]:
            where = ".".join(str(part) for part in found["loc"][1:])
            reasons.append(f"{where}: {found['msg']}" if where else str(found["msg"]))
        return _problem(422, "; ".join(reasons))

    @api.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        answer = _problem(error.status_code, str(error.detail))
        answer.headers.update(error.headers or {})
        if error.status_code == 405:
            answer.headers["allow"] = ", ".join(_methods(api, request))
        return answer

    @api.exception_handler(LaxityError)
    async def expected(_: Request, error: LaxityError) -> Response:
        if isinstance(error, NotFoundError):
            return _problem(404, str(error))
        if isinstance(error, UnavailableError):
            return _problem(503, str(error))
        return _problem(400, str(error))

    @api.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        log.warning(
            "%s %s failed: %s: %s", request.method, request.url.path, type(error).__name__, error
        )
        return _problem(500, "something went wrong here; the server's log says what")
