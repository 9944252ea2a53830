"""What goes wrong, as problem details (RFC 9457) in the words of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final, NotRequired

from starlette.responses import Response
from typing_extensions import TypedDict

from api.preconditions import PreconditionRequiredError
from models.door.places import find_place, find_value
from models.errors import (
    ConflictError,
    ForbiddenError,
    InvalidDocumentError,
    MinutehandError,
    NotFoundError,
    Problem,
    StaleError,
    UnreachableError,
    UsageError,
)
from models.fields.strict_model import show
from overview.json_form import write_json

MEDIA_TYPE: Final = "application/problem+json"

#: Seconds after which to ask again if the database or broker is away.
RETRY_AFTER: Final = 5


#: What each kind of error is in HTTP; of a kind within a kind, the inner one first.
_STATUSES = (
    (InvalidDocumentError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (UsageError, HTTPStatus.BAD_REQUEST),
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (ForbiddenError, HTTPStatus.FORBIDDEN),
    (PreconditionRequiredError, HTTPStatus.PRECONDITION_REQUIRED),
    (StaleError, HTTPStatus.PRECONDITION_FAILED),
    (ConflictError, HTTPStatus.CONFLICT),
    (UnreachableError, HTTPStatus.SERVICE_UNAVAILABLE),
)


class ProblemPart(TypedDict):
    """
    One thing that is wrong.

    ``pointer`` (RFC 6901) and place are those of the value in the body; of a query,
    path or header, ``parameter`` names it instead.
    """

    message: str
    hint: str
    pointer: str | None
    parameter: str | None
    line: int | None
    column: int | None
    found: str | None


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


class ApiError(MinutehandError):
    """
    A problem that only HTTP has.

    Args:
        status: From 400 to 599.

        message: What is wrong and what to do.

        parameter: The query parameter or header that is wrong.

        hint: What to write instead.
    """

    def __init__(
        self,
        status: HTTPStatus,
        message: str,
        *,
        parameter: str | None = None,
        hint: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Keep what the problem shows."""
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.parts: list[ProblemPart] = []
        if parameter is not None:
            self.parts.append(make_part(message, hint, parameter=parameter))


def make_part(
    message: str, hint: str = "", *, parameter: str | None = None
) -> ProblemPart:
    """Return what is wrong with a parameter."""
    return {
        "message": message,
        "hint": hint,
        "pointer": None,
        "parameter": parameter,
        "line": None,
        "column": None,
        "found": None,
    }


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
    if isinstance(error, ApiError):
        parts, headers = error.parts, error.headers
    elif isinstance(error, InvalidDocumentError):
        parts = [_place(each, body) for each in error.problems]
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


def find_status(error: MinutehandError) -> HTTPStatus:
    """Return the status that says what kind of *error* it is."""
    if isinstance(error, ApiError):
        return error.status
    return next(
        (status for kind, status in _STATUSES if isinstance(error, kind)),
        HTTPStatus.INTERNAL_SERVER_ERROR,
    )


def _place(problem: Problem, body: bytes) -> ProblemPart:
    """Return *problem* with the line and column of what its pointer points at."""
    place = problem.place or find_place(body, problem.pointer)
    found = find_value(body, problem.pointer)
    return {
        "message": problem.message,
        "hint": problem.hint,
        "pointer": problem.pointer,
        "parameter": None,
        "line": None if place is None else place[0],
        "column": None if place is None else place[1],
        "found": None if found is None else show(found[0]),
    }
