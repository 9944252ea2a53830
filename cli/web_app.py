"""
The web process: the API and the pages as one application.

It puts their routes together, gives every answer what all have, and tells failures: to
people on a page, to programs as a problem.
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from importlib.metadata import version
from uuid import uuid4

import sqlalchemy as sa
import structlog
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import api.routes
import web.routes
from api.answers import ROOT
from api.openapi import make_document
from dispatch.bulk.runner import BulkRunner
from models.fields.app_bounds import AppBounds
from serving.refusals import HttpError, make_problem
from serving.services import Services
from telemetry import Event
from web.guarding import render_nowhere
from web.rendering import render_error

log = structlog.get_logger()

#: The pages last: what programs ask for has its own paths.
_ROUTERS = (
    *api.routes.PUBLIC_ROUTERS,
    *api.routes.ROUTERS,
    *web.routes.PUBLIC_ROUTERS,
    *web.routes.ROUTERS,
)

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
        with doing_bulk_changes(services.engine, services.terms.bounds):
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
    for router in _ROUTERS:
        # as they are: include_router would have the first request build each anew
        app.router.routes.extend(router.routes)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(Exception, _answer_defect)
    app.add_middleware(Envelope)
    app.openapi = make_document  # type: ignore[method-assign]  # as FastAPI says
    return app


class Envelope:
    """
    Gives each request its id, and each answer its headers.

    HEAD is answered as GET is, without the body: those who watch a service ask so.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Wrap *app*."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; only those of HTTP get anything."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # It has one already if another process of ours has handed it over.
        state = scope.setdefault("state", {})
        request_id = state.setdefault("request_id", str(uuid4()))
        marks = ((b"x-request-id", request_id.encode()), *_HEADERS)
        is_head = scope["method"] == "HEAD"
        if is_head:
            scope = {**scope, "method": "GET"}

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(pair for pair in marks if pair[0] not in given),
                ]
            elif is_head:
                message = {**message, "body": b""}
            await send(message)

        await self._app(scope, receive, send_marked)


async def _answer_http_error(request: Request, error: Exception) -> Response:
    """Answer what FastAPI itself refuses: an unknown path, a method."""
    assert isinstance(error, HTTPException)  # as it is registered
    status = HTTPStatus(error.status_code)
    told = {
        HTTPStatus.NOT_FOUND: _tell_nothing(request.url.path[:200]),
        HTTPStatus.METHOD_NOT_ALLOWED: f"{request.method} is not possible here",
    }
    detail = told.get(status, str(error.detail))
    headers = dict(error.headers or {})
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        methods = _find_methods(request)
        possible = methods | ({"HEAD"} if "GET" in methods else set())
        headers["Allow"] = ", ".join(sorted(possible))
    if _wants_page(request):
        refused = HttpError(status, detail, headers=headers)
        return await run_in_threadpool(render_nowhere, request, refused)
    return make_problem(status, detail, request.state.request_id, headers=headers)


def _tell_nothing(path: str) -> str:
    """Say that nothing is at *path*, and what was probably meant."""
    asked = path.split("/")
    known = set()
    for router in _ROUTERS:
        for route in router.routes:
            steps = route.path.split("/") if isinstance(route, APIRoute) else []
            if len(steps) == len(asked):
                pairs = zip(steps, asked, strict=True)
                known.add("/".join(b if a[:1] == "{" else a for a, b in pairs))
    near = difflib.get_close_matches(path, sorted(known), n=1, cutoff=0.8)
    meant = f". Did you mean {near[0]!r}?" if near else ""
    return f"there is nothing at {path!r}{meant}"


def _wants_page(request: Request) -> bool:
    """Tell whether a person looks: browsers say so of what they are sent to."""
    return not request.url.path.startswith(f"{ROOT}/") and (
        "text/html" in request.headers.get("accept", "")
    )


def _find_methods(request: Request) -> set[str]:
    """Return every method of a path; Starlette tells those of its first route alone."""
    return {
        method
        for route in request.app.routes
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
    if _wants_page(request):
        page = render_error(request, HttpError(status, detail))
        page.headers["x-request-id"] = request_id
        return page
    return make_problem(status, detail, request_id, headers=headers)


#: How long the batch under way may take to end, in seconds; another process goes on
#: with the bulk change when the claim has run out.
_GRACE_S = 5


@contextmanager
def doing_bulk_changes(
    engine: sa.Engine, bounds: Mapping[str, AppBounds]
) -> Iterator[None]:
    """Do the bulk changes that there are, until the block ends."""
    stop = threading.Event()
    runner = threading.Thread(
        target=BulkRunner(engine, bounds).run, args=(stop,), name="bulk", daemon=True
    )
    runner.start()
    try:
        yield
    finally:
        stop.set()
        runner.join(_GRACE_S)
