"""
Who asks: with a key, in a session, or by a proxy that signed them in.

A browser sends a session, and what a proxy knows, with every request, also with one
that another site made it send. So a change that comes with either must come from a page
of ours: its Origin is checked.
"""

from __future__ import annotations

from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import urlsplit

from fastapi import Request

from models.errors import RuleError
from models.fields.field_types import LONGEST_NAME, check_name
from serving.access.callers import Caller
from serving.access.keys import RefusedKey, recognize
from serving.access.sign_ins import recognize_session
from serving.limits import Allowance, RequestClass, name_address
from serving.refusals import HttpError
from serving.services import Services
from settings import Settings

#: Methods that change nothing.
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def authenticate(services: Services, request: Request) -> Caller:
    """
    Return who asks.

    Raises:
        HttpError: Nobody who is known: 401. A change that another site made a browser
            send: 403.
        UnreachableError: The database is away.
    """
    given = request.headers.get("authorization", "")
    scheme, _, text = given.partition(" ")
    if scheme.lower() == "bearer" and text.strip():
        return _find_key(services, request, text.strip())
    caller = _find_session(services, request) or _find_by_proxy(services, request)
    if caller is None:
        count_attempt(services, request)
        raise _refuse("this needs a key. Send it as Authorization: Bearer mh_…")
    if request.method not in _SAFE:
        demand_own_page(services.settings, request)
    return caller


def find_person(services: Services, request: Request) -> Caller | None:
    """
    Return who is signed in at the pages, if anybody is.

    Raises:
        HttpError: The proxy says something that is not a name.
        UnreachableError: The database is away.
    """
    return _find_session(services, request) or _find_by_proxy(services, request)


def name_cookie(settings: Settings) -> str:
    """
    Return the name of the cookie of sessions.

    Behind TLS, browsers accept it from this very host alone, and send it by TLS alone.
    """
    return "__Host-minutehand" if is_behind_tls(settings) else "minutehand"


def is_behind_tls(settings: Settings) -> bool:
    """Tell whether clients reach us by TLS."""
    return (settings.web_url or "").startswith("https:")


def demand_own_page(settings: Settings, request: Request) -> None:
    """
    Refuse what a browser was made to send by another site.

    Raises:
        HttpError: It did not come from a page of ours: 403.
    """
    if _is_from_own_page(settings, request):
        return
    msg = (
        "a change that comes with a session must come from a page of Minutehand itself:"
        " its Origin is another, or missing. If a proxy alters the Host header, set"
        " MINUTEHAND_WEB_URL to the address that people see; programs ask with a key."
    )
    raise HttpError(HTTPStatus.FORBIDDEN, msg)


def count_attempt(services: Services, request: Request, amount: int = 1) -> None:
    """
    Let nobody try keys for long: count an attempt that failed.

    Those who share an address with somebody who tries get in all the same.

    Args:
        amount: 0: only refuse whose attempts are used up, before others are asked.

    Raises:
        HttpError: There were too many attempts from this address: 429.
    """
    address = name_address(_find_address(services.settings, request))
    refuse_too_many(services.limits.take(address, RequestClass.ANONYMOUS, amount))


def _find_address(settings: Settings, request: Request) -> str | None:
    """Return the address of who asks, as far as our proxies tell of it."""
    address = request.client.host if request.client else None
    told = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    # Each of them adds whom it speaks for to the end; what is before that, any client
    # could have written.
    while _is_proxy(settings, address) and told:
        address = told.pop().strip() or address
    return address


def refuse_too_many(allowance: Allowance) -> None:
    """
    Refuse a caller who asks too often.

    Raises:
        HttpError: 429, which says when to ask again.
    """
    if allowance.is_allowed:
        return
    raise HttpError(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"too many requests of the class {allowance.kind}: {allowance.limit} in"
        f" {allowance.per.total_seconds():g} s are allowed. Ask again in"
        f" {allowance.retry_after_s} s.",
        headers=allowance.make_headers(),
    )


def _find_key(services: Services, request: Request, text: str) -> Caller:
    with services.reading_once() as connection:
        found = recognize(connection, text)
    if isinstance(found, RefusedKey):
        count_attempt(services, request)
        raise _refuse(found.why, "invalid_token")
    return found


def _find_session(services: Services, request: Request) -> Caller | None:
    text = request.cookies.get(name_cookie(services.settings))
    if not text:
        return None
    with services.reading() as connection:
        return recognize_session(connection, text)


def _find_by_proxy(services: Services, request: Request) -> Caller | None:
    """Return whom a proxy signed in; what anybody else says of that is not heard."""
    settings = services.settings
    header = settings.web_proxy_header
    host = request.client.host if request.client else None
    if header is None or not _is_proxy(settings, host):
        return None
    names = request.headers.getlist(header)
    if not names:
        return None
    try:
        name = check_name(names[0])
    except RuleError:
        name = ""
    # A proxy that adds its header to one of the client's would let anybody be anybody.
    if len(names) > 1 or not 0 < len(name) <= LONGEST_NAME:
        raise _refuse(f"the proxy's header {header} does not have one name")
    return Caller(None, name, settings.web_proxy_role, None)


def _is_proxy(settings: Settings, address: str | None) -> bool:
    try:
        found = ip_address(address or "")
    except ValueError:
        return False
    # IPv4 on a socket of IPv6 has a form of its own
    found = getattr(found, "ipv4_mapped", None) or found
    return any(found in network for network in settings.web_proxies)


def _is_from_own_page(settings: Settings, request: Request) -> bool:
    # Browsers send it to addresses that they trust, and no page can set it.
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = urlsplit(request.headers.get("origin", ""))
    hosts = {request.headers.get("host", ""), urlsplit(settings.web_url or "").netloc}
    return origin.netloc != "" and origin.netloc in hosts


def _refuse(message: str, error: str | None = None) -> HttpError:
    challenge = 'Bearer realm="minutehand"'
    if error is not None:
        challenge += f', error="{error}"'
    return HttpError(
        HTTPStatus.UNAUTHORIZED, message, headers={"WWW-Authenticate": challenge}
    )
