"""
What every request passes before its route: the one place that lets callers in.

In this order: who asks (401), how often (429), whether the role suffices (403), what
the parameters are (422), and the body within its bounds (413, 415). How a face says
no, and what else it does around a route, is its own.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, field
from http import HTTPStatus
from inspect import iscoroutinefunction
from typing import Any, TypeVar

import structlog
from fastapi import Request
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response

import tracing
from models.door.json_text import LARGEST_TEXT
from models.errors import MinutehandError, UnreachableError
from models.role import Role
from serving.access.callers import Caller
from serving.access.keys import note_use
from serving.apart import is_large
from serving.context import Context, Needs
from serving.limits import RequestClass
from serving.refusals import HttpError, find_status
from serving.services import Services
from serving.signing_in import authenticate, refuse_too_many
from telemetry import Event

log = structlog.get_logger()

_Route = TypeVar("_Route", bound=Callable[..., Any])

#: What FastAPI makes of a route.
Handle = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(frozen=True, slots=True)
class Body:
    """
    What a route takes as its body: its decorator.

    Args:
        schema: A model, or how pydantic writes several; or JSON Schema.
        examples: Bodies that work, by name; the OpenAPI document shows them, and tests
            send them.
        largest: Bytes.
        types: Media types.
        required: Whether there must be one.
        others: Examples of media types that take others than the first, by type.
    """

    schema: Any
    examples: dict[str, Any]
    largest: int = LARGEST_TEXT
    types: tuple[str, ...] = ("application/json",)
    required: bool = True
    others: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    def __call__(self, route: _Route) -> _Route:
        """Say that *route* takes it."""
        route.takes = self  # type: ignore[attr-defined]
        return route


def heavy(route: _Route) -> _Route:
    """Say that a route takes long, so that a caller may ask for it less often."""
    route.is_heavy = True  # type: ignore[attr-defined]
    return route


class GuardedRoute(APIRoute):
    """A route that nobody reaches who is unknown, or whose role does not suffice."""

    @property
    def takes(self) -> Body | None:
        """What it takes as its body. None: nothing."""
        found: Body | None = getattr(self.endpoint, "takes", None)
        return found

    @property
    def role(self) -> Role:
        """The least role that it asks for."""
        (needs,) = (
            each.call
            for each in self.dependant.dependencies
            if isinstance(each.call, Needs)
        )
        assert isinstance(needs, Needs)  # see the condition above
        return needs.role

    @property
    def kind(self) -> RequestClass:
        """The class of its rate limit."""
        if getattr(self.endpoint, "is_heavy", False):
            return RequestClass.HEAVY
        return (
            RequestClass.READ
            if (self.methods or set()) <= {"GET", "HEAD"}
            else RequestClass.WRITE
        )

    def get_route_handler(self) -> Handle:
        """Put the guard before what FastAPI makes of the route."""
        handle = super().get_route_handler()

        async def guard(request: Request) -> Response:
            began_ns = time.time_ns()
            try:
                context = await self._admit(request)
            except MinutehandError as error:
                return await self._tell(request, error)
            with _trace(request, began_ns) as span:
                request.state.context = context
                try:
                    response = await _answer_apart(request, context)
                    if response is None:
                        async with self._share(context):
                            response = await self.answer(handle, request, context)
                except MinutehandError as error:
                    response = await self._tell(request, error)
                span.note(status=response.status_code)
            response.headers.update(request.state.limit_headers)
            if context.caller.use_is_due:
                await run_in_threadpool(_note_use, context)
            return response

        return guard

    @abstractmethod
    async def refuse(self, request: Request, error: MinutehandError) -> Response:
        """Answer somebody who was not let in."""

    @abstractmethod
    async def answer(
        self, handle: Handle, request: Request, context: Context
    ) -> Response:
        """Answer somebody who was, by calling *handle*; whatever it raises, too."""

    @abstractmethod
    def check_parameters(self, request: Request) -> None:
        """
        Refuse parameters that are wrong.

        Raises:
            HttpError: 422.
        """

    def _share(self, context: Context) -> AbstractAsyncContextManager[object]:
        # Others take no thread, or see to it themselves.
        is_in_thread = not iscoroutinefunction(self.endpoint)
        return context.share() if is_in_thread else nullcontext()

    async def _tell(self, request: Request, error: MinutehandError) -> Response:
        tell_unserved(request, error)
        return await self.refuse(request, error)

    async def _admit(self, request: Request) -> Context:
        services: Services = request.app.state.services
        request.state.limit_headers = {}
        caller = await run_in_threadpool(authenticate, services, request)
        request.state.caller = caller
        allowance = services.limits.take(caller.owner, self.kind)
        request.state.limit_headers = allowance.make_headers()
        refuse_too_many(allowance)
        caller.demand(self.role)
        self.check_parameters(request)
        body = await _read_body(request, self.takes)
        key = None
        if request.method == "POST":
            key = request.headers.get("idempotency-key")
        return make_context(request, caller, body, key)


def make_context(
    request: Request, caller: Caller, body: bytes = b"", key: str | None = None
) -> Context:
    """Return the context of a request of *caller*; *key* is that of a repeat."""
    services: Services = request.app.state.services
    whose = request, services, caller, request.state.request_id
    return Context(
        *whose, body, idempotency_key=key, last_event_id=services.hub.last_id
    )


def _trace(
    request: Request, began_ns: int
) -> AbstractContextManager[tracing.TraceSpan]:
    """Begin the span of a request that was let in; strangers fill no collector."""
    return tracing.answering(
        f"{request.method} {request.scope['route'].path}",
        request.headers.get(tracing.HEADER),
        since_ns=began_ns,
        request_id=request.state.request_id,
    )


async def _answer_apart(request: Request, context: Context) -> Response | None:
    """Return what another process answers. None: the body is small."""
    apart = context.services.apart
    if apart is None or not is_large(context.body):
        return None
    return await apart.answer(request, context.tenant, context.body)


def tell_unserved(request: Request, error: MinutehandError) -> None:
    """Log what was nobody's fault who asked."""
    if find_status(error) is HTTPStatus.SERVICE_UNAVAILABLE:
        log.warning(
            Event.WEB_REQUEST_UNSERVED,
            request_id=request.state.request_id,
            method=request.method,
            route=getattr(request.scope.get("route"), "path", None),
            error=str(error),
        )


