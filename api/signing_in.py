"""Who asks: an API key, or the session of somebody who signed in at the pages."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import Request

from api.limits import Kind, Verdict, name_address
from api.problems import ApiError
from api.services import Services
from models.database.engine import reading
from overview.access.callers import Caller
from overview.access.keys import Refused, recognize


def authenticate(services: Services, request: Request) -> Caller:
    """
    Return who asks.

    Raises:
        ApiError: Nobody who is known: 401.

        UnreachableError: The database is away.
    """
    given = request.headers.get("authorization", "")
    scheme, _, text = given.partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        _count(services, request)
        raise _refuse("this needs a key. Send it as Authorization: Bearer mh_…")
    with reading(services.engine) as connection:
        found = recognize(connection, text.strip())
    if isinstance(found, Refused):
        _count(services, request)
        raise _refuse(found.why, "invalid_token")
    return found


def _count(services: Services, request: Request) -> None:
    """Let nobody try keys for long."""
    address = name_address(request.client.host if request.client else None)
    refuse_too_many(services.limits.take(address, Kind.ANONYMOUS))


def refuse_too_many(verdict: Verdict) -> None:
    """
    Refuse a caller who asks too often.

    Raises:
        ApiError: 429, which says when to ask again.
    """
    if verdict.is_allowed:
        return
    raise ApiError(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"too many requests of the class {verdict.kind}: {verdict.limit} in"
        f" {verdict.per.total_seconds():g} s are allowed. Ask again in"
        f" {verdict.retry_after_s} s.",
        headers=verdict.make_headers(),
    )


def _refuse(message: str, error: str | None = None) -> ApiError:
    challenge = 'Bearer realm="minutehand"'
    if error is not None:
        challenge += f', error="{error}"'
    return ApiError(
        HTTPStatus.UNAUTHORIZED, message, headers={"WWW-Authenticate": challenge}
    )
