"""
Bring a database to the schema that this version of the code needs.

Migrations only go up; the way back is to restore a backup. schema_revisions.py says
which schema a database has, and which programs may work on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import Script, ScriptDirectory

from migrations.live_indexes import make_ahead
from migrations.schema_revisions import (
    VERSIONS,
    check_schema,
    get_known_revisions,
    get_newest_revision,
    get_schema_revision,
)
from models.database.engine import reading, writing
from models.database.tables import installation
from models.errors import UnreachableError, UsageError

__all__ = ["check_schema", "get_newest_revision", "get_schema_revision", "migrate"]

#: Serialises two ``minutehand migrate`` at once; any constant will do.
_ADVISORY_LOCK = 0x6D68

#: How long a change may wait for a table that is in use. All later users wait behind
#: it, including the tick, so it waits briefly and repeatedly. Less than the second
#: after which PostgreSQL looks for a deadlock, and might end another transaction.
LOCK_TIMEOUT = timedelta(seconds=0.5)

#: Attempts, with a pause after each: a dump locks every table and may take a while.
_ATTEMPTS = 30
_PAUSE_S = 2.0

#: SQLSTATE for an expired ``lock_timeout``.
_LOCK_NOT_AVAILABLE = "55P03"


def make_config(
    connection: sa.Connection | None = None, *, versions: Path = VERSIONS
) -> Config:
    """
    Return what Alembic's commands need to know.

    Args:
        connection: What they work on; None: no database.
        versions: Where the migrations are; tests have others.
    """
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "os")
    config.set_main_option("version_locations", str(versions))
    config.attributes["connection"] = connection
    return config


def migrate(
    engine: sa.Engine,
    *,
    versions: Path = VERSIONS,
    lock_timeout: timedelta = LOCK_TIMEOUT,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """
    Apply the missing migrations, if any, in one transaction.

    Indexes of large tables are made before it, while everybody goes on working.

    Args:
        engine: With any deadline; indexes may take longer.
        versions: Where the migrations are; tests have others.
        lock_timeout: How long a change waits for a table that is in use, each time.
        sleep: Waits between two attempts at a table that is in use.

    Raises:
        UsageError: If the database is newer, and this program does not work with it; or
            empty, and not in UTF-8.
        UnreachableError: If a table stayed in use, or the database is away.
    """
    found = get_schema_revision(engine)
    if found is not None and found not in get_known_revisions(versions):
        check_schema(engine, versions)
        return
    missing = _find_missing(found, versions)
    if not missing:
        return
    if engine.dialect.name == "postgresql":
        if found is None:
            _demand_utf8(engine)
        else:
            make_ahead(engine, [script.module for script in missing])
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _upgrade(engine, versions, missing[-1], lock_timeout)
        except UnreachableError as error:
            if attempt == _ATTEMPTS or not _is_in_use(error):
                raise
            sleep(_PAUSE_S)
        else:
            return


def _demand_utf8(engine: sa.Engine) -> None:
    with reading(engine) as connection:
        encoding = connection.execute(sa.text("show server_encoding")).scalar_one()
    if encoding != "UTF8":
        raise UsageError(
            f"the database is in {encoding}, which cannot keep all that people write."
            " Make another: createdb -E UTF8 -T template0 NAME"
        )


def _find_missing(found: str | None, versions: Path) -> list[Script]:
    """Return the migrations to apply, in order."""
    scripts = ScriptDirectory.from_config(make_config(versions=versions))
    newest_first = scripts.walk_revisions(found or "base", "head")
    return [script for script in newest_first if script.revision != found][::-1]


def _upgrade(
    engine: sa.Engine, versions: Path, last: Script, lock_timeout: timedelta
) -> None:
    with writing(engine) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
            milliseconds = int(lock_timeout.total_seconds() * 1000)
            connection.execute(sa.text(f"set local lock_timeout = {milliseconds}"))
        command.upgrade(make_config(connection, versions=versions), last.revision)
        oldest = last.module.compatible_from
        connection.execute(sa.update(installation).values(compatible_from=oldest))


def _is_in_use(error: UnreachableError) -> bool:
    cause: Any = error.__cause__
    return getattr(getattr(cause, "orig", None), "sqlstate", "") == _LOCK_NOT_AVAILABLE
