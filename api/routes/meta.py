"""What answers without a key: whether the process lives, and what it is."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter, Request
from starlette.responses import Response
from typing_extensions import TypedDict

from api.answers import answer

router = APIRouter(tags=["meta"])


class VersionJson(TypedDict):
    """The version of the program."""

    version: str


class LiveJson(TypedDict):
    """That the process answers."""

    status: str


@router.get("/livez", response_model=LiveJson)
async def read_liveness() -> Response:
    """Tell that the process answers; the database is not asked."""
    return answer({"status": "ok"})


@router.get("/version", response_model=VersionJson)
async def read_version() -> Response:
    """Return the version of the program."""
    return answer({"version": version("minutehand")})


@router.get("/openapi.json", include_in_schema=False)
async def read_openapi(request: Request) -> Response:
    """Return the OpenAPI document of all routes."""
    return answer(request.app.openapi())
