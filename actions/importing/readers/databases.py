"""
The database of another scheduler: read, never written, with deadlines; no Django.

What went wrong is told without the address, which has a password in it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from actions.importing.origins.imported import Entry
from models.database.engine import load_postgresql
from models.errors import RuleError, UnreachableError, UsageError
from models.fields.server_url import read_database_url

#: For connecting, and for each statement.
TIMEOUT = timedelta(seconds=10)

#: How drivers say that a table or a column is not there.
_NO_TABLE = ("no such table", "no such column", "UndefinedTable", "UndefinedColumn")

#: Of schedules of django-celery-beat.
_KINDS = ("interval", "crontab", "solar", "clocked")


@contextmanager
def open_database(url: str, *, of: str) -> Iterator[sa.Connection]:
    """
    Yield a connection that cannot write.

    Args:
        url: ``postgresql://...`` (whichever driver it names) or ``sqlite:///path``.
        of: What it should be the database of, for messages.

    Raises:
        UsageError: If *url* is another database, names no file, or lacks the tables.
        UnreachableError: If it does not answer in time, or refuses.
    """
    engine = _make_engine(url)
    try:
        with engine.connect() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(sa.text("SET TRANSACTION READ ONLY"))
            yield connection
    except UnreachableError as error:
        _explain_missing(error, of)
        raise
    except sa.exc.DBAPIError as error:
        _explain_missing(error, of)
        said = str(error.orig).strip().partition("\n")[0]
        msg = f"the database of {of} cannot be read: {said}"
        raise UnreachableError(msg) from None
    finally:
        engine.dispose()


def _explain_missing(error: Exception, of: str) -> None:
    """Raise a better error if tables are missing."""
    text = f"{error} {type(getattr(error, 'orig', None)).__name__}"
    if any(each in text for each in _NO_TABLE):
        msg = f"the database has no tables of {of}. Is it the right one?"
        raise UsageError(msg) from None


def _make_engine(url: str) -> sa.Engine:
    scheme, colon, rest = url.partition("://")
    try:
        # whichever driver it names
        parsed = sa.make_url(
            read_database_url(f"{scheme.partition('+')[0]}{colon}{rest}")
        )
    except RuleError as error:
        msg = f"URL {error}"
        raise UsageError(msg) from None
    except sa.exc.ArgumentError:
        msg = "URL cannot be read. Write postgresql://user:password@host/name."
        raise UsageError(msg) from None
    if parsed.get_backend_name() == "postgresql":
        make_engine = load_postgresql().make_postgresql_engine
        engine: sa.Engine = make_engine(parsed, timeout=TIMEOUT, pool_size=1)
        return engine
    name = parsed.database or ""
    if not Path(name).is_file():
        msg = (
            f"there is no file {name!r}. Write sqlite:////path/to/file (four slashes)."
        )
        raise UsageError(msg)
    place = f"file:{quote(str(Path(name).absolute()))}?mode=ro"
    seconds = TIMEOUT.total_seconds()
    return sa.create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect(
            place, uri=True, timeout=seconds, check_same_thread=False
        ),
        poolclass=sa.pool.NullPool,
    )


def read_periodic_tasks(url: str) -> tuple[Entry, ...]:
    """
    Return all periodic tasks of django-celery-beat, by name.

    Raises:
        UsageError, UnreachableError: As ``open_database``.
    """
    with open_database(url, of="django-celery-beat") as connection:
        schedules = {
            kind: {row["id"]: row for row in _read_all(connection, f"{kind}schedule")}
            for kind in _KINDS
        }
        tasks = _read_all(connection, "periodictask")
    found = []
    for task in sorted(tasks, key=lambda row: str(row["name"])):
        kind = next((each for each in _KINDS if task[f"{each}_id"] is not None), "")
        schedule = schedules.get(kind, {}).get(task.get(f"{kind}_id"))
        fields = {**task, "kind": kind, "schedule": schedule}
        found.append(Entry(str(task["name"]), fields))
    return tuple(found)


def _read_all(connection: sa.Connection, name: str) -> list[Mapping[str, Any]]:
    # Older versions lack some columns, so take those that there are.
    table = sa.table(f"django_celery_beat_{name}")
    query = sa.select(sa.text("*")).select_from(table)
    return [dict(row) for row in connection.execute(query).mappings()]
