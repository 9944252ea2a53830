"""The application: routes, what every answer has, and what is told of failures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version
from uuid import uuid4

import structlog
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.background import doing_bulk_changes
from api.openapi import describe
from api.problems import make_problem
from api.routes import PUBLIC_ROUTERS, ROUTERS
from api.services import Services
from telemetry import Event

log = structlog.get_logger()

#: What every answer has: none is kept, guessed at, or shown in a frame of others.
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)


def make_app(services: Services) -> FastAPI:
    """
    Return the ASGI application of a web process.

    Args:
        services: The world that its routes work with.
    """

    @asynccontextmanager
    async def live(_app: FastAPI) -> AsyncIterator[None]:
        # As many as there are connections to the database: nobody waits for one.
        current_default_thread_limiter().total_tokens = services.settings.web_threads
        with doing_bulk_changes(services.engine):
            yield
        services.close()

    app = FastAPI(
        title="Minutehand",
        version=version("minutehand"),
        lifespan=live,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    for router in (*PUBLIC_ROUTERS, *ROUTERS):
        app.include_router(router)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(Exception, _answer_defect)
    app.add_middleware(Envelope)
    describe(app)
    return app


class Envelope:
    """Gives each request its id, and each answer its headers."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap *app*."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; only those of HTTP get anything."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = str(uuid4())
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode()),
                    *(pair for pair in _HEADERS if pair[0] not in given),
                ]
            await send(message)

        await self._app(scope, receive, send_marked)


async def _answer_http_error(request: Request, error: Exception) -> Response:
    """Answer what FastAPI itself refuses: an unknown path, a method."""
    assert isinstance(error, HTTPException)  # as it is registered
    status = HTTPStatus(error.status_code)
    told = {
        HTTPStatus.NOT_FOUND: f"there is nothing at {request.url.path[:200]!r}",
        HTTPStatus.METHOD_NOT_ALLOWED: f"{request.method} is not possible here",
    }
    detail = told.get(status, str(error.detail))
    headers = dict(error.headers or {})
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(sorted(_find_methods(request)))
    return make_problem(status, detail, request.state.request_id, headers=headers)


def _find_methods(request: Request) -> set[str]:
    """Return every method of a path; Starlette tells those of its first route alone."""
    return {
        method
        for router in (*PUBLIC_ROUTERS, *ROUTERS)
        for route in router.routes
        if isinstance(route, APIRoute)
        and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }


async def _answer_defect(request: Request, error: Exception) -> Response:
    """Answer what nobody expected: a defect of ours, of which only the log tells."""
    request_id = request.state.request_id
    log.error(
        Event.WEB_REQUEST_FAILED,
        request_id=request_id,
        method=request.method,
        route=getattr(request.scope.get("route"), "path", None),
        exc_info=error,
    )
    detail = "this is a defect of Minutehand; its log has more under the request_id"
    # This is answered outside of the envelope.
    headers = {name.decode(): value.decode() for name, value in _HEADERS}
    headers["x-request-id"] = request_id
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    return make_problem(status, detail, request_id, headers=headers)
