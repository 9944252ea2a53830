"""
The rows of a tenant's query, read in batches and in a session that only reads.

Used in the process that reads one source (ingest.py), which has a memory limit and can
be ended while the database works.
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

#: Of connecting, and of waiting for a lock of SQLite.
CONNECT_TIMEOUT_S = 10

#: How many bytes of rows are asked for at once, and how many rows at first.
_BATCH_BYTES = 16 << 20
_FIRST_BATCH = 500
_MOST_ROWS = 50_000

#: Of one text or blob of SQLite, in bytes.
_LONGEST_VALUE = 256 << 20

#: What libpq and psycopg say if a row does not fit into memory: the second is how the
#: error arrives when a part of the answer was there already.
_NO_ROOM = ("out of memory", "received 2 results")

#: Tables of ours that stand together in no other database.
OUR_TABLES = (
    "scheduled_action_revisions",
    "operation_steps",
    "domain_versions",
    "leases",
)

#: What a query that only reads does.
_ALLOWED = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)
#: Functions of SQLite that reach beyond the database.
_FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer"})

Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class Query:
    """
    A query that runs.

    Args:
        names: Of its columns.

        fetch: Returns at most so many of the next rows.

        cancel: Ends it; may be called from any thread.
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
    """Return about how many bytes *row* takes."""
    return sum(
        len(value) if isinstance(value, str | bytes) else 16 for value in row
    ) + 16 * len(row)


@contextmanager
def open_query(url: str, query: str, *, seconds: int, shown: str) -> Iterator[Query]:
    """
    Run *query* in the database *url*, which can change nothing.

    Args:
        url: ``postgresql://`` or ``sqlite:///``, of an operator.

        query: One statement, as the tenant wrote it.

        seconds: After which the database itself gives up.

        shown: What messages call the database; they never hold *url*.

    Raises:
        StepError: Permanent: the query is wrong, or the database is one of
            Minutehand. Temporary: it is away, locked, or too slow.
    """
    opening = _open_sqlite if url.startswith("sqlite") else _open_postgresql
    try:
        with opening(url, query, seconds, shown) as opened:
            yield opened
    except psycopg.Error as error:
        if any(words in str(error) for words in _NO_ROOM) and error.sqlstate is None:
            raise MemoryError from error
        # None: what libpq says of a URL it cannot read has all of it.
        raise _explain_postgresql(error, url, seconds, shown) from None
    except sqlite3.OperationalError as error:
        msg = f"{shown}: {_first_line(error)}"
        # SQLite calls a missing table operational; a lock may pass.
        raise StepError(msg, permanent="locked" not in str(error)) from error
    except (sqlite3.Error, sqlite3.Warning) as error:
        msg = f"{shown}: {_first_line(error)}"
        raise StepError(msg, permanent=True) from error


def _explain_postgresql(
    error: psycopg.Error, url: str, seconds: int, shown: str
) -> StepError:
    if isinstance(error, psycopg.errors.QueryCanceled):
        msg = f"{shown}: longer than {seconds} s (MINUTEHAND_SOURCE_TIMEOUT)."
        return StepError(msg, permanent=False)
    # A database that is away may come back; a wrong query stays wrong.
    passing = isinstance(error, psycopg.OperationalError)
    reason = _first_line(error).replace(url, "***")
    password = urlsplit(url).password
    for secret in filter(None, (password, unquote(password or ""))):
        reason = reason.replace(secret, "***")
    return StepError(f"{shown}: {reason}", permanent=not passing)


@contextmanager
def _open_postgresql(url: str, query: str, seconds: int, shown: str) -> Iterator[Query]:
    with psycopg.connect(
        url,
        connect_timeout=CONNECT_TIMEOUT_S,
        application_name="minutehand source",
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
        if connection.info.server_version >= 140000:
            # The query ends soon after we do, however we end.
            connection.execute("set local client_connection_check_interval = '2s'")
        # SET takes no parameters. Local: a pooler hands the session to others.
        connection.execute(f"set local statement_timeout = '{seconds:d}s'".encode())
        # A named cursor: the rows stay in the database until they are asked for, and
        # nothing but a query can be declared.
        with connection.cursor(name="minutehand") as cursor:
            cursor.execute(query.encode())
            names = tuple(column.name for column in cursor.description or ())

            def fetch(count: int) -> list[Row]:
                return [
                    [_simplify(value) for value in row]
                    for row in cursor.fetchmany(count)
                ]

            yield Query(names, fetch, connection.cancel)


@contextmanager
def _open_sqlite(url: str, query: str, seconds: int, shown: str) -> Iterator[Query]:
    del seconds  # SQLite lives in our process, which ends in time
    path = Path(url.partition(":///")[2].partition("?")[0])
    if not path.is_file():
        # SQLite would make an empty database, and say later: no such table.
        msg = f"{shown}: there is no such file."
        raise StepError(msg, permanent=True)
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
            msg = f"{shown}: the statement is no query."
            raise StepError(msg, permanent=True)
        yield Query(names, cursor.fetchmany, connection.interrupt)


def _authorize(
    action: int, _first: str | None, second: str | None, *_where: str | None
) -> int:
    """Let SQLite read, and nothing else: no ATTACH, no PRAGMA, no extension."""
    if action not in _ALLOWED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and second in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _simplify(value: object) -> object:
    """Return JSON as its text: each row may have a shape of its own."""
    return json.dumps(value, default=str) if isinstance(value, dict) else value


def _refuse_ours(shown: str) -> StepError:
    msg = (
        f"{shown} is a database of Minutehand itself, which is nobody's source. The "
        "operator must name another in MINUTEHAND_SQL_CONNECTIONS."
    )
    return StepError(msg, permanent=True)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
