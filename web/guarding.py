"""
The guard of the pages: who is not signed in is led to where they can, and back.

What goes wrong is told on a page. What was typed into a form by somebody whose session
has ended is not lost: they sign in, and send it again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from models.door.json_text import LARGEST_TEXT
from models.errors import MinutehandError, NotFoundError
from serving.context import Context
from serving.guarding import (
    Body,
    GuardedRoute,
    Handle,
    collect_body,
    make_context,
    tell_unserved,
)
from serving.refusals import find_status, refuse_nul
from serving.signing_in import demand_own_page, find_person
from web.forms import Form, read_form
from web.preferences import keep_choice
from web.rendering import render_alone, render_error

_Route = TypeVar("_Route", bound=Callable[..., Any])

#: Bytes of a form: an action of the largest size, and each of its characters escaped.
LARGEST_FORM = LARGEST_TEXT * 3

#: Bytes of a form that is kept for somebody who is not signed in: it may be anybody.
LARGEST_UNSIGNED = 64 * 1024

_FORM = "application/x-www-form-urlencoded"

#: Where people sign in.
SIGN_IN = "/sign-in"


def takes_form(route: _Route) -> _Route:
    """Say that a route takes a form: ``read_form(context.body)``."""
    route.takes = Body(  # type: ignore[attr-defined]
        {"type": "object"}, {}, largest=LARGEST_FORM, types=(_FORM,)
    )
    return route


def render_nowhere(request: Request, error: MinutehandError) -> Response:
    """Return a page that tells *error* at an address that no page has."""
    with suppress(MinutehandError):
        request.state.caller = find_person(request.app.state.services, request)
    return _render_refusal(request, error)


def _render_refusal(
    request: Request, error: MinutehandError, form: Form | None = None
) -> Response:
    """Return a page that tells *error*, in the frame of whoever is signed in."""
    caller = getattr(request.state, "caller", None)
    context = None if caller is None else make_context(request, caller)
    return render_error(request, error, context, form)


async def _keep(request: Request, status: HTTPStatus) -> Form | None:
    """Return what was typed on a page of ours, if it may be taken after *status*."""
    if request.method == "POST" and status in _MAY_PASS:
        with suppress(MinutehandError):
            demand_own_page(request.app.state.services.settings, request)
            context = getattr(request.state, "context", None)
            if context is not None:  # the body has been read
                return read_form(context.body)
            return read_form(await collect_body(request, LARGEST_UNSIGNED))
    return None


#: After these, the same form may be taken.
_MAY_PASS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.SERVICE_UNAVAILABLE)


class PageRoute(GuardedRoute):
    """A page, or what a form of a page is sent to."""

    async def refuse(self, request: Request, error: MinutehandError) -> Response:
        """Lead to where one signs in; tell everything else."""
        status = find_status(error)
        if status is not HTTPStatus.UNAUTHORIZED:
            form = await _keep(request, status)
            return await run_in_threadpool(_render_refusal, request, error, form)
        # A part of a page that is read anew must not become another page.
        if "x-part" in request.headers:
            return Response(status_code=HTTPStatus.UNAUTHORIZED)
        if request.method == "GET":
            query = f"?{request.url.query}" if request.url.query else ""
            goal = urlencode({"next": f"{request.url.path}{query}"})
            return RedirectResponse(f"{SIGN_IN}?{goal}", HTTPStatus.SEE_OTHER.value)
        values = {"form": await _keep(request, status)}
        return await run_in_threadpool(
            render_alone, request, "resend.html", values, status=status
        )

    async def answer(
        self, handle: Handle, request: Request, context: Context
    ) -> Response:
        """Answer with the page, or with what is wrong."""
        chosen = keep_choice(request)
        if chosen is not None:
            return chosen
        try:
            return await handle(request)
        except RequestValidationError:
            # Of a path: pages read their queries themselves.
            missing = NotFoundError(f"there is nothing at {request.url.path[:200]!r}")
            return await run_in_threadpool(render_error, request, missing, context)
        except MinutehandError as error:
            tell_unserved(request, error)
            form = await _keep(request, find_status(error))
            return await run_in_threadpool(render_error, request, error, context, form)

    def check_parameters(self, request: Request) -> None:
        """Ignore parameters that nobody knows, as in links of yesterday."""
        refuse_nul(request)


def make_router(prefix: str = "") -> APIRouter:
    """Return where the routes of a page are put."""
    return APIRouter(prefix=prefix, include_in_schema=False, route_class=PageRoute)
