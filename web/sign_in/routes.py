"""
The page at which people sign in, with a key or a link, and sign out.

Looking at it changes nothing, so whatever looks at a link before its owner does (a mail
filter, a chat) does not use it up. The secret of a link stands behind the #, which only
the script of the page reads; without script, one pastes it.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from http import HTTPStatus

import structlog
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from models.errors import ForbiddenError, MinutehandError, UnreachableError, UsageError
from models.units import capitalize
from serving.access.keys import RefusedKey, note_use, recognize
from serving.access.sign_ins import (
    LINK_COMMAND,
    LINK_PREFIX,
    Session,
    begin_session,
    follow_link,
    sign_out,
)
from serving.guarding import collect_body
from serving.refusals import find_status
from serving.services import Services
from serving.signing_in import (
    count_attempt,
    demand_own_page,
    find_person,
    is_behind_tls,
    name_cookie,
)
from telemetry import Event
from web.forms import Form, go_to, is_own_path, read_form
from web.guarding import SIGN_IN
from web.preferences import keep_choice
from web.rendering import render_alone

log = structlog.get_logger()

router = APIRouter(include_in_schema=False)

#: Bytes of a form.
_LARGEST_FORM = 4096


@router.get(SIGN_IN)
def show_page(
    request: Request,
    next: str = "",  # noqa: A002 - as links have it
    left: str | None = None,
) -> Response:
    """Show how to sign in, or who is signed in."""
    chosen = keep_choice(request)
    if chosen is not None:
        return chosen
    try:
        caller = find_person(request.app.state.services, request)
    except MinutehandError as error:
        return refuse(request, error)
    has_left = left is not None
    return render_page(request, who=caller, goal=check_goal(next), has_left=has_left)


@router.post(SIGN_IN)
async def enter(request: Request) -> Response:
    """Sign in with a key, or with the secret of a link."""
    form = Form()
    try:
        form = read_form(await collect_body(request, _LARGEST_FORM))
        session = await run_in_threadpool(_begin, request, form.get("secret"))
    except MinutehandError as error:
        return refuse(request, error, goal=check_goal(form.get("next")))
    return let_in(request, session, form.get("next"))


def let_in(request: Request, session: Session, goal: str) -> Response:
    """Lead somebody whose session begins to where they wanted to go."""
    who = session.caller
    log.info(
        Event.WEB_SIGNED_IN,
        request_id=request.state.request_id,
        by=who.name,
        key_id=who.key_id,
        role=who.role.value,
        app=who.app,
    )
    response = go_to(check_goal(goal) or "/")
    name = name_cookie(request.app.state.services.settings)
    length = session.expires_at - session.begins_at
    keep_secret(request, response, name, session.text, length)
    return response


def keep_secret(
    request: Request, response: Response, name: str, secret: str, length: timedelta
) -> None:
    """Let the browser keep *secret* for that long, which no script sees; or forget."""
    response.set_cookie(
        name,
        secret,
        max_age=round(length.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=is_behind_tls(request.app.state.services.settings),
    )


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
        return refuse(request, error)
    response = go_to(f"{SIGN_IN}?left=" if services.provider else SIGN_IN)
    keep_secret(request, response, name, "", timedelta())
    return response


def _begin(request: Request, secret: str) -> Session:
    """
    Begin a session.

    Raises:
        UsageError: Nothing was typed.
        ForbiddenError: The secret is none, or none any more.
        HttpError: There were too many such attempts.
    """
    services: Services = request.app.state.services
    if "origin" in request.headers or "sec-fetch-site" in request.headers:
        # Another site could sign somebody in as whom it likes, and see what they do.
        demand_own_page(services.settings, request)
    secret = secret.strip()
    if not secret:
        raise UsageError("Nothing was typed. Paste a key, or a link's secret.")
    with services.writing() as connection:
        sign_out(connection, request.cookies.get(name_cookie(services.settings), ""))
        if secret.startswith(LINK_PREFIX):
            session = follow_link(connection, secret)
            if session is None:
                count_attempt(services, request)
                raise ForbiddenError(
                    "This link was used, or has ended: most do after a quarter of an"
                    f" hour. Ask for another one, which {LINK_COMMAND} prints."
                )
            return session
        found = recognize(connection, secret)
        if isinstance(found, RefusedKey):
            count_attempt(services, request)
            raise ForbiddenError(f"{capitalize(found.why)}.")
        session = begin_session(connection, found)
    with suppress(UnreachableError):
        note_use(services.engine, found)
    return session


def check_goal(path: str) -> str:
    """Return *path* if it leads to a page of ours; else nothing."""
    return path if is_own_path(path) else ""


def refuse(request: Request, error: MinutehandError, goal: str = "") -> Response:
    """Show *error* where another try can be made."""
    return render_page(
        request, status=find_status(error), problem=str(error), goal=goal
    )


def render_page(
    request: Request, status: HTTPStatus = HTTPStatus.OK, **values: object
) -> Response:
    """Show how to sign in, or what *values* say."""
    given = {
        "provider": request.app.state.services.provider,
        "who": None,
        "problem": "",
        "goal": "",
        "has_left": False,
        "link_command": LINK_COMMAND,
        **values,
    }
    return render_alone(request, "sign_in/sign_in.html", given, status=status)
