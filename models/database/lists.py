"""Lists read part by part, the latest entry first, and rows by digits of their id."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.sql.elements import KeyedColumnElement

from models.database.engine import Identifier, json_rows
from models.database.tables import operations, scheduled_action_revisions
from models.errors import ConflictError, NotFoundError
from models.paging import LARGEST_NUMBER, Page, Part

#: What a list is sorted by, each falling: an instant, and what tells apart the entries
#: of the same instant.
Key = Sequence[KeyedColumnElement[Any]]

#: The largest number that a column of eight bytes takes.
_LARGEST = 2**63 - 1


def select_given(
    connection: sa.Connection,
    values: Iterable[object],
    type_: sa.types.TypeEngine[Any] = Identifier,
) -> sa.Select[Any]:
    """Select *values*, for IN: they are one parameter, however many there are."""
    rows = [{"each": value} for value in values]
    return sa.select(json_rows(connection.dialect.name, {"each": type_}, given=rows))


def is_revision_among(
    connection: sa.Connection, keys: Iterable[tuple[str, int]]
) -> sa.ColumnElement[bool]:
    """
    Match revisions by the uids of their actions and their numbers.

    They are one parameter: for a list of pairs, SQLite would read all revisions.
    """
    kept = scheduled_action_revisions.c
    given = json_rows(
        connection.dialect.name,
        {"uid": kept.uid.type, "revision": kept.revision.type},
        given=[{"uid": uid, "revision": revision} for uid, revision in keys],
    )
    return sa.tuple_(kept.uid, kept.revision).in_(sa.select(given))


def fetch_documents(
    connection: sa.Connection, keys: Collection[tuple[str, int]]
) -> Mapping[tuple[str, int], dict[str, Any]]:
    """Return the documents of revisions, by (uid of the action, revision)."""
    kept = scheduled_action_revisions.c
    rows = connection.execute(
        sa.select(kept.uid, kept.revision, kept.document).where(
            is_revision_among(connection, keys)
        )
    )
    return {(row.uid, row.revision): row.document for row in rows}


def belongs_to(
    app: str | None, column: sa.ColumnElement[Any] = operations.c.app
) -> list[sa.ColumnElement[bool]]:
    """Return the condition that *column* names *app*; None: any, so there is none."""
    return [] if app is None else [column == app]


def fetch_latest(
    connection: sa.Connection, query: sa.Select[Any], page: Page, key: Key
) -> Part[Any]:
    """
    Return a part of the rows of *query*, the latest first.

    Args:
        query: Neither sorted nor limited; has the columns of *key*.
        page: Which part; positions are the values of *key*.
        key: What the list is sorted by.

    Raises:
        UsageError: The position of *page* was made up.
    """
    rows = connection.execute(select_latest(query, page, key)).all()
    return cut_part(rows, page, key)


def select_latest(query: sa.Select[Any], page: Page, key: Key) -> sa.Select[Any]:
    """Return *query* for a part of its rows and one more, which tells of the next."""
    return (
        query.where(*comes_after(page, key))
        .order_by(*(column.desc() for column in key))
        .limit(page.limit + 1)
    )


def comes_after(page: Page, key: Key) -> list[sa.ColumnElement[bool]]:
    """
    Return the condition for what the list has after the position of *page*.

    Returns:
        None of them at its beginning.

    Raises:
        UsageError: The position was made up.
    """
    is_big = any(isinstance(column.type, sa.BigInteger) for column in key)
    after = page.read_after(
        *(column.type.python_type for column in key),
        largest=_LARGEST if is_big else LARGEST_NUMBER,
    )
    if after is None:
        return []
    given = zip(after, key, strict=True)
    last = sa.tuple_(*(sa.literal(value, column.type) for value, column in given))
    return [sa.tuple_(*key) < last]


def cut_part(rows: Sequence[Any], page: Page, key: Key) -> Part[Any]:
    """Return the part of *rows* that was asked for, and where the list goes on."""
    shown = rows[: page.limit]
    if len(rows) <= page.limit:
        return Part(shown, None)
    return Part(shown, tuple(getattr(shown[-1], column.name) for column in key))


#: Digits of an id that tables show: of a million ids, one in 4,000 shares them.
SHOWN_DIGITS = 8

#: With fewer digits than this a typo would often find something else.
_LEAST_DIGITS = 4

#: Candidates that a refusal names.
_NAMED = 5

_PREFIX = re.compile(rf"[0-9a-f]{{{_LEAST_DIGITS},32}}", re.ASCII)


def find_by_prefix(
    connection: sa.Connection,
    column: sa.Column[UUID],
    text: str,
    *conditions: sa.ColumnElement[bool] | sa.TextClause,
    noun: str,
) -> UUID:
    """
    Return the id in *column* that begins with *text*.

    Args:
        column: The primary key of a table.
        text: An id, or its first digits, at least four; dashes do not count. A whole
            id is returned as it is, whether or not there is such a row.
        conditions: Of the rows that the caller may see.
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
        raise NotFoundError(
            f"there is no {noun} {text!r}. Give its id, or at least its first"
            f" {_LEAST_DIGITS} digits."
        )
    # Both databases order ids as their digits, so the index of the key serves.
    first, last = UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
    is_meant = column.between(first, last)
    query = sa.select(column).where(is_meant, *conditions).order_by(column)
    found = connection.execute(query.limit(_NAMED + 1)).scalars().all()
    if not found:
        raise NotFoundError(f"there is no {noun} whose id begins with {text!r}")
    if len(found) > 1:
        named = ", ".join(str(each) for each in found[:_NAMED])
        more = ", and more" if len(found) > _NAMED else ""
        raise ConflictError(
            f"several {noun}s have an id that begins with {text!r}: {named}{more}."
            " Give more of it."
        )
    return found[0]
