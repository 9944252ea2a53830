"""What goes wrong, as problem details (RFC 9457) in the words of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final, NotRequired

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
from serving.refusals import HttpError, ProblemPart, find_status, place_problem

MEDIA_TYPE: Final = "application/problem+json"

#: Seconds after which to ask again if the database or broker is away.
RETRY_AFTER: Final = 5


class ProblemJson(TypedDict):
    """A problem (RFC 9457); ``errors`` has an entry for each thing that is wrong."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[ProblemPart]
    #: of 412: the ETag that it has now
    current: NotRequired[str | None]


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


def make_problem(
    status: HTTPStatus,
    detail: str,
    request_id: str,
    *,
    errors: Iterable[ProblemPart] = (),
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Response:
    """Return problem details; *more* are members of its own."""
    problem: ProblemJson = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": detail,
        "request_id": request_id,
        "errors": [*errors],
        **more,  # type: ignore[typeddict-item]  # its own members
    }
    return Response(
        f"{write_json(problem)}\n",
        status_code=status.value,
        headers=dict(headers or {}),
        media_type=MEDIA_TYPE,
    )
