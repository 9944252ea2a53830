"""
Which schema a database has, and whether this program may work on it.

Each migration names the oldest schema whose programs go on working after it
(``compatible_from``), and ``migrate`` stores that of the newest one in the database. So
a program that meets an unknown schema knows whether it may go on: a rolling upgrade
migrates first, and then replaces the programs one by one.

This reads file names instead of asking Alembic, which takes half a second to import,
since workers need it, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import sqlalchemy as sa

from models.database.engine import reading
from models.database.tables import installation
from models.errors import UnreachableError, UsageError

#: How the two databases report a table or column that no migration has made.
_NO_TABLE = ("no such table", "no such column", "UndefinedTable", "UndefinedColumn")

VERSIONS = Path(__file__).parent / "versions"

_revision = sa.table("alembic_version", sa.column("version_num", sa.Text)).c.version_num


@cache
def get_known_revisions(versions: Path = VERSIONS) -> tuple[str, ...]:
    """Return the revisions that this program knows, in order; the last is its own."""
    names = (path.name for path in versions.glob("[0-9]*_*.py"))
    return tuple(sorted(name.partition("_")[0] for name in names))


def get_newest_revision() -> str:
    """Return the revision that this version of the code needs."""
    return get_known_revisions()[-1]


def get_schema_revision(engine: sa.Engine) -> str | None:
    """
    Return the revision of the database; None if it was never migrated.

    Raises:
        UnreachableError: If the database is away.
    """
    with reading(engine) as connection:
        return fetch_revision(connection)


def fetch_revision(connection: sa.Connection) -> str | None:
    """Return the revision of the database; None if it was never migrated."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sa.select(_revision)).scalar_one_or_none()


@dataclass(frozen=True, slots=True)
class Schema:
    """
    The schema of a database that this program may work on, and the program's own.

    Args:
        found: The revision of the database.
        wanted: The revision of this program; differs only during a rolling upgrade.
    """

    found: str
    wanted: str

    @property
    def is_newer(self) -> bool:
        """Whether the database was migrated by a newer program."""
        return self.found != self.wanted


def check_schema(engine: sa.Engine, versions: Path = VERSIONS) -> Schema:
    """
    Refuse to run on a schema with which this program does not work.

    Args:
        engine: With any deadline.
        versions: Where its migrations are; tests have others.

    Returns:
        This program's schema, or a newer one with which it may go on.

    Raises:
        UsageError: If the database was never migrated, is older, or is newer and this
            program too old for it. The message says what to do.
        UnreachableError: If the database is away.
    """
    known = get_known_revisions(versions)
    wanted = known[-1]
    with reading(engine) as connection:
        found = fetch_revision(connection)
        if found is not None and found not in known:
            _check_newer(connection, found, known)
            return Schema(found, wanted)
    if found != wanted:
        raise UsageError(
            f"the database is at schema {found or 'none'}, and this version needs "
            f"{wanted}. Run: minutehand migrate"
        )
    return Schema(found, wanted)


@contextmanager
def explaining_schema(engine: sa.Engine) -> Iterator[None]:
    """Turn errors about missing tables into one about the schema's version."""
    try:
        yield
    except (UnreachableError, sa.exc.ProgrammingError) as error:
        if not _lacks_table(error):
            raise
        check_schema(engine)
        raise UsageError(str(error)) from error


def _lacks_table(error: Exception) -> bool:
    text = f"{error} {type(getattr(error, 'orig', None)).__name__}"
    return any(each in text for each in _NO_TABLE)


def _check_newer(connection: sa.Connection, found: str, known: tuple[str, ...]) -> None:
    """Refuse the schema of a newer program unless it is compatible with ours."""
    try:
        oldest = connection.execute(
            sa.select(sa.func.max(installation.c.compatible_from))
        ).scalar_one()
    except sa.exc.DBAPIError as error:
        if not _lacks_table(error):
            raise
        oldest = None  # a later schema says it elsewhere
    if oldest in known:
        return
    raise UsageError(
        f"this program is older than its database: schema {found} needs a program of "
        f"schema {oldest or found} or later, and this one has schema {known[-1]}. "
        "Install the version that migrated the database (docs/upgrades.md)."
    )
