"""Write many rows at once: COPY into PostgreSQL, one prepared statement for SQLite."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.sqltypes import JSON

from models.database.engine import format_utc

Row = Mapping[str, Any]


def insert_rows(connection: sa.Connection, table: sa.Table, rows: Iterable[Row]) -> int:
    """
    Insert *rows*, all of which have the keys of the first.

    Returns:
        How many there were.
    """
    kept = list(rows)
    if not kept:
        return 0
    names = [*kept[0]]
    is_postgresql = connection.dialect.name == "postgresql"
    forms = [_find_form(table.c[name], is_postgresql=is_postgresql) for name in names]
    values = (
        [form(row[name]) for name, form in zip(names, forms, strict=True)]
        for row in kept
    )
    quoted = ", ".join(f'"{name}"' for name in names)
    cursor = connection.connection.cursor()
    if is_postgresql:
        with cursor.copy(f"copy {table.name} ({quoted}) from stdin") as copy:
            for each in values:
                copy.write_row(each)
    else:
        marks = ", ".join("?" * len(names))
        # A driver that is not told would begin a transaction of its own.
        cursor.executemany(
            f"insert into {table.name} ({quoted}) values ({marks})",
            values,  # type: ignore[arg-type]  # sqlite3 takes any iterable
        )
    cursor.close()
    return len(kept)


def _find_form(column: sa.Column[Any], *, is_postgresql: bool) -> Callable[[Any], Any]:
    if isinstance(column.type, JSON):
        return _to_json
    if is_postgresql:
        return _as_it_is
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
