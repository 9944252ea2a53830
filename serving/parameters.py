"""The parameters of paths and queries: unknown ones are refused, with a suggestion."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError

from models.errors import RuleError
from models.fields.strict_model import DocumentModel, make_complaint, show, suggest
from serving.refusals import HttpError, ProblemPart, make_part


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
