"""
Read the rows of a tenant's query, in batches and in a read-only session.

This runs in the process that reads one source (ingest.py), which has a memory limit and
can be ended while the database works.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import psycopg

from models.errors import StepError

#: For connecting, and for waiting for a lock of SQLite.
CONNECT_TIMEOUT_S = 10

#: Bytes of rows to fetch at once; rows to fetch first; and rows to fetch at most.
_BATCH_BYTES = 16 << 20
_FIRST_BATCH = 500
_MOST_ROWS = 50_000

#: Longest text or blob of SQLite, in bytes.
_LONGEST_VALUE = 256 << 20

#: Messages of libpq and psycopg if a row does not fit into memory. The second appears
#: when a part of the answer had arrived already.
_NO_ROOM = ("out of memory", "received 2 results")

#: If all of these tables are in one schema, the database is Minutehand's own.
OUR_TABLES = (
    *("scheduled_action_revisions", "operation_steps"),
    *("domain_versions", "leases"),
)

#: Roles of PostgreSQL whose members reach beyond the rows of a database: the sessions
#: of others, files and programs of the server.
_POWERS = (
    *("pg_signal_backend", "pg_read_server_files"),
    *("pg_write_server_files", "pg_execute_server_program"),
)

#: The actions of SQLite that a read-only query needs.
_ALLOWED = (
    *(sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ),
    *(sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE),
)
#: Functions of SQLite that reach beyond the database.
_FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer"})

Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """
    A query that runs.

    Args:
        names: Names of its columns.
        fetch: Returns the next rows, at most as many as its argument says.
        cancel: Ends the query; may be called from any thread.
    """

    names: tuple[str, ...]
    fetch: Callable[[int], Sequence[Row]]
    cancel: Callable[[], None]

    def iterate(self) -> Iterator[Sequence[Row]]:
        """Yield the rows in batches whose size in memory stays about the same."""
        count = _FIRST_BATCH
        while rows := self.fetch(count):
            yield rows
            width = max(1, sum(map(_measure, rows)) // len(rows))
            count = max(1, min(_MOST_ROWS, _BATCH_BYTES // width))


def _measure(row: Row) -> int:
    """Return roughly how many bytes *row* takes."""
    return sum(
        len(value) if isinstance(value, str | bytes) else 16 for value in row
    ) + 16 * len(row)


@contextmanager
def open_query(url: str, query: str, *, seconds: int, shown: str) -> Iterator[SqlQuery]:
    """
    Run *query* in the database at *url*; the query cannot change anything.

    Args:
        url: ``postgresql://`` or ``sqlite:///``, written by an operator.
        query: One statement, as the tenant wrote it.
        seconds: After this time the database itself cancels the query.
        shown: What messages call the database; they never contain *url*.

    Raises:
        StepError: Permanent: the query is wrong, or the database is Minutehand's own.
            Temporary: the database is away, locked, or too slow.
    """
    opening = _open_sqlite if url.startswith("sqlite") else _open_postgresql
    try:
        with opening(url, query, seconds, shown) as opened:
            yield opened
    except psycopg.Error as error:
        if any(words in str(error) for words in _NO_ROOM) and error.sqlstate is None:
            raise MemoryError from error
        # from None: libpq's message about an unreadable URL contains the whole URL.
        raise _explain_postgresql(error, url, seconds, shown) from None
    except sqlite3.OperationalError as error:
        msg = f"{shown}: {_first_line(error)}"
        # SQLite reports a missing table in the same class; only a lock may pass.
        raise StepError(msg, permanent="locked" not in str(error)) from error
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise StepError(f"{shown}: {_first_line(error)}", permanent=True) from error


def _explain_postgresql(
    error: psycopg.Error, url: str, seconds: int, shown: str
) -> StepError:
    if isinstance(error, psycopg.errors.QueryCanceled):
        msg = (
            f"{shown}: reading it took longer than {seconds} s "
            "(MINUTEHAND_SOURCE_TIMEOUT)."
        )
        return StepError(msg, permanent=False)
    # A database that is away may return; a wrong query stays wrong.
    passing = isinstance(error, psycopg.OperationalError)
    reason = _first_line(error).replace(url, "***")
    for secret in _find_passwords(url):
        reason = reason.replace(secret, "***")
    return StepError(f"{shown}: {reason}", permanent=not passing)


def _find_passwords(url: str) -> Iterator[str]:
    """Find the passwords in *url*, as they are written and as they are meant."""
    parts = urlsplit(url)
    parameters = (each.partition("=") for each in parts.query.split("&"))
    found = (value for name, _, value in parameters if name.endswith("password"))
    for password in filter(None, (parts.password, *found)):
        yield password
        yield unquote(password)


@contextmanager
def _open_postgresql(
    url: str, query: str, seconds: int, shown: str
) -> Iterator[SqlQuery]:
    # Closed in the middle of its transaction, which nothing ever commits: so the server
    # ends the session, and takes back whatever the query set, locked or announced, also
    # where a pooler would give the session to somebody else.
    with closing(
        psycopg.connect(
            url, connect_timeout=CONNECT_TIMEOUT_S, application_name="minutehand source"
        )
    ) as connection:
        connection.read_only = True
        found = connection.execute(
            "select 1 from pg_catalog.pg_class where relname = any(%s)"
            " and relkind in ('r', 'p') group by relnamespace"
            " having count(distinct relname) = %s",
            [list(OUR_TABLES), len(OUR_TABLES)],
        )
        if found.fetchone() is not None:
            raise _refuse_ours(shown)
        _refuse_power(connection, shown)
        # SET takes no parameters. LOCAL, because a pooler may reuse the session.
        bounds = f"set local statement_timeout = '{seconds:d}s'"
        if connection.info.server_version >= 140000:
            # The query ends soon after this process, unless it sets this itself.
            bounds += "; set local client_connection_check_interval = '2s'"
        connection.execute(bounds.encode())
        # A named cursor: the rows stay in the database until they are fetched, and only
        # a query can have one.
        with connection.cursor(name="minutehand") as cursor:
            cursor.execute(query.encode())
            names = tuple(column.name for column in cursor.description or ())

            def fetch(count: int) -> list[Row]:
                # Again: the query may have set them itself. For the part at hand
                # that leaves the time of a statement, which counts from its begin.
                connection.execute(bounds.encode())
                return [
                    [_simplify(value) for value in row]
                    for row in cursor.fetchmany(count)
                ]

            yield SqlQuery(names, fetch, connection.cancel)


def _refuse_power(connection: psycopg.Connection[Row], shown: str) -> None:
    """Refuse a role whose queries reach beyond the rows that they read."""
    row = connection.execute(
        "select case when rolsuper then 'it is a superuser'"
        # The settings can compare how they call the server, but it may have more names.
        " when exists (select from pg_catalog.pg_stat_activity where usename ="
        " session_user and application_name = 'minutehand')"
        " then 'Minutehand itself works as it' else"
        " (select 'it has ' || min(more.rolname) from pg_catalog.pg_roles more"
        " where more.rolname = any(%s)"
        " and pg_catalog.pg_has_role(ours.oid, more.oid, 'MEMBER')) end"
        " from pg_catalog.pg_roles ours where rolname = session_user",
        [list(_POWERS)],
    ).fetchone()
    if row is not None and row[0] is not None:
        msg = (
            f"{shown}: its role may do more than read ({row[0]}). The operator must"
            " name another one in MINUTEHAND_SQL_CONNECTIONS."
        )
        raise StepError(msg, permanent=True)


@contextmanager
def _open_sqlite(url: str, query: str, seconds: int, shown: str) -> Iterator[SqlQuery]:
    del seconds  # SQLite runs in this process, which is ended in time
    path = Path(url.partition(":///")[2].partition("?")[0])
    if not path.is_file():
        # SQLite would make an empty database, and say later: no such table.
        raise StepError(f"{shown}: there is no such file.", permanent=True)
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    with closing(
        sqlite3.connect(address, uri=True, timeout=CONNECT_TIMEOUT_S)
    ) as connection:
        marks = ", ".join("?" * len(OUR_TABLES))
        (found,) = connection.execute(
            f"select count(*) from sqlite_master where name in ({marks})",  # noqa: S608 - question marks
            OUR_TABLES,
        ).fetchone()
        if found == len(OUR_TABLES):
            raise _refuse_ours(shown)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_authorizer(_authorize)
        cursor = connection.execute(query)
        names = tuple(column[0] for column in cursor.description or ())
        if not names:
            raise StepError(f"{shown}: the statement is not a query.", permanent=True)
        yield SqlQuery(names, cursor.fetchmany, connection.interrupt)


def _authorize(
    action: int, _first: str | None, second: str | None, *_where: str | None
) -> int:
    """Allow SQLite only to read: no ATTACH, no PRAGMA, no extension."""
    if action not in _ALLOWED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and second in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _simplify(value: object) -> object:
    """Return JSON as text, because each row may have a different shape."""
    return json.dumps(value, default=str) if isinstance(value, dict) else value


def _refuse_ours(shown: str) -> StepError:
    msg = (
        f"{shown} is Minutehand's own database, which cannot be a source. The "
        "operator must name another one in MINUTEHAND_SQL_CONNECTIONS."
    )
    return StepError(msg, permanent=True)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
