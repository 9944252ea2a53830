"""
The page at which people sign in, with a key or a link, and sign out.

It is HTML that needs no script. Looking at it changes nothing, so whatever looks at a
link before its owner does (a mail filter, a chat) does not use it up.
"""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs

import jinja2
import structlog
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from api.guarding import collect_body
from api.problems import find_status
from api.services import Services
from api.signing_in import (
    count_attempt,
    demand_own_page,
    find_person,
    is_behind_tls,
    name_cookie,
)
from models.errors import ForbiddenError, MinutehandError, UsageError
from overview.access.keys import Refused, recognize
from overview.access.sign_ins import (
    LINK_PREFIX,
    SESSION_FOR,
    Session,
    begin_session,
    follow_link,
    sign_out,
)
from telemetry import Event

log = structlog.get_logger()

router = APIRouter(include_in_schema=False)

#: Where people are sent who have signed in or out.
PATH = "/sign-in"

#: Bytes of a form.
_LARGEST_FORM = 4096

_FOLDER = Path(__file__).parent

#: Nothing but its own style, and forms to ourselves. With the referrer, browsers would
#: leave out the Origin, too.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
}


@router.get(PATH)
def show_page(request: Request, link: str = "", next: str = "") -> Response:  # noqa: A002 - as links have it
    """Show how to sign in, or who is signed in."""
    try:
        caller = find_person(request.app.state.services, request)
    except MinutehandError as error:
        return _refuse(error)
    if caller is not None and not link:
        return _render(caller=caller)
    return _render(link=link[:_LARGEST_FORM], goal=_check_goal(next))


@router.get("/sign-in.css")
def read_style() -> Response:
    """Return the style of the page."""
    return FileResponse(
        _FOLDER / "sign_in.css", headers={"Cache-Control": "max-age=60"}
    )


@router.post(PATH)
async def enter(request: Request) -> Response:
    """Sign in with a key, or with the secret of a link."""
    form: dict[str, str] = {}
    try:
        form = await _read_form(request)
        session = await run_in_threadpool(_begin, request, form.get("secret", ""))
    except MinutehandError as error:
        return _refuse(error, goal=_check_goal(form.get("next", "")))
    services: Services = request.app.state.services
    who = session.caller
    log.info(
        Event.WEB_SIGNED_IN,
        request_id=request.state.request_id,
        by=who.name,
        key_id=who.key_id,
        role=who.role.value,
        app=who.app,
    )
    response = _send_to(_check_goal(form.get("next", "")) or PATH)
    response.set_cookie(
        name_cookie(services.settings),
        session.text,
        max_age=int(SESSION_FOR.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=is_behind_tls(services.settings),
    )
    return response


@router.post("/sign-out")
def leave(request: Request) -> Response:
    """Sign out."""
    services: Services = request.app.state.services
    name = name_cookie(services.settings)
    try:
        demand_own_page(services.settings, request)
        with services.writing() as connection:
            sign_out(connection, request.cookies.get(name, ""))
    except MinutehandError as error:
        return _refuse(error)
    response = _send_to(PATH)
    response.delete_cookie(
        name, httponly=True, samesite="lax", secure=is_behind_tls(services.settings)
    )
    return response


def _begin(request: Request, secret: str) -> Session:
    """
    Begin a session.

    Raises:
        ForbiddenError: The secret is none, or none any more.
    """
    services: Services = request.app.state.services
    count_attempt(services, request)
    if "origin" in request.headers or "sec-fetch-site" in request.headers:
        # Another site could sign somebody in as whom it likes, and see what they do.
        demand_own_page(services.settings, request)
    secret = secret.strip()
    with services.writing() as connection:
        sign_out(connection, request.cookies.get(name_cookie(services.settings), ""))
        if secret.startswith(LINK_PREFIX):
            session = follow_link(connection, secret)
            if session is None:
                msg = (
                    "This link was used, or is older than a quarter of an hour. Ask for"
                    " another one: minutehand keys link"
                )
                raise ForbiddenError(msg)
            return session
        found = recognize(connection, secret)
        if isinstance(found, Refused):
            why = found.why
            msg = f"{why[0].upper()}{why[1:]}."
            raise ForbiddenError(msg)
        return begin_session(connection, found)


async def _read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form."""
    body = await collect_body(request, _LARGEST_FORM)
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=10)
    except ValueError:
        msg = "This is not the form of the page."
        raise UsageError(msg) from None
    return {name: values[0] for name, values in fields.items()}


def _check_goal(path: str) -> str:
    """Return *path* if it leads to a page of ours; else nothing."""
    is_ours = path.startswith("/") and path.isascii() and path.isprintable()
    # A browser takes //host and /\host for another host.
    return path if is_ours and path[1:2] not in {"/", "\\"} else ""


def _send_to(path: str) -> Response:
    return RedirectResponse(path, HTTPStatus.SEE_OTHER.value, headers=_HEADERS)


def _refuse(error: MinutehandError, goal: str = "") -> Response:
    return _render(status=find_status(error), problem=str(error), goal=goal)


def _render(status: HTTPStatus = HTTPStatus.OK, **values: object) -> Response:
    text = _load_template().render(values)
    return HTMLResponse(text, status.value, headers=_HEADERS)


@cache
def _load_template() -> jinja2.Template:
    loader = jinja2.FileSystemLoader(_FOLDER)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("sign_in.html")
