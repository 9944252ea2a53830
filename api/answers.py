"""How routes answer: JSON, entity tags, lists in parts; and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

from starlette.responses import Response
from typing_extensions import TypedDict

from models.door.places import Places
from models.errors import (
    InvalidDocumentError,
    MinutehandError,
    StaleError,
    UnreachableError,
)
from models.json_form import write_json
from models.paging import Part
from serving.context import Context
from serving.cursors import write_cursor
from serving.refusals import (
    HttpError,
    ProblemPart,
    find_status,
    make_problem,
    place_problem,
)

_Json = TypeVar("_Json")
_Entry = TypeVar("_Entry")

#: Where all versioned routes begin.
ROOT = "/api/v1"


class ListJson(TypedDict, Generic[_Json]):
    """A part of a list; ``next_cursor`` asks for the part after it."""

    items: list[_Json]
    next_cursor: str | None


def answer(
    value: object,
    *,
    status: HTTPStatus = HTTPStatus.OK,
    etag: object = None,
    location: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """
    Return *value* as JSON.

    Args:
        value: The documented object.
        status: 201 for what was made, 202 for what was begun.
        etag: The revision that a change must name. None: it has none.
        location: The path of what was made or begun, below ROOT.
        headers: More of them.
    """
    given = dict(headers or {})
    if etag is not None:
        given["ETag"] = f'"{etag}"'
    if location is not None:
        given["Location"] = f"{ROOT}{location}"
    return Response(
        f"{write_json(value)}\n",
        status_code=status.value,
        headers=given,
        media_type="application/json",
    )


def answer_begun(value: object, location: str | None = None) -> Response:
    """Return *value*, of work that goes on; at *location* one can see how far it is."""
    return answer(value, status=HTTPStatus.ACCEPTED, location=location)


def answer_nothing() -> Response:
    """Answer that it was done, and that there is nothing to show."""
    return Response(status_code=HTTPStatus.NO_CONTENT.value)


def answer_list(
    context: Context,
    part: Part[_Entry],
    as_json: Callable[[_Entry], object] | None = None,
    *,
    more: Mapping[str, object] | None = None,
) -> Response:
    """
    Return a part of a list, with the cursor of the next part and a link to it.

    Args:
        context: Of the request; the cursor fits only the same filters.
        part: From a function that takes a ``Page``.
        as_json: Of an entry. None: it is the documented object itself.
        more: Members beside ``items``.
    """
    cursor = None
    headers = {}
    if part.following is not None:
        query = context.request.query_params.multi_items()
        filters = [pair for pair in query if pair[0] != "cursor"]
        cursor = write_cursor(part.following, context.request)
        link = urlencode([*filters, ("cursor", cursor)])
        headers["Link"] = f'<{context.request.url.path}?{link}>; rel="next"'
    items = [each if as_json is None else as_json(each) for each in part.entries]
    return answer(
        {"items": items, "next_cursor": cursor, **(more or {})}, headers=headers
    )


#: Seconds after which to ask again if the database or broker is away.
RETRY_AFTER: Final = 5


def answer_error(
    error: MinutehandError, request_id: str, body: bytes = b""
) -> Response:
    """
    Return the problem that *error* is to a caller.

    Args:
        error: Expected; what it says is for callers.
        request_id: To find the request in the log.
        body: In which the pointers of a refused document point.
    """
    status = find_status(error)
    headers: dict[str, str] = {}
    parts: list[ProblemPart] = []
    detail = str(error)
    more: dict[str, Any] = {}
    if isinstance(error, HttpError):
        parts, headers = error.parts, error.headers
    elif isinstance(error, InvalidDocumentError):
        places = Places(body)
        parts = [place_problem(each, places) for each in error.problems]
        first = error.problems[0]
        detail = f"{first.message} {first.hint}".rstrip()
        if len(parts) > 1:
            detail += f" ({len(parts)} problems in all: see errors.)"
    elif isinstance(error, StaleError):
        more["current"] = None if error.current is None else f'"{error.current}"'
        if error.current is not None:
            headers["ETag"] = f'"{error.current}"'
    elif isinstance(error, UnreachableError):
        headers["Retry-After"] = str(RETRY_AFTER)
    return make_problem(
        status, detail, request_id, errors=parts, headers=headers, **more
    )
