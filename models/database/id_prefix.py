"""Find the one row whose id begins with what somebody typed."""

from __future__ import annotations

import re
from uuid import UUID

import sqlalchemy as sa

from models.errors import ConflictError, NotFoundError

#: Digits of an id that tables show: of a million ids, one in 4,000 shares them.
SHOWN_DIGITS = 8

#: With fewer digits than this a typo would often find something else.
_LEAST_DIGITS = 4

#: Candidates that a refusal names.
_NAMED = 5

_PREFIX = re.compile(rf"[0-9a-f]{{{_LEAST_DIGITS},32}}", re.ASCII)


def find_by_prefix(
    connection: sa.Connection, column: sa.Column[UUID], text: str, *, noun: str
) -> UUID:
    """
    Return the id in *column* that begins with *text*.

    Args:
        column: The primary key of a table.
        text: An id, or its first digits, at least four; dashes do not count. A whole
            id is returned as it is, whether or not there is such a row.
        noun: What the rows are, such as "operation", for messages.

    Raises:
        NotFoundError: No id begins so.
        ConflictError: Several do; the message names them.
    """
    try:
        return UUID(text)
    except ValueError:
        digits = text.replace("-", "").lower()
    if _PREFIX.fullmatch(digits) is None:
        msg = (
            f"there is no {noun} {text!r}. Give its id, or at least its first"
            f" {_LEAST_DIGITS} digits."
        )
        raise NotFoundError(msg)
    # Both databases order ids as their digits, so the index of the key serves.
    first, last = UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
    query = sa.select(column).where(column.between(first, last)).order_by(column)
    found = connection.execute(query.limit(_NAMED + 1)).scalars().all()
    if not found:
        msg = f"there is no {noun} whose id begins with {text!r}"
        raise NotFoundError(msg)
    if len(found) > 1:
        named = ", ".join(str(each) for each in found[:_NAMED])
        more = ", and more" if len(found) > _NAMED else ""
        msg = (
            f"several {noun}s have an id that begins with {text!r}: {named}{more}."
            " Give more of it."
        )
        raise ConflictError(msg)
    return found[0]
