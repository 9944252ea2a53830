"""Lists with the latest entry first, read part by part: the same steps for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from models.paging import LARGEST_NUMBER, Page, Part

#: What a list is sorted by, each falling: an instant, and what tells apart the entries
#: of the same instant.
Key = Sequence[sa.Column[Any]]

#: The largest number that a column of eight bytes takes.
_LARGEST = 2**63 - 1


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


def cut_part(rows: Sequence[sa.Row[Any]], page: Page, key: Key) -> Part[Any]:
    """Return the part of *rows* that was asked for, and where the list goes on."""
    shown = rows[: page.limit]
    if len(rows) <= page.limit:
        return Part(shown, None)
    return Part(shown, tuple(getattr(shown[-1], column.name) for column in key))
