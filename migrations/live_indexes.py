"""
Indexes of large tables, made on PostgreSQL while everybody goes on working.

``CREATE INDEX`` keeps all writers of its table out until it is done: with ten million
operations, long enough for ticks to record nothing. So a migration lists such indexes
as ``LIVE_INDEXES``. They are made concurrently before its transaction, and its
``upgrade`` finds that they exist.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import ModuleType
from typing import Any

import sqlalchemy as sa
from alembic import op

from models.database.engine import translating
from models.database.postgresql import set_deadline
from models.errors import ConflictError

#: Differs from the lock in schema.py, which ends with its transaction.
_ADVISORY_LOCK = 0x6D69

#: How long an index may take, and another ``minutehand migrate`` that makes it.
_AT_MOST = timedelta(hours=12)
_PAUSE_S = 0.5

#: How long to wait for a table that is in use, and how often; see schema.py.
_BRIEFLY_MS = 500
_ATTEMPTS = 60


@dataclass(frozen=True, slots=True)
class LiveColumn:
    """
    A column of a large table; adding it rewrites no row.

    Args:
        default: SQL of the server's default. None: the column may be null.
    """

    table: str
    name: str
    kind: sa.types.TypeEngine[Any]
    default: str | None = None

    def create(self) -> None:
        """Add it in a migration, unless it was made ahead."""
        found = sa.inspect(op.get_bind()).get_columns(self.table)
        if self.name not in {each["name"] for each in found}:
            op.add_column(self.table, self._make())

    def compile(self, dialect: sa.Dialect) -> str:
        """Return the statement that adds it."""
        column = self._make()
        sa.Table(self.table, sa.MetaData(), column)  # a column is compiled in a table
        text = sa.schema.CreateColumn(column).compile(dialect=dialect)
        return f"ALTER TABLE {self.table} ADD COLUMN {text}"

    def _make(self) -> sa.Column[Any]:
        default = None if self.default is None else sa.text(self.default)
        return sa.Column(
            self.name, self.kind, server_default=default, nullable=default is None
        )


@dataclass(frozen=True, slots=True)
class LiveIndex:
    """
    An index.

    Args:
        columns: Separated by commas.
        where: SQL, of a partial index. None: it has all rows.
        on_sqlite: The same, if SQLite has other words for it.
        unique: Whether no two rows may have the same columns.
    """

    name: str
    table: str
    columns: str
    where: str | None = None
    on_sqlite: str | None = None
    unique: bool = False

    def create(self) -> None:
        """Add it in a migration, unless it was made ahead."""
        # IF NOT EXISTS would keep all writers out even before it looks.
        found = sa.inspect(op.get_bind()).get_indexes(self.table)
        if self.name in {each["name"] for each in found}:
            return
        on_sqlite = self.on_sqlite or self.where
        op.create_index(
            self.name,
            self.table,
            self.columns.split(", "),
            unique=self.unique,
            postgresql_where=None if self.where is None else sa.text(self.where),
            sqlite_where=None if on_sqlite is None else sa.text(on_sqlite),
        )


def make_ahead(engine: sa.Engine, migrations: Sequence[ModuleType]) -> None:
    """
    Make the live indexes of *migrations* on a PostgreSQL database that is in use.

    Raises:
        ConflictError: If another migration is making them for longer than any should
            take.
        UnreachableError: If the database is away.
    """
    indexes: list[LiveIndex] = [
        index
        for migration in migrations
        for index in getattr(migration, "LIVE_INDEXES", ())
    ]
    columns: list[LiveColumn] = [
        column
        for migration in migrations
        for column in getattr(migration, "LIVE_COLUMNS", ())
    ]
    if not indexes:
        return
    with translating(), engine.connect() as connected:
        connection = connected.execution_options(isolation_level="AUTOCOMMIT")
        set_deadline(connection, _AT_MOST)
        try:
            _take_turns(connection)
            for column in columns:
                _add(connection, column)
            for index in indexes:
                _make(connection, index)
        finally:
            # Not back to the pool: its deadline is another, and it holds the lock.
            connection.invalidate()


def _take_turns(connection: sa.Connection) -> None:
    """Poll: a statement that waited would hold up the index of whoever has the lock."""
    give_up_at = time.monotonic() + _AT_MOST.total_seconds()
    lock = sa.select(sa.func.pg_try_advisory_lock(_ADVISORY_LOCK))
    while not connection.execute(lock).scalar_one():
        if time.monotonic() > give_up_at:
            raise ConflictError(
                "another minutehand migrate has been making indexes for too long. "
                "Stop it, or wait until it ends."
            )
        time.sleep(_PAUSE_S)


def _add(connection: sa.Connection, column: LiveColumn) -> None:
    """Wait for the table briefly but repeatedly: all later users wait behind us."""
    found = sa.inspect(connection).get_columns(column.table)
    if column.name in {each["name"] for each in found}:
        return
    connection.execute(sa.text(f"SET lock_timeout = {_BRIEFLY_MS}"))
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            connection.execute(sa.text(column.compile(connection.dialect)))
            break
        except sa.exc.OperationalError:
            if attempt == _ATTEMPTS:
                raise
        time.sleep(_PAUSE_S)
    connection.execute(sa.text("SET lock_timeout = 0"))


def _make(connection: sa.Connection, index: LiveIndex) -> None:
    is_valid = connection.execute(
        sa.text(
            "select indisvalid from pg_index where indexrelid = to_regclass(:name)"
        ),
        {"name": index.name},
    ).scalar_one_or_none()
    if is_valid:
        return
    if is_valid is False:  # the migration that made it was interrupted
        connection.execute(sa.text(f"drop index concurrently {index.name}"))
    where = "" if index.where is None else f" where {index.where}"
    unique = "unique " if index.unique else ""
    connection.execute(
        sa.text(
            f"create {unique}index concurrently {index.name} on {index.table} "
            f"({index.columns}){where}"
        )
    )
