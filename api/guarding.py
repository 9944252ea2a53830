"""
What every request passes before its route: the one place that lets callers in.

In this order: who asks (401), how often (429), whether the role suffices (403), unknown
parameters (422), the body within its bounds (413, 415), and whether it is a repeat of
one that was answered before. Whatever the route raises leaves as a problem.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar, assert_never

import sqlalchemy as sa
import structlog
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from api.context import Context, Needs
from api.limits import Kind
from api.parameters import check_parameters, restate_parameters
from api.problems import ApiError, answer_error, find_status
from api.services import Services
from api.signing_in import authenticate, refuse_too_many
from models.door.json_text import LARGEST_TEXT
from models.errors import MinutehandError, UnreachableError
from models.fields.strict_model import DocumentModel
from overview.access.keys import note_use
from overview.access.repeats import (
    Fresh,
    OtherBody,
    Repeated,
    StillRunning,
    abandon,
    begin,
    finish,
)
from overview.access.roles import Role
from telemetry import Event

log = structlog.get_logger()

_Route = TypeVar("_Route", bound=Callable[..., Any])

#: Headers of an answer that its repeat has, too.
_KEPT = frozenset({"content-type", "etag", "location"})


@dataclass(frozen=True, slots=True)
class Body:
    """
    What a route takes as its body.

    Args:
        schema: A model, or JSON Schema.

        examples: Bodies that work, by name; the OpenAPI document shows them, and tests
            send them.

        largest: Bytes.

        types: Media types.

        required: Whether there must be one.

        others: Examples of media types that take others than the first, by type.
    """

    schema: type[DocumentModel] | dict[str, Any]
    examples: dict[str, Any]
    largest: int = LARGEST_TEXT
    types: tuple[str, ...] = ("application/json",)
    required: bool = True
    others: Mapping[str, dict[str, Any]] = field(default_factory=dict)


def takes(
    schema: type[DocumentModel] | dict[str, Any],
    *,
    examples: dict[str, Any],
    largest: int = LARGEST_TEXT,
    types: tuple[str, ...] = ("application/json",),
    required: bool = True,
    others: Mapping[str, dict[str, Any]] | None = None,
) -> Callable[[_Route], _Route]:
    """Say what a route takes as its body: see ``Body``."""

    def mark(route: _Route) -> _Route:
        route.takes = Body(  # type: ignore[attr-defined]
            schema, examples, largest, types, required, others or {}
        )
        return route

    return mark


def secret(route: _Route) -> _Route:
    """Say that the answer of a route has a secret, which is kept for no repeat."""
    route.is_secret = True  # type: ignore[attr-defined]
    return route


def _note_use(context: Context) -> None:
    with suppress(UnreachableError):
        note_use(context.services.engine, context.caller)


class GuardedRoute(APIRoute):
    """A route that nobody reaches without a key whose role suffices."""

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

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Put the guard before what FastAPI makes of the route."""
        handle = super().get_route_handler()

        async def guard(request: Request) -> Response:
            request_id: str = request.state.request_id
            try:
                context = await self._admit(request)
            except MinutehandError as error:
                _tell_unserved(request, error)
                return answer_error(error, request_id)
            request.state.context = context
            if context.idempotency_key is None:
                response = await _answer(handle, request, context)
            else:
                response = await _answer_once(
                    handle, request, context, is_secret=self.is_secret
                )
            response.headers.update(request.state.limit_headers)
            if context.caller.use_is_due:
                await run_in_threadpool(_note_use, context)
            return response

        return guard

    async def _admit(self, request: Request) -> Context:
        services: Services = request.app.state.services
        request.state.limit_headers = {}
        caller = await run_in_threadpool(authenticate, services, request)
        verdict = services.limits.take(caller.owner, self.kind)
        request.state.limit_headers = verdict.make_headers()
        refuse_too_many(verdict)
        caller.demand(self.role)
        check_parameters(request, self.dependant)
        body = await _read_body(request, self.takes)
        key = None
        if request.method == "POST":
            key = request.headers.get("idempotency-key")
        return Context(
            request=request,
            services=services,
            caller=caller,
            request_id=request.state.request_id,
            body=body,
            idempotency_key=key,
        )

    @property
    def is_secret(self) -> bool:
        """Whether its answer may not be kept for repeats."""
        return bool(getattr(self.endpoint, "is_secret", False))

    @property
    def kind(self) -> Kind:
        """The class of its rate limit."""
        if getattr(self.endpoint, "is_heavy", False):
            return Kind.HEAVY
        return Kind.READ if (self.methods or set()) <= {"GET", "HEAD"} else Kind.WRITE


def heavy(route: _Route) -> _Route:
    """Say that a route takes long, so that a caller may ask for it less often."""
    route.is_heavy = True  # type: ignore[attr-defined]
    return route