def _note_use(context: Context) -> None:
    with suppress(UnreachableError):
        note_use(context.services.engine, context.caller)


async def _read_body(request: Request, takes: Body | None) -> bytes:
    """Return the body, if the route takes one; edge.py bounds how long it takes."""
    if takes is None:
        return b""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await collect_body(request, takes.largest)
    # Of a form, a browser would not ask the page before it sends it.
    if body and given not in takes.types:
        msg = f"the body is {given or 'of no type'}; this takes {takes.types[0]}."
        raise HttpError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            msg,
            parameter="Content-Type",
            hint=f"Send Content-Type: {takes.types[0]}.",
        )
    return body


async def collect_body(request: Request, largest: int) -> bytes:
    """
    Return the body of a request.

    Raises:
        HttpError: It has more than *largest* bytes: 413. Or the client left: nobody
            reads what it is told, and it is no defect of ours.
    """
    try:
        return await _collect(request, largest)
    except ClientDisconnect:
        msg = "the connection ended before the body did"
        raise HttpError(HTTPStatus.BAD_REQUEST, msg) from None


async def _collect(request: Request, largest: int) -> bytes:
    length = request.headers.get("content-length", "")
    body = bytearray()
    if not (length.isdigit() and int(length) > largest):
        async for chunk in request.stream():
            body += chunk
            if len(body) > largest:
                break
        else:
            return bytes(body)
    msg = f"the body is larger than {largest:,} bytes. Split it up."
    # What is still to come is not read.
    raise HttpError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, msg, headers={"Connection": "close"}
    )
