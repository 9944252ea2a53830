"""Instants in SQL, where PostgreSQL and SQLite differ."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

import sqlalchemy as sa

from models.database.engine import SqlWords, UtcDateTime, db_now

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
        # In floating point, as below, which has room for microseconds until the year
        # 2255: extract()'s numeric takes as long as all the rest of a query.
        epoch_s = sa.func.date_part("epoch", instant, type_=sa.Float())
        return sa.cast(sa.func.floor(epoch_s / float(length_s)), sa.BigInteger)
    second = sa.func.strftime("%s", sa.func.substr(instant, 1, _TO_SECOND))
    return sa.cast(second, sa.Integer).op("/")(length_s)


def was_there(
    written_at: sa.ColumnElement[datetime], at: datetime
) -> sa.ColumnElement[bool]:
    """
    Tell whether a row that was written at *written_at* was there at the instant *at*.

    A row that seems to be written later than now counts: it was written before the
    clock was set back.
    """
    return sa.or_(written_at <= at, written_at > db_now())


class by_database(SqlWords[bool]):  # noqa: N801 - reads as SQL's own
    """SQL expression: a condition in the words of PostgreSQL, or in those of SQLite."""

    type = sa.Boolean()
    inherit_cache = True
    name = "by_database"
    postgresql = "{0}"
    sqlite = "{1}"

    def __init__(self, postgresql: str, sqlite: str) -> None:
        """Take the two texts."""
        super().__init__(*map(sa.literal_column, (postgresql, sqlite)))

    def self_group(self, against: Any = None) -> Self:  # noqa: ARG002 - as overridden
        """Return it as it is: SQLite would be told ``(...) = 1``, and use no index."""
        return self


class seconds_between(SqlWords[float]):  # noqa: N801 - reads as SQL's own
    """SQL expression: the seconds from the first instant to the second."""

    type = sa.Float()
    inherit_cache = True
    name = "seconds_between"
    postgresql = "date_part('epoch', {1} - {0})"
    # julianday() counts milliseconds, in days
    sqlite = "round((julianday({1}) - julianday({0})) * 86400.0, 3)"


class minutes_ago(SqlWords[int]):  # noqa: N801 - reads as SQL's own
    """SQL expression: whole minutes from an instant in the past until now."""

    type = sa.Integer()
    inherit_cache = True
    name = "minutes_ago"
    postgresql = "floor(date_part('epoch', {1} - {0}) / 60)::integer"
    sqlite = "CAST((julianday({1}) - julianday({0})) * 1440.0 AS INTEGER)"


class minute_of(SqlWords[datetime]):  # noqa: N801 - reads as SQL's own
    """SQL expression: the beginning of the minute of an instant."""

    type = UtcDateTime
    inherit_cache = True
    name = "minute_of"
    postgresql = "date_trunc('minute', {0})"
    # Instants are text of a fixed width: models/database/engine.py.
    sqlite = "(substr({0}, 1, 16) || ':00.000000+00:00')"
