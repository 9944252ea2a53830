"""Cursors: where a list goes on, as text that callers hand back and do not read."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from datetime import datetime
from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query, Request

from models.database.engine import format_utc
from models.door.json_text import LARGEST_INTEGER
from models.paging import Page, Position
from serving.refusals import HttpError

#: The most entries of one part.
MOST = 200

#: Parameters that do not change which entries a list has.
_NO_FILTERS = frozenset({"cursor", "limit"})

#: The longest cursor that is read.
_LONGEST = 2000


def write_cursor(position: Position, request: Request) -> str:
    """Return the cursor after *position* of the list that *request* asked for."""
    parts = [_tag(each) for each in position]
    text = json.dumps([_digest(request), *parts], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(text: str, request: Request) -> Position:
    """
    Return the position that *text* was made from.

    Raises:
        HttpError: It is not a cursor, or one of another list or other filters.
    """
    try:
        padded = text[:_LONGEST] + "=" * (-len(text) % 4)
        digest, *parts = json.loads(base64.b64decode(padded, b"-_", validate=True))
        position = tuple(_untag(*each) for each in parts)
    except (ValueError, TypeError, OverflowError, binascii.Error, RecursionError):
        _refuse("is not a cursor of this installation")
    if digest != _digest(request) or not position:
        _refuse("is a cursor of another list, or of other filters")
    return position


def _refuse(why: str) -> None:
    raise HttpError(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        f"the cursor {why}.",
        parameter="cursor",
        hint="Take next_cursor of an answer with the same filters, or leave it out.",
    )


def _digest(request: Request) -> str:
    query = request.query_params.multi_items()
    filters = sorted(pair for pair in query if pair[0] not in _NO_FILTERS)
    text = json.dumps([request.url.path, filters])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _tag(value: str | int | datetime | UUID) -> tuple[str, str | int]:
    match value:
        case datetime():
            return "t", format_utc(value)
        case UUID():
            return "u", str(value)
        case int():
            return "i", value
        case str():
            return "s", value


def _untag(kind: str, value: str | int) -> str | int | datetime | UUID:
    match kind, value:
        case "t", str():
            at = datetime.fromisoformat(value)
            format_utc(at)  # refuses one without offset
            return at
        case "u", str():
            return UUID(value)
        case "i", int() if _is_number(value):
            return value
        case "s", str() if "\0" not in value:
            value.encode()  # refuses half a character, which no database takes
            return value
    raise ValueError(f"{kind!r} is no kind of position")


def _is_number(value: int) -> bool:
    # In Python, true is a number; in PostgreSQL it is not.
    return not isinstance(value, bool) and abs(value) <= LARGEST_INTEGER


# It waits for nothing: see serving/context.py.
async def _read_page(
    request: Request,
    limit: Annotated[
        int, Query(ge=1, le=MOST, description="The most entries to return.")
    ] = 50,
    cursor: Annotated[
        str | None,
        Query(
            max_length=_LONGEST,
            description="`next_cursor` of the part before, with the same filters.",
        ),
    ] = None,
) -> Page:
    after = None if cursor is None else read_cursor(cursor, request)
    return Page(limit=limit, after=after)


#: The part of a list that a request asks for.
Paged = Annotated[Page, Depends(_read_page)]
