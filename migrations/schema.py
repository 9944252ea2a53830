"""
Bring a database to the schema this version of the code needs, and tell how far it is.

Migrations only go up: going back is restoring a backup, which is honest.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from models.database import translating, writing
from models.errors import UsageError

#: Serialises two ``minutehand migrate`` at once; any constant of our own will do.
_ADVISORY_LOCK = 0x6D68


def _make_config(connection: sa.Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config


def migrate(engine: sa.Engine) -> None:
    """Apply the migrations that are missing, in one transaction; none is no error."""
    with writing(engine) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        command.upgrade(_make_config(connection), "head")


def get_schema_revision(engine: sa.Engine) -> str | None:
    """Return the revision the database is at; None if it was never migrated."""
    with translating(), engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


@cache
def get_newest_revision() -> str:
    """Return the revision that this version of the code needs."""
    newest = ScriptDirectory.from_config(_make_config()).get_current_head()
    assert newest is not None  # there are migrations
    return newest


def check_schema(engine: sa.Engine) -> None:
    """
    Refuse to run on a schema that is not this version's.

    Raises:
        UsageError: If the database was never migrated, or is older or newer.
    """
    found = get_schema_revision(engine)
    wanted = get_newest_revision()
    if found != wanted:
        msg = (
            f"the database is at schema {found or 'none'}, this version needs "
            f"{wanted}. Run: minutehand migrate"
        )
        raise UsageError(msg)
