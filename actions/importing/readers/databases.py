"""
The database of another scheduler: read, never written, with deadlines.

What went wrong is told without the address, which has a password in it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa

from models.database.engine import load_postgresql
from models.errors import RuleError, UnreachableError, UsageError
from models.fields.server_url import read_database_url

#: For connecting, and for each statement.
TIMEOUT = timedelta(seconds=10)

#: How drivers say that a table or a column is not there.
_NO_TABLE = ("no such table", "no such column", "UndefinedTable", "UndefinedColumn")


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
    scheme = url.partition("://")[0]
    if scheme.startswith("sqlite+"):
        url = url.replace(scheme, "sqlite", 1)
    elif scheme.startswith("postgresql+"):
        url = url.replace(scheme, "postgresql", 1)
    try:
        parsed = sa.make_url(read_database_url(url))
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
    return _make_sqlite_engine(parsed.database or "")


def _make_sqlite_engine(name: str) -> sa.Engine:
    path = Path(name)
    if not path.is_file():
        msg = (
            f"there is no file {name!r}. Write sqlite:////path/to/file (four slashes)."
        )
        raise UsageError(msg)

    def connect() -> sqlite3.Connection:
        place = f"file:{quote(str(path.absolute()))}?mode=ro"
        return sqlite3.connect(
            place, uri=True, timeout=TIMEOUT.total_seconds(), check_same_thread=False
        )

    return sa.create_engine("sqlite://", creator=connect, poolclass=sa.pool.NullPool)
