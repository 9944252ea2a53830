"""
What HTTP says of an error: its status, and what only HTTP can refuse.

That is entity tags, of what a caller has seen (RFC 9110, 13), and parameters: those of
paths and queries that are unknown are refused, with a suggestion.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, NotRequired

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from starlette.responses import Response
from typing_extensions import TypedDict

from models.door.places import Places
from models.errors import (
    ConflictError,
    ForbiddenError,
    InvalidDocumentError,
    MinutehandError,
    NotFoundError,
    Problem,
    RuleError,
    StaleError,
    UnreachableError,
    UsageError,
)
from models.fields.strict_model import DocumentModel, make_complaint, show, suggest
from models.json_form import write_json

#: One strong entity tag, or any.
_TAG = re.compile(r'"([!#-~]*)"')


class PreconditionRequiredError(StaleError):
    """A change came without If-Match."""


#: What each kind of error is in HTTP; of a kind within a kind, the inner one first.
_STATUSES = (
    (InvalidDocumentError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (UsageError, HTTPStatus.BAD_REQUEST),
    (NotFoundError, HTTPStatus.NOT_FOUND),
    # What it says for want of a role is in serving/access/callers.py.
    (ForbiddenError, HTTPStatus.FORBIDDEN),
    (PreconditionRequiredError, HTTPStatus.PRECONDITION_REQUIRED),
    (StaleError, HTTPStatus.PRECONDITION_FAILED),
    (ConflictError, HTTPStatus.CONFLICT),
    (UnreachableError, HTTPStatus.SERVICE_UNAVAILABLE),
)


#: What RFC 9110 calls them; Python does so since 3.13.
_NAMES = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Content Too Large",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Unprocessable Content",
}


def name_status(status: HTTPStatus) -> str:
    """Return the name of *status* in HTTP, the same with every Python."""
    return _NAMES.get(status, status.phrase)


class ProblemPart(TypedDict):
    """
    One thing that is wrong.

    ``pointer`` (RFC 6901) and place are those of the value in the body, or of its key
    if that is wrong; of a query, path or header, ``parameter`` names it instead.
    ``instead`` is the key or text that was probably meant, if anybody can tell.
    """

    message: str
    hint: str
    pointer: str | None
    parameter: str | None
    line: int | None
    column: int | None
    found: str | None
    instead: str | None


#: Of a problem.
MEDIA_TYPE: Final = "application/problem+json"


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


class HttpError(MinutehandError):
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


def make_part(message: str, hint: str = "", **more: Any) -> ProblemPart:
    """Return what is wrong; *more* are the other members that are not null."""
    return {"message": message, "hint": hint, **_NOWHERE, **more}  # type: ignore[typeddict-item]


#: Of a problem that nobody can place.
_NOWHERE = dict.fromkeys(("pointer", "parameter", "line", "column", "found", "instead"))


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
        "title": name_status(status),
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
    if isinstance(error, HttpError):
        return error.status
    return next(
        (status for kind, status in _STATUSES if isinstance(error, kind)),
        HTTPStatus.INTERNAL_SERVER_ERROR,
    )


def place_problem(problem: Problem, places: Places) -> ProblemPart:
    """
    Return *problem* with the line and column of what its pointer points at.

    Args:
        problem: Found in a body.
        places: Of that body.
    """
    place = places.locate(problem)
    # what has a place of its own is wrong with the text, not with a value
    found = None if problem.place else places.show(problem.pointer)
    line, column = place or (None, None)
    where: Any = {"pointer": problem.pointer, "line": line, "column": column}
    told = problem.message, problem.hint
    return make_part(*told, **where, found=found, instead=problem.instead)


def find_expected(headers: Mapping[str, str]) -> str | None:
    """
    Return the one entity tag of If-Match without its quotes; None if it is ``*``.

    Raises:
        PreconditionRequiredError: There is no If-Match.
        StaleError: It is not one strong entity tag, so it can match nothing.
    """
    given = headers.get("if-match")
    if given is None:
        msg = (
            "a change must say which version it is of. Send the ETag of what you read"
            " as If-Match, or If-Match: * to overwrite whatever there is"
        )
        raise PreconditionRequiredError(msg, current=None)
    if given.strip() == "*":
        return None
    found = _TAG.fullmatch(given.strip())
    if found is None:
        msg = f'If-Match: {given[:80]} is not one strong entity tag, such as "7"'
        raise StaleError(msg, current=None)
    return found[1]


def read_revision(tag: str | None) -> int | None:
    """
    Return the revision that an entity tag is of; None for any.

    Raises:
        StaleError: No revision has such a tag.
    """
    if tag is None:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", tag):
        raise StaleError(f'no revision has the entity tag "{tag[:80]}"', current=None)
    return int(tag)


def refuse_unknown_parameters(request: Request, dependant: Dependant) -> None:
    """
    Refuse what the route would ignore.

    Raises:
        HttpError: With an entry for each unknown parameter.
    """
    known = sorted(set(_find_names(dependant)))
    parts = []
    for name in request.query_params:
        if name not in known:
            message = f"{show(name)} is not a parameter of this route."
            hint = suggest(name, known) if known else "It takes none."
            parts.append(make_part(message, hint, parameter=name))
    if parts:
        raise _refuse(parts)


def refuse_nul(request: Request) -> None:
    """
    Refuse what no database could look for.

    Raises:
        HttpError: With an entry for each parameter that has such a character.
    """
    given = [*request.path_params.items(), *request.query_params.multi_items()]
    parts = [
        make_part("It contains a NUL character.", "Remove it.", parameter=name)
        for name, value in given
        if "\0" in str(value)
    ]
    if parts:
        raise _refuse(parts)


def restate_parameters(error: RequestValidationError) -> HttpError:
    """Return what FastAPI found wrong with parameters, in our words."""
    parts = []
    for found in error.errors():
        if found["loc"][0] == "path":
            msg = f"there is no {found['loc'][1]} {show(found['input'])}"
            return HttpError(HTTPStatus.NOT_FOUND, msg.replace("_id ", " "))
        complaint = make_complaint(found, DocumentModel)
        name = ".".join(map(str, found["loc"][1:]))
        parts.append(make_part(complaint.message, complaint.hint, parameter=name))
    return _refuse(parts)


def refuse_parameter(name: str, error: RuleError) -> HttpError:
    """Return the refusal of a parameter that only its route can read."""
    return _refuse([make_part(error.message, error.hint, parameter=name)])


def _refuse(parts: list[ProblemPart]) -> HttpError:
    first = parts[0]
    told = f"{first['parameter']}: {first['message']} {first['hint']}".rstrip()
    refused = HttpError(HTTPStatus.UNPROCESSABLE_ENTITY, told)
    refused.parts.extend(parts)
    return refused


def _find_names(dependant: Dependant) -> Iterator[str]:
    """Yield the query parameters of a route and of what it depends on."""
    yield from (each.alias for each in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _find_names(inner)