_Handle = Callable[[Request], Coroutine[Any, Any, Response]]


async def _answer(handle: _Handle, request: Request, context: Context) -> Response:
    try:
        return await handle(request)
    except RequestValidationError as error:
        refused = restate_parameters(error)
        return answer_error(refused, context.request_id)
    except MinutehandError as error:
        _tell_unserved(request, error)
        return answer_error(error, context.request_id, context.body)


def _tell_unserved(request: Request, error: MinutehandError) -> None:
    """Log what was nobody's fault who asked."""
    if find_status(error) is HTTPStatus.SERVICE_UNAVAILABLE:
        log.warning(
            Event.WEB_REQUEST_UNSERVED,
            request_id=request.state.request_id,
            method=request.method,
            route=getattr(request.scope.get("route"), "path", None),
            error=str(error),
        )


async def _answer_once(
    handle: _Handle, request: Request, context: Context, *, is_secret: bool
) -> Response:
    """Answer a POST that may be repeated: the work is done for the first one alone."""
    engine = context.services.engine
    key = context.idempotency_key
    assert key is not None  # by the caller
    told = [f"{name}: {text}" for name, text in request.headers.items() if _tells(name)]
    parts = (request.method, str(request.url), *sorted(told))
    head = "\n".join(parts).encode()
    digest = hashlib.sha256(head + b"\0" + context.body).hexdigest()
    try:
        begun = await run_in_threadpool(
            begin, engine, context.caller.owner, key, digest
        )
        if not isinstance(begun, Fresh):
            return _repeat(begun)
    except MinutehandError as error:
        return answer_error(error, context.request_id)
    response = None
    try:
        response = await _answer(handle, request, context)
        return response
    finally:
        # Also when the client is gone, and when the route met a defect.
        await run_in_threadpool(_keep, engine, begun, response, is_secret)


def _tells(header: str) -> bool:
    """Tell whether a header is part of what is asked, as those of a CloudEvent are."""
    return header == "content-type" or header.startswith("ce-")


def _repeat(begun: Repeated | StillRunning | OtherBody) -> Response:
    """Answer as the first request was answered, or say why that cannot be."""
    match begun:
        case Repeated(body=str()):
            headers = {**begun.headers, "Idempotency-Replayed": "true"}
            return Response(begun.body, begun.status, headers)
        case Repeated():
            msg = (
                f"this was done, and answered with {begun.status}. That answer was too"
                " long to be kept, or has a secret, which is shown once."
            )
            raise ApiError(HTTPStatus.CONFLICT, msg)
        case StillRunning():
            msg = "the first request with this Idempotency-Key is still running"
            raise ApiError(HTTPStatus.CONFLICT, msg, headers={"Retry-After": "1"})
        case OtherBody():
            msg = "the last 24 hours saw another request with this Idempotency-Key"
            hint = "Send a new key with each new request."
            raise ApiError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                msg,
                parameter="Idempotency-Key",
                hint=hint,
            )
    assert_never(begun)


def _keep(
    engine: sa.Engine,
    begun: Fresh,
    response: Response | None,
    is_secret: bool,  # noqa: FBT001 - handed on by run_in_threadpool
) -> None:
    """Store an answer that a repeat gets; forget a failure of ours."""
    with suppress(UnreachableError):  # the row is free again in a minute
        # A conflict is of the moment: nothing was done, and it may be over soon.
        if (
            response is None
            or response.status_code == HTTPStatus.CONFLICT
            or response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
        ):
            abandon(engine, begun)
            return
        headers = {name: response.headers[name] for name in _KEPT & {*response.headers}}
        # A refusal has no secret in it.
        is_shown = not is_secret or response.status_code >= HTTPStatus.BAD_REQUEST
        body = bytes(response.body).decode() if is_shown else None
        finish(engine, begun, status=response.status_code, headers=headers, body=body)


async def _read_body(request: Request, takes: Body | None) -> bytes:
    """Return the body, if the route takes one; edge.py bounds how long it takes."""
    if takes is None:
        return b""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await collect_body(request, takes.largest)
    # Of a form, a browser would not ask the page before it sends it.
    if body and given not in takes.types:
        msg = f"the body is {given or 'of no type'}; this takes {takes.types[0]}."
        raise ApiError(
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
        ApiError: It has more than *largest* bytes: 413. Or the client left: nobody
            reads what it is told, and it is no defect of ours.
    """
    try:
        return await _collect(request, largest)
    except ClientDisconnect:
        msg = "the connection ended before the body did"
        raise ApiError(HTTPStatus.BAD_REQUEST, msg) from None


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
    raise ApiError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, msg, headers={"Connection": "close"}
    )
