"""The database: its schema, how it is reached, whether we may write there."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from migrations.schema_revisions import check_schema
from models.database.engine import is_pooled
from models.database.grants import find_missing_grants
from models.database.sqlite_place import find_sqlite_file
from models.errors import UsageError
from models.units import format_bytes
from operations.fleet.processes import measure_free
from overview.doctor.finding import Finding, Health, View
from overview.doctor.thresholds import NO_SPACE

_UNWRITTEN = (
    "Nothing is recorded, sent or finished until it takes writes again; what is due"
    " stays due."
)


def look_at_database(view: View) -> Iterator[Finding]:
    """Look whether the database takes writes; a replica answers, and takes none."""
    reason = _find_read_only(view.connection)
    if reason is not None:
        title = "the database is read-only"
        yield Finding("database", Health.BAD, f"{title}: {reason} {_UNWRITTEN}", title)
        return
    path = find_sqlite_file(view.settings.database_url)
    free = None if path is None else measure_free(path.parent)
    if free is not None and free < NO_SPACE:
        title = "the disk of the database is full"
        detail = f"{title}: {format_bytes(free)} free at {path}. Free some space."
        yield Finding("database", Health.BAD, f"{detail} {_UNWRITTEN}", title)
    else:
        yield Finding("database", Health.GOOD, "it takes writes")


def _find_read_only(connection: sa.Connection) -> str | None:
    """Return why nothing can be written; None: PostgreSQL takes writes, or SQLite."""
    if connection.dialect.name != "postgresql":
        return None
    is_replica, is_read_only = connection.execute(
        sa.text(
            "select pg_is_in_recovery(), current_setting('transaction_read_only')::bool"
        )
    ).one()
    if is_replica:
        return (
            "it is a replica. Promote it, or let MINUTEHAND_DATABASE_URL name the"
            " primary."
        )
    if is_read_only:
        return (
            "default_transaction_read_only is on, for the server, the database or the"
            " role. Switch it off."
        )
    return None


def look_at_grants(view: View) -> Iterator[Finding]:
    """Look for rights that the database user needs and lacks."""
    missing = find_missing_grants(view.connection)
    for each in missing:
        yield Finding("grants", Health.BAD, each, "a right in the database is missing")
    if not missing:
        found = "the database user has all that schedulers and workers need"
        yield Finding("grants", Health.GOOD, found)


def look_at_pooler(view: View) -> Iterator[Finding]:
    """Say that a pooler stands between, if one does."""
    if is_pooled(view.connection):
        found = (
            "one stands between us and PostgreSQL: each transaction says its deadlines"
            " itself, and nothing is left in a session"
        )
        yield Finding("pooler", Health.GOOD, found)


def look_at_schema(view: View) -> Iterator[Finding]:
    """Compare the schema of the database with that of this version."""
    try:
        schema = check_schema(view.connection.engine)
    except UsageError as error:
        title = "the schema is of another version"
        yield Finding("schema", Health.BAD, str(error), title)
        return
    if schema.is_newer:
        found = (
            f"the database is at {schema.found}, newer than this program's own "
            f"({schema.wanted}) but compatible. Upgrade the program (docs/upgrades.md)."
        )
        title = "the database is newer than this program"
        yield Finding("schema", Health.DOUBTFUL, found, title)
    else:
        yield Finding("schema", Health.GOOD, "it is that of this version")
