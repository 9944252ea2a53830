"""
The guard of the API: problems in JSON, unknown parameters, and repeats.

A request that was let in may be a repeat of one that was answered before: its answer
is given again. Whatever a route raises leaves as a problem.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, TypeVar, assert_never

import sqlalchemy as sa
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from api.answers import answer_error
from models.errors import MinutehandError, UnreachableError
from serving.access.repeats import (
    Fresh,
    OtherBody,
    Repeated,
    StillRunning,
    abandon,
    begin,
    finish,
)
from serving.context import Context
from serving.guarding import GuardedRoute, Handle, tell_unserved
from serving.refusals import (
    HttpError,
    refuse_nul,
    refuse_unknown_parameters,
    restate_parameters,
)

_Route = TypeVar("_Route", bound=Callable[..., Any])

#: Headers of an answer that its repeat has, too.
_KEPT = frozenset({"content-type", "etag", "location"})


def secret(route: _Route) -> _Route:
    """Say that the answer of a route has a secret, which is kept for no repeat."""
    route.is_secret = True  # type: ignore[attr-defined]
    return route


class ApiRoute(GuardedRoute):
    """A route of the API."""

    @property
    def is_secret(self) -> bool:
        """Whether its answer may not be kept for repeats."""
        return bool(getattr(self.endpoint, "is_secret", False))

    async def refuse(self, request: Request, error: MinutehandError) -> Response:
        """Answer with the problem."""
        return answer_error(error, request.state.request_id)

    async def answer(
        self, handle: Handle, request: Request, context: Context
    ) -> Response:
        """Answer, or give the answer again that was given before."""
        if context.idempotency_key is None:
            return await _answer(handle, request, context)
        return await _answer_once(handle, request, context, is_secret=self.is_secret)

    def check_parameters(self, request: Request) -> None:
        """Refuse what the route would ignore, and what no database could look for."""
        refuse_unknown_parameters(request, self.dependant)
        refuse_nul(request)


async def _answer(handle: Handle, request: Request, context: Context) -> Response:
    try:
        return await handle(request)
    except RequestValidationError as error:
        refused = restate_parameters(error)
        return answer_error(refused, context.request_id)
    except MinutehandError as error:
        tell_unserved(request, error)
        # To find the place of a problem takes a while, in a large body.
        return await run_in_threadpool(
            answer_error, error, context.request_id, context.body
        )


async def _answer_once(
    handle: Handle, request: Request, context: Context, *, is_secret: bool
) -> Response:
    """Answer a POST that may be repeated: the work is done for the first one alone."""
    engine = context.services.engine
    key = context.idempotency_key
    assert key is not None  # by the caller
    told = [f"{name}: {text}" for name, text in request.headers.items() if _tells(name)]
    parts = (request.method, str(request.url), *sorted(told))

    def begin_once() -> Fresh | Repeated | StillRunning | OtherBody:
        digest = hashlib.sha256("\n".join(parts).encode() + b"\0")
        digest.update(context.body)
        return begin(engine, context.caller.owner, key, digest.hexdigest())

    try:
        begun = await run_in_threadpool(begin_once)
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
            raise HttpError(HTTPStatus.CONFLICT, msg)
        case StillRunning():
            msg = "the first request with this Idempotency-Key is still running"
            raise HttpError(HTTPStatus.CONFLICT, msg, headers={"Retry-After": "1"})
        case OtherBody():
            msg = "the last 24 hours saw another request with this Idempotency-Key"
            hint = "Send a new key with each new request."
            status, name = HTTPStatus.UNPROCESSABLE_ENTITY, "Idempotency-Key"
            raise HttpError(status, msg, parameter=name, hint=hint)
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
