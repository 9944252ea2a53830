"""Instants in SQL, where PostgreSQL and SQLite differ."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from models.database.engine import UtcDateTime

#: Characters of an instant in SQLite up to its second.
_TO_SECOND = 19


def number_of(
    dialect: str, instant: sa.ColumnElement[Any], length_s: int
) -> sa.ColumnElement[int]:
    """
    Return which stretch of *length_s* seconds since 1970 an instant lies in.

    Args:
        dialect: ``connection.dialect.name``.
        instant: A column of instants.
        length_s: At least 1.
    """
    if dialect == "postgresql":
        # In floating point, which has room for microseconds until the year 2255: the
        # numeric of extract() takes as long as all the rest of a query that counts.
        epoch_s = sa.func.date_part("epoch", instant, type_=sa.Float())
        return sa.cast(sa.func.floor(epoch_s / float(length_s)), sa.BigInteger)
    second = sa.func.strftime("%s", sa.func.substr(instant, 1, _TO_SECOND))
    return sa.cast(second, sa.Integer).op("/")(length_s)


class by_database(FunctionElement[bool]):  # noqa: N801 - reads as SQL's own
    """SQL expression: a condition in the words of PostgreSQL, or in those of SQLite."""

    type = sa.Boolean()
    inherit_cache = True
    name = "by_database"

    def __init__(self, postgresql: str, sqlite: str) -> None:
        """Take the two texts."""
        super().__init__(*map(sa.literal_column, (postgresql, sqlite)))

    def self_group(self, against: Any = None) -> Self:  # noqa: ARG002 - as overridden
        """Return it as it is: SQLite would be told ``(...) = 1``, and use no index."""
        return self


@compiles(by_database, "postgresql")
def _postgresql_words(element: by_database, compiler: Any, **options: Any) -> str:
    text, _ = element.clauses
    return str(compiler.process(text, **options))


@compiles(by_database, "sqlite")
def _sqlite_words(element: by_database, compiler: Any, **options: Any) -> str:
    _, text = element.clauses
    return str(compiler.process(text, **options))


class seconds_between(FunctionElement[float]):  # noqa: N801 - reads as SQL's own
    """SQL expression: the seconds from the first instant to the second."""

    type = sa.Float()
    inherit_cache = True
    name = "seconds_between"


@compiles(seconds_between, "postgresql")
def _postgresql_seconds(element: seconds_between, compiler: Any, **options: Any) -> str:
    first, second = (compiler.process(each, **options) for each in element.clauses)
    return f"extract(epoch FROM ({second} - {first}))"


@compiles(seconds_between, "sqlite")
def _sqlite_seconds(element: seconds_between, compiler: Any, **options: Any) -> str:
    first, second = (compiler.process(each, **options) for each in element.clauses)
    # julianday() counts milliseconds, in days
    return f"round((julianday({second}) - julianday({first})) * 86400.0, 3)"


class minutes_ago(FunctionElement[int]):  # noqa: N801 - reads as SQL's own
    """SQL expression: whole minutes from an instant in the past until now."""

    type = sa.Integer()
    inherit_cache = True
    name = "minutes_ago"


@compiles(minutes_ago, "postgresql")
def _postgresql_minutes(element: minutes_ago, compiler: Any, **options: Any) -> str:
    then, now = (compiler.process(each, **options) for each in element.clauses)
    return f"floor(extract(epoch FROM ({now} - {then})) / 60)::integer"


@compiles(minutes_ago, "sqlite")
def _sqlite_minutes(element: minutes_ago, compiler: Any, **options: Any) -> str:
    then, now = (compiler.process(each, **options) for each in element.clauses)
    return f"CAST((julianday({now}) - julianday({then})) * 1440.0 AS INTEGER)"


class minute_of(FunctionElement[datetime]):  # noqa: N801 - reads as SQL's own
    """SQL expression: the beginning of the minute of an instant."""

    type = UtcDateTime
    inherit_cache = True
    name = "minute_of"


@compiles(minute_of, "postgresql")
def _postgresql_minute(element: minute_of, compiler: Any, **options: Any) -> str:
    return f"date_trunc('minute', {compiler.process(element.clauses, **options)})"


@compiles(minute_of, "sqlite")
def _sqlite_minute(element: minute_of, compiler: Any, **options: Any) -> str:
    instant = compiler.process(element.clauses, **options)
    # Instants are text of a fixed width: models/database/engine.py.
    return f"(substr({instant}, 1, 16) || ':00.000000+00:00')"
