"""Write many rows at once, by one prepared statement."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.sqltypes import JSON

from models.database.engine import format_utc

Row = Mapping[str, Any]


def insert_rows(
    connection: sa.Connection, table: sa.Table, rows: Sequence[Row]
) -> None:
    """Insert *rows* into SQLite; all have the keys of the first."""
    if not rows:
        return
    names = [*rows[0]]
    forms = [_find_form(table.c[name]) for name in names]
    values = (
        [
            None if row[name] is None else form(row[name])
            for name, form in zip(names, forms, strict=True)
        ]
        for row in rows
    )
    quoted = ", ".join(f'"{name}"' for name in names)
    marks = ", ".join("?" * len(names))
    cursor = connection.connection.cursor()
    # A driver that is not told would begin a transaction of its own.
    cursor.executemany(
        f"insert into {table.name} ({quoted}) values ({marks})",
        values,  # type: ignore[arg-type]  # sqlite3 takes any iterable
    )
    cursor.close()


def _find_form(column: sa.Column[Any]) -> Callable[[Any], Any]:
    """Return what makes of a value what SQLite keeps."""
    if isinstance(column.type, JSON):
        return partial(json.dumps, ensure_ascii=False)
    if isinstance(column.type, sa.TIMESTAMP):
        return format_utc
    return str if isinstance(column.type, sa.Uuid) else lambda value: value
