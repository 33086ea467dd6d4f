"""Control operations over the API."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field

from laxity.server.control import Control, Controllable, Operation
from laxity.server.service import RefusedError
from laxity.server.snapshots import as_json
from laxity.server.watch import Watch


class Order(BaseModel):
    """An operation and what it takes, as in docs/control-on-spark.md."""

    model_config = ConfigDict(extra="forbid")
    operation: Annotated[str, Field(max_length=50, examples=["change", "undo"])]
    arguments: dict[str, Any] = Field(default_factory=dict, examples=[{"variables": {"A": 20}}])
    by: Annotated[str, Field(max_length=100)] = "api"


QueryName = Annotated[str, Path(max_length=200, description="Its name, or its id.")]


def add_routes(
    router: APIRouter, watch: Watch, prefix: str, *, reading: bool, responses: dict[Any, Any]
) -> None:
    def service() -> Controllable:
        if not isinstance(watch.service, Controllable):
            raise RefusedError("the queries served here cannot be changed in this way")
        return watch.service

    path = prefix + "/queries/{name}/control"
    if reading:

        @router.get(
            path,
            tags=["reading"],
            responses={200: {"model": Control}, **responses},
            response_class=Response,
        )
        def control(name: QueryName) -> Response:
            """Variables, settings, keys, and who changed what, when, before which batch."""
            return _json(service().control(name))

        return

    @router.post(
        path,
        tags=["changing"],
        responses={200: {"model": Operation}, **responses},
        response_class=Response,
    )
    def operate(name: QueryName, order: Order) -> Response:
        """Carry out an operation at the query's next boundary. Answers when the query goes on."""
        done = service().operate(name, order.operation, order.arguments, order.by)
        tenant = watch.service.detail(name).query.tenant
        watch.changed(name, tenant, f"{order.operation} by {order.by}", operation=done.id)
        return _json(done)


def _json(value: Any) -> Response:
    return Response(as_json(value), media_type="application/json")
