"""
The log of an operation: what its steps said while they ran, kept with its row.

Lines have numbers, from 1, over all attempts. The first 100 and the last 400 are kept:
a gap between two numbers is what a talkative operation lost in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import Identifier, json_rows, make_rows_json
from models.database.plain_json import make_plain_text
from models.database.tables import operation_log
from models.operation_state import FINAL_STATES
from operations.list_operations import require_operation

#: Lines that are kept of an operation: its first, and its latest.
FIRST_KEPT = 100
LAST_KEPT = 400

#: Letters of a line; what is longer is cut, and says so.
LONGEST = 1_000

_CUT = " … (cut)"


class LogLevel(StrEnum):
    """How bad it is what a line says."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class LogLine:
    """
    A line of the log of an operation.

    Args:
        number: From 1. Numbers that are missing were dropped.
        at: Aware UTC.
        attempt: The attempt that said it.
        step: The step that said it. None: it is about the whole operation.
        text: Cut if it is long; perhaps several lines.
    """

    number: int
    at: datetime
    attempt: int
    step: str | None
    level: LogLevel
    text: str


@dataclass(frozen=True, slots=True)
class LogPage:
    """
    Lines of a log, for somebody who reads on.

    Args:
        next_after: The number after which to read on.
        is_final: Whether nothing more will come, unless the operation is retried.
    """

    items: Sequence[LogLine]
    next_after: int
    is_final: bool


#: Letters of the error of an operation or a step: more would be fetched by every list.
LONGEST_ERROR = 10_000


def shorten(text: str, longest: int = LONGEST) -> str:
    """
    Return *text* as a line can hold it, or something of *longest* letters.

    >>> shorten("a" * 2_000)[-10:], len(shorten("a" * 2_000))
    ('aa … (cut)', 1000)
    """
    clean = make_plain_text(text)
    return clean if len(clean) <= longest else clean[: longest - len(_CUT)] + _CUT


def write_lines(
    connection: sa.Connection, operation_id: UUID, lines: Sequence[LogLine]
) -> None:
    """
    Append *lines*; their numbers count from the end of what is there.

    Args:
        connection: In a transaction that has locked the operation.
        lines: At least one, in order.
    """
    rows = [asdict(each) for each in lines]
    written = connection.execute(
        _insert_statement(connection.dialect.name),
        {"operation_id": operation_id, "lines": make_rows_json(rows)},
    )
    total = max(written.scalars())
    if total > FIRST_KEPT + LAST_KEPT:
        columns = operation_log.c
        connection.execute(
            sa.delete(operation_log).where(
                columns.operation_id == operation_id,
                columns.number > FIRST_KEPT,
                columns.number <= total - LAST_KEPT,
            )
        )


_LINE = tuple(each.name for each in fields(LogLine))


@cache
def _insert_statement(dialect: str) -> sa.Executable:
    columns = operation_log.c
    kinds = {name: columns[name].type for name in _LINE}
    line = json_rows(dialect, kinds, "lines")
    operation_id = sa.bindparam("operation_id", type_=Identifier)
    former = (
        sa.select(sa.func.coalesce(sa.func.max(columns.number), 0))
        .where(columns.operation_id == operation_id)
        .scalar_subquery()
    )
    chosen = sa.select(
        operation_id, former + line.c.number, *(line.c[name] for name in _LINE[1:])
    )
    return (
        sa.insert(operation_log)
        .from_select(["operation_id", *_LINE], chosen)
        .returning(columns.number)
    )


def fetch_log(
    connection: sa.Connection,
    operation_id: UUID,
    *,
    after: int = 0,
    limit: int = FIRST_KEPT + LAST_KEPT,
    app: str | None = None,
) -> list[LogLine]:
    """
    Return lines of the log of an operation, the oldest first.

    Args:
        after: The number of the last line that is known. 0: from the beginning.
        limit: The most lines.
        app: Uid of the small app that it must belong to. None: any.

    Raises:
        NotFoundError: There is no such operation.
    """
    require_operation(connection, operation_id, app=app)
    columns = operation_log.c
    rows: Any = connection.execute(
        sa.select(operation_log)
        .where(columns.operation_id == operation_id, columns.number > after)
        .order_by(columns.number)
        .limit(limit)
    )
    return [
        LogLine(
            row.number, row.at, row.attempt, row.step, LogLevel(row.level), row.text
        )
        for row in rows
    ]


def fetch_log_page(
    connection: sa.Connection,
    operation_id: UUID,
    *,
    after: int,
    limit: int,
    app: str | None = None,
) -> LogPage:
    """
    Return lines as ``fetch_log`` does, and whether more may come.

    Raises:
        NotFoundError: There is no such operation.
    """
    # In this order: what was said before the end is among the lines.
    row = require_operation(connection, operation_id, app=app)
    lines = fetch_log(connection, operation_id, after=after, limit=limit, app=app)
    return LogPage(
        items=lines,
        next_after=lines[-1].number if lines else after,
        is_final=row.state in FINAL_STATES and len(lines) < limit,
    )
