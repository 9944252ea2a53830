"""
Signing in with the company's identity provider, and signing out of it.

The way there and back is of one browser: a cookie has its secret, from which the state,
the nonce and the verifier are derived. Nothing is written before the provider has said
who it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote, unquote

import structlog
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from models.database.engine import read_clock
from models.errors import ForbiddenError, MinutehandError, NotFoundError
from models.fields.sql_connection import EVERY_APP
from models.role import Role
from operations.adapters.identity_provider import (
    IdentityProvider,
    Person,
    SignInAttempt,
)
from serving.access.callers import Caller
from serving.access.keys import is_secret, make_secret
from serving.access.sign_ins import (
    PENDING_FOR,
    PENDING_PREFIX,
    SESSION_FOR,
    Session,
    begin_session,
    make_choice,
    sign_out,
    use_up,
)
from serving.services import Services
from serving.signing_in import count_attempt, name_cookie
from telemetry import Event
from web.guarding import SIGN_IN
from web.rendering import find_address, render_alone
from web.sign_in.routes import check_goal, keep_secret, let_in, refuse

log = structlog.get_logger()

_COMPANY = f"{SIGN_IN}/company"

router = APIRouter(prefix=_COMPANY, include_in_schema=False)

#: Letters of an address that a cookie keeps; browsers drop one of more than 4,096.
_LONGEST_GOAL = 2_000

_Answer = TypeVar("_Answer")


@router.get("")
async def leave_for_provider(request: Request, next: str = "") -> Response:  # noqa: A002 - as links have it
    """Lead to the provider."""
    attempt = _make_attempt(request, make_secret(PENDING_PREFIX))
    goal = check_goal(next)
    try:
        provider = _find_provider(request)
        address = await _ask(request, partial(provider.find_sign_in, attempt))
    except MinutehandError as error:
        return await _refuse(request, error, goal)
    response = RedirectResponse(address, HTTPStatus.SEE_OTHER.value)
    secret = attempt.secret + _keep_goal(goal)
    keep_secret(request, response, _name_pending(request), secret, PENDING_FOR)
    return response


@router.get("/back")
async def come_back(request: Request) -> Response:
    """Begin the session of whom the provider has signed in."""
    kept = request.cookies.get(_name_pending(request), "")
    length = len(make_secret(PENDING_PREFIX))
    attempt, goal = _make_attempt(request, kept[:length]), unquote(kept[length:])
    try:
        response = await _enter(request, attempt, goal)
    except MinutehandError as error:
        response = await _refuse(request, error, check_goal(goal))
    keep_secret(request, response, _name_pending(request), "", timedelta())
    return response


@router.get("/out")
async def leave_provider(request: Request) -> Response:
    """Lead to where one signs out of the provider, too, if there is such a place."""
    back = find_address(request) + SIGN_IN
    try:
        provider = _find_provider(request)
        address = await _ask(request, partial(provider.find_sign_out, back))
        if address is None:
            msg = f"{provider.registration.host} has no page to sign out at."
            raise NotFoundError(msg)
    except MinutehandError as error:
        return await _refuse(request, error)
    return RedirectResponse(address, HTTPStatus.SEE_OTHER.value)


async def _enter(request: Request, attempt: SignInAttempt, goal: str) -> Response:
    """
    Return what follows a sign-in.

    Raises:
        ForbiddenError: It is none, or of nobody who may come in.
        UnreachableError: The provider or the database is away.
    """
    services: Services = request.app.state.services
    provider = _find_provider(request)
    code = _read_code(request, attempt)
    now = await run_in_threadpool(_read_clock, services)
    who = partial(provider.identify, attempt, code, now=now)
    person = await _ask(request, who)
    callers = find_callers(services.settings.oidc_groups, person)
    if not callers:
        raise ForbiddenError(
            f"{person.name} is in no group that may use this installation. Ask your"
            " operator, who lists them in MINUTEHAND_OIDC_GROUPS."
        )
    until = min(person.ends_at, now + SESSION_FOR)
    found = await run_in_threadpool(_begin, request, attempt, until, callers)
    if isinstance(found, Session):
        return let_in(request, found, goal)
    choices = list(zip(callers, found, strict=True))
    values = {"name": person.name, "choices": choices, "goal": check_goal(goal)}
    response = await run_in_threadpool(
        render_alone, _hide_query(request), "sign_in/choice.html", values
    )
    # Going back must not show links that were used.
    response.headers["Cache-Control"] = "no-store"
    return response


def _read_code(request: Request, attempt: SignInAttempt) -> str:
    """
    Return the code with which the provider sent the browser back.

    Raises:
        ForbiddenError: It did not, or not this browser, or refused.
    """
    query = request.query_params
    known = is_secret(attempt.secret, PENDING_PREFIX)
    if not known or not attempt.is_answered_by(query.get("state", "")):
        raise ForbiddenError(
            "This sign-in was not begun in this browser, or more than a quarter of an"
            " hour ago, or is over. Begin again."
        )
    issuer = _find_provider(request).registration.issuer
    code = query.get("code", "")
    if query.get("iss", issuer) != issuer or not code:
        # Of what is in an address, nothing is repeated: anybody could have written it.
        denied = query.get("error") == "access_denied"
        msg = "The provider did not sign you in" + (": access was denied." * denied)
        raise ForbiddenError(msg.rstrip(".") + ".")
    return code


def find_callers(
    roles_by_group: Mapping[str, Mapping[str, str]], person: Person
) -> list[Caller]:
    """
    Return as whom *person* may come in; more than one if they must choose.

    Of several groups the greatest role counts; one in all small apps counts in each.
    """
    roles: dict[str, Role] = {}
    for group in person.groups:
        for app, role in roles_by_group.get(group, {}).items():
            roles[app] = max(roles.get(app, Role.VIEWER), Role(role))
    everywhere = roles.pop(EVERY_APP, None)
    callers = [
        Caller(None, person.name, role, app)
        for app, role in sorted(roles.items())
        if everywhere is None or role > everywhere
    ]
    if everywhere is not None:
        callers.insert(0, Caller(None, person.name, everywhere, None))
    return callers


def _begin(
    request: Request, attempt: SignInAttempt, until: datetime, callers: list[Caller]
) -> Session | list[str]:
    """
    Begin the session; of somebody who must choose, return a link for each choice.

    Raises:
        ForbiddenError: It has begun before.
    """
    services: Services = request.app.state.services
    with services.writing() as connection:
        if not use_up(connection, attempt.secret, callers[0]):
            raise ForbiddenError("This sign-in is over. Begin again.")
        sign_out(connection, request.cookies.get(name_cookie(services.settings), ""))
        if len(callers) == 1:
            return begin_session(connection, callers[0], until)
        return [make_choice(connection, each, until) for each in callers]


def _read_clock(services: Services) -> datetime:
    with services.reading() as connection:
        return read_clock(connection)


def _find_provider(request: Request) -> IdentityProvider:
    services: Services = request.app.state.services
    if services.provider is None:
        msg = "there is no company to sign in with: MINUTEHAND_OIDC_ISSUER is not set."
        raise NotFoundError(msg)
    return services.provider


async def _ask(request: Request, work: Callable[[], _Answer]) -> _Answer:
    """Ask the provider, a few at a time: it may hang."""
    services: Services = request.app.state.services
    count_attempt(services, request, amount=0)
    return await services.signing_in.run(request.state.request_id, work)


def _make_attempt(request: Request, secret: str) -> SignInAttempt:
    return SignInAttempt(secret, f"{find_address(request)}{_COMPANY}/back")


def _keep_goal(goal: str) -> str:
    """Return *goal* for a cookie; empty if browsers would drop one as long."""
    kept = quote(goal, safe="")
    return kept if len(kept) <= _LONGEST_GOAL else ""


def _name_pending(request: Request) -> str:
    return f"{name_cookie(request.app.state.services.settings)}-pending"


async def _refuse(request: Request, error: MinutehandError, goal: str = "") -> Response:
    """Show why nobody was let in; count it, and log it, without what is secret."""
    try:
        count_attempt(request.app.state.services, request)
    except MinutehandError as too_many:
        return await run_in_threadpool(refuse, _hide_query(request), too_many, goal)
    log.warning(
        Event.WEB_SIGN_IN_REFUSED, request_id=request.state.request_id, error=str(error)
    )
    return await run_in_threadpool(refuse, _hide_query(request), error, goal)


def _hide_query(request: Request) -> Request:
    """Return *request* as one for the page: links of it must not repeat a code."""
    return Request({**request.scope, "path": SIGN_IN, "query_string": b""})
