"""What answers without a key: whether the process lives, and what it is."""

from __future__ import annotations

from http import HTTPStatus
from importlib.metadata import version

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import HTMLResponse, JSONResponse, Response
from typing_extensions import TypedDict

from api.answers import RETRY_AFTER, answer
from models.door.action_schema import make_action_schema
from serving.refusals import MEDIA_TYPE, make_problem
from serving.services import Services

router = APIRouter(tags=["meta"])

_PROBLEM = "#/components/schemas/ProblemJson"


class VersionJson(TypedDict):
    """The version of the program."""

    version: str


class OkJson(TypedDict):
    """That the process answers, or can serve requests."""

    status: str


@router.get("/livez", response_model=OkJson)
async def read_liveness() -> Response:
    """Tell that the process answers; the database is not asked."""
    return answer({"status": "ok"})


class SchemaResponse(JSONResponse):
    """A JSON Schema."""

    media_type = "application/schema+json"


@router.get(
    "/readyz",
    response_model=OkJson,
    responses={
        503: {
            "description": "Not now.",
            "content": {MEDIA_TYPE: {"schema": {"$ref": _PROBLEM}}},
        }
    },
)
async def read_readiness(request: Request) -> Response:
    """
    Tell whether requests can be served: the database answers, and has our schema.

    The database is asked at most once a second, however many ask.
    """
    services: Services = request.app.state.services
    obstacle, _ = await services.obstacle.ask()
    if obstacle is None:
        return answer({"status": "ok"})
    headers = {"Retry-After": str(RETRY_AFTER)}
    request_id, away = request.state.request_id, HTTPStatus.SERVICE_UNAVAILABLE
    return make_problem(away, obstacle, request_id, headers=headers)


@router.get(
    "/schemas/scheduled-action",
    response_class=SchemaResponse,
    responses={200: {"content": {SchemaResponse.media_type: {"schema": {}}}}},
)
async def read_action_schema() -> Response:
    """
    Return the JSON Schema (2020-12) of a scheduled action.

    For editors; the server judges more than form.
    """
    return SchemaResponse(make_action_schema())


@router.get("/version", response_model=VersionJson)
async def read_version() -> Response:
    """Return the version of the program."""
    return answer({"version": version("minutehand")})


@router.get("/openapi.json", include_in_schema=False)
async def read_openapi(request: Request) -> Response:
    """Return the OpenAPI document of all routes."""
    return answer(request.app.openapi())


#: The page has nothing to load, to run or to send.
_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_PAGE = Markup(
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    "<h1>{title}</h1><p>{description}</p><p>Parameters, bodies, answers and examples:"
    ' <a href="/openapi.json">openapi.json</a>, which tools for OpenAPI 3.1 show.</p>'
    "<dl>{routes}</dl></html>"
)
_ROUTE = Markup("<dt><code>{method} {path}</code></dt><dd>{summary} ({role})</dd>")


@router.get("/docs", include_in_schema=False)
def read_reference(request: Request) -> Response:
    """Return a page that names all routes, and who may ask them what."""
    document = request.app.openapi()
    routes = [
        _ROUTE.format(
            method=method.upper(),
            path=path,
            summary=route["summary"],
            role=route.get("x-role", "no key"),
        )
        for path, item in document["paths"].items()
        for method, route in item.items()
    ]
    info = document["info"]
    page = _PAGE.format(
        title=f"{info['title']} HTTP API",
        description=info["description"],
        routes=Markup().join(routes),
    )
    return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})
