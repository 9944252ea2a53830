"""
Rows that another session keeps locked, such as a shell in which nobody commits.

SQLite has no locks of rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, TypeVar

import sqlalchemy as sa

from models.database.engine import json_rows, make_rows_json
from models.database.transaction import Transaction

_Key = TypeVar("_Key")
_ANY = sa.true()


def find_held(
    transaction: Transaction,
    key: sa.Column[Any],
    keys: Iterable[_Key],
    where: sa.ColumnElement[bool] = _ANY,
) -> set[_Key]:
    """
    Lock the rows of *keys* that are free; return the keys of the others.

    Waits for nobody.

    Args:
        key: The column of *keys*: each has any number of rows.
        where: Which of them; the statement is rendered once for each such condition.
    """
    given = [{"key": each} for each in keys]
    if not given or transaction.connection.dialect.name != "postgresql":
        return set()
    values = {"given": make_rows_json(given)}
    held = transaction.ask(_held_statement(key, where), values)
    transaction.wait(lambda: None)
    return {each for (each,) in held.rows}


@cache
def _held_statement(
    key: sa.Column[Any], where: sa.ColumnElement[bool]
) -> sa.Executable:
    given = json_rows("postgresql", {"key": key.type}, "given")
    asked = key.in_(sa.select(given.c.key)) & where
    ids = key.table.primary_key.columns
    locking = sa.select(*ids).where(asked)
    # for a change of other columns than the key
    free = locking.with_for_update(key_share=True, skip_locked=True).cte("free")
    is_free = sa.tuple_(*ids).in_(sa.select(free))
    return sa.select(key).where(asked, ~is_free).distinct()
