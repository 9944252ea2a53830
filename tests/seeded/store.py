"""Write many rows at once, by one prepared statement."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
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
        [form(row[name]) for name, form in zip(names, forms, strict=True)]
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
    if isinstance(column.type, JSON):
        return _to_json
    if isinstance(column.type, sa.TIMESTAMP):
        return _to_utc
    if isinstance(column.type, sa.Uuid):
        return _to_text
    return _as_it_is


def _as_it_is(value: Any) -> Any:
    return value


def _to_text(value: Any) -> Any:
    return None if value is None else str(value)


def _to_utc(value: datetime | None) -> str | None:
    return None if value is None else format_utc(value)


def _to_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)
