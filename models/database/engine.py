"""
The database as every package sees it: engine, types, and its clock.

PostgreSQL in production, SQLite embedded; the same statements on both. The
database's clock is the only clock: leases and claims are judged by ``db_now()``
inside the statement, never by the host.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import orjson
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSON, JSONB
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from models.database.postgresql_errors import (
    hide_data,
    is_beyond_limits,
    is_refused,
    make_unreachable,
)
from models.database.sqlite_place import StayingFile, prepare_place
from models.errors import UsageError
from models.fields.server_url import hide_sign_in

#: How long connecting may take, and any statement.
DEFAULT_TIMEOUT = timedelta(seconds=10)

#: A host clock that differs from the database's by more is reported: hosts that keep
#: time agree within a fraction of a second.
TOLERATED_SKEW = timedelta(seconds=2)

Clock = Callable[[], datetime]

_Value = TypeVar("_Value")


def read_host_clock() -> datetime:
    """Return the host's time; SQLite has no clock but its host's."""
    return datetime.now(UTC)


class _SqliteUtc(sa.types.TypeDecorator[datetime]):
    """``2026-11-23 06:00:00.000000+00:00``: sorts as text, and people can read it."""

    impl = sa.String(32)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: sa.Dialect) -> Any:
        return None if value is None else format_utc(value)

    def process_result_value(self, value: Any, _dialect: sa.Dialect) -> datetime | None:
        return None if value is None else datetime.fromisoformat(value)


class _SqliteUuid(sa.types.TypeDecorator[UUID]):
    """36 characters, as people copy them from mails and logs."""

    impl = sa.String(36)
    cache_ok = True

    def process_bind_param(self, value: UUID | None, _dialect: sa.Dialect) -> Any:
        return None if value is None else str(value)

    def process_result_value(self, value: Any, _dialect: sa.Dialect) -> UUID | None:
        return None if value is None else UUID(value)


UtcDateTime = sa.TIMESTAMP(timezone=True).with_variant(_SqliteUtc(), "sqlite")
Identifier = sa.Uuid().with_variant(_SqliteUuid(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def format_utc(instant: datetime) -> str:
    """
    Return *instant* as SQLite stores it: fixed width, UTC, microseconds.

    Raises:
        ValueError: If *instant* has no UTC offset.
    """
    if instant.utcoffset() is None:
        raise ValueError(f"a time without UTC offset: {instant!r}")

    return _format_utc(instant.astimezone(UTC))


@lru_cache(maxsize=1024)
def _format_utc(instant: datetime) -> str:
    """Format an instant; cached, since many rows share one."""
    return instant.isoformat(sep=" ", timespec="microseconds")


class SqlWords(FunctionElement[_Value]):
    """
    A SQL expression in the words of each database.

    Subclasses say *postgresql* and *sqlite*, with ``{0}`` for the first argument.
    """

    inherit_cache = True
    postgresql: str
    sqlite: str


@compiles(SqlWords, "postgresql")
@compiles(SqlWords, "sqlite")
def _write_words(element: SqlWords[Any], compiler: Any, **options: Any) -> str:
    words: str = getattr(element, compiler.dialect.name)
    return words.format(*(compiler.process(e, **options) for e in element.clauses))


class db_now(SqlWords[datetime]):  # noqa: N801 - reads as the SQL function it is
    """
    The database's time plus *offset*, inside a statement.

    On PostgreSQL this is the start of the statement: stable, so that an index serves
    ``send_at <= db_now()``, and never later than the row that it is compared with.
    """

    type = UtcDateTime
    inherit_cache = True
    name = "db_now"
    postgresql = "(statement_timestamp() + make_interval(secs => {0}))"
    sqlite = "minutehand_now({0})"

    def __init__(
        self, offset: timedelta | sa.ColumnElement[float] = timedelta(0)
    ) -> None:
        """Take *offset* as seconds; it may be negative."""
        if isinstance(offset, timedelta):
            offset = sa.literal(offset.total_seconds(), sa.Float)
        super().__init__(offset)


def read_clock(connection: sa.Connection) -> datetime:
    """Return the database's time, aware UTC."""
    now: datetime = connection.execute(SELECT_NOW).scalar_one()
    return now.astimezone(UTC)


def compare_clocks(
    connection: sa.Connection, host_clock: Clock = read_host_clock
) -> tuple[datetime, timedelta]:
    """Return the database's time, and how far the host's is ahead of it at least."""
    before = host_clock()
    now = read_clock(connection)
    after = host_clock()
    # The database looked at some time between: however long it took, no clock is wrong
    # that agrees with some time of these.
    return now, max(before - now, min(after - now, timedelta(0)))


#: Asks for the database's time.
SELECT_NOW = sa.select(db_now())


def make_engine(
    url: str,
    *,
    timeout: timedelta = DEFAULT_TIMEOUT,
    lock_timeout: timedelta | None = None,
    clock: Clock = read_host_clock,
    pool_size: int = 5,
) -> sa.Engine:
    """
    Return an engine whose every call has a deadline; connects lazily.

    Args:
        url: ``sqlite:///path`` or ``postgresql://user:password@host:port/name``.
        timeout: Bound for connecting, for a statement, and for idling inside a
            transaction (so that a frozen process frees its locks).
        lock_timeout: Bound for waiting for a lock of PostgreSQL. None: a little less
            than *timeout*, whose error says nothing of a lock.
        clock: The clock of SQLite; PostgreSQL has its own.
        pool_size: Connections kept open.

    Raises:
        UsageError: If *url* is neither, or its file is on a network file system or in
            a place that cannot be written to.
    """
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise UsageError(
            f"{hide_sign_in(url)!r} is not a database URL. "
            "Write sqlite:///path or postgresql://…"
        ) from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        engine = _make_sqlite_engine(parsed, timeout, clock)
    elif backend == "postgresql":
        engine = load_postgresql().make_postgresql_engine(
            parsed,
            timeout=timeout,
            lock_timeout=min(lock_timeout or timeout, timeout * 0.9),
            pool_size=pool_size,
        )
    else:
        msg = f"database {backend!r} is not supported. Write sqlite:///… or postgresql://…"
        raise UsageError(msg)
    sa.event.listen(engine, "handle_error", _hide_data)
    sa.event.listen(engine, "savepoint", _mark)
    sa.event.listen(engine, "release_savepoint", _unmark)
    sa.event.listen(engine, "rollback_savepoint", _take_back)
    return engine


def load_postgresql() -> Any:
    """Import what needs psycopg: it takes longer than most commands on SQLite do."""
    return import_module("models.database.postgresql")


def _hide_data(context: sa.ExceptionContext) -> None:
    # The outer error first: it asks the inner one for its SQLSTATE.
    hide_data(context.sqlalchemy_exception)
    hide_data(context.original_exception)


def _drop_read_only(context: sa.ExceptionContext) -> None:
    """
    Drop the connections of a SQLite file that could not be written to for a while.

    SQLite keeps a file open as it could open it: what was opened for reading alone
    stays so when the file can be written to again.
    """
    if "readonly database" in str(context.original_exception):
        context.is_disconnect = True


def _make_sqlite_engine(url: sa.URL, timeout: timedelta, clock: Clock) -> sa.Engine:
    in_memory = url.database in {None, "", ":memory:"}
    pool: dict[str, Any] = {"pool_timeout": timeout.total_seconds()}
    if in_memory:  # which exists for one connection only
        pool = {"poolclass": sa.StaticPool}
    else:
        assert url.database is not None  # the names above are the only empty ones
        prepare_place(Path(url.database))
    engine = sa.create_engine(
        url,
        connect_args={"timeout": timeout.total_seconds(), "check_same_thread": False},
        hide_parameters=True,
        **pool,
    )

    if not in_memory:
        sa.event.listen(engine, "handle_error", _drop_read_only)
        staying = StayingFile(Path(url.database or ""))
        sa.event.listen(engine, "do_connect", staying.check)
        sa.event.listen(engine, "checkout", staying.check)

    @sa.event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we write BEGIN ourselves, see below
        connection.create_function(
            "minutehand_now", 1, lambda s: format_utc(clock() + timedelta(seconds=s))
        )
        for pragma in ("journal_mode=WAL", "foreign_keys=ON", "synchronous=NORMAL"):
            connection.execute(f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        # A deferred transaction that reads and then writes fails at once if another
        # one wrote in between; IMMEDIATE waits its turn (busy timeout).
        read_only = connection.get_execution_options().get("read_only", False)
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """Give a connection that only reads; on SQLite it does not wait for writers."""
    with translating(), engine.connect() as connection:
        yield connection.execution_options(read_only=True)


@contextmanager
def reading_once(engine: sa.Engine) -> Iterator[sa.Connection]:
    """
    Give a connection for one query, or for some between which much time may pass.

    There is no transaction around them, whose beginning and end would be two more round
    trips to PostgreSQL, and which it would end if it had to wait (behind a pooler there
    is one). Nothing may be written: it could not be taken back.
    """
    with translating(), engine.connect() as connection:
        yield connection.execution_options(read_only=True, isolation_level="AUTOCOMMIT")


def is_pooled(connection: sa.Connection) -> bool:
    """
    Tell whether a pooler stands between *connection* and PostgreSQL.

    Whatever is left in the session (a statement that was prepared, a setting, a lock, a
    cursor) may not be there in the next transaction.
    """
    return getattr(connection.connection.driver_connection, "begin", None) is not None


@dataclass(frozen=True, slots=True)
class Author:
    """
    Who makes the changes of a transaction, for the record of changes.

    Args:
        name: Such as ``root@host``, or the name of an API key.
        key_id: The API key. None: it was not done over HTTP.
        request_id: The HTTP request. None: it was not done over HTTP.
    """

    name: str
    key_id: str | None = None
    request_id: str | None = None


@contextmanager
def writing(
    engine: sa.Engine, *, author: Author | None = None
) -> Iterator[sa.Connection]:
    """Give a connection in one transaction, committed at the end or rolled back."""
    last_acts = _LastActs()
    with translating(), engine.begin() as connection:
        connection.execution_options(author=author, last_acts=last_acts)
        yield connection
        for act, noted in last_acts.noted.items():
            if noted:
                act(connection, noted)


_LastAct = Callable[[sa.Connection, list[Any]], None]


@dataclass(frozen=True, slots=True)
class _LastActs:
    """
    What is done right before a commit.

    Args:
        noted: For what, by act.
        marks: How much was noted when each open savepoint was made, the innermost last.
    """

    noted: dict[_LastAct, list[Any]] = field(default_factory=dict)
    marks: list[dict[_LastAct, int]] = field(default_factory=list)


def _mark(connection: sa.Connection, _name: str | None) -> None:
    for acts in _get_last_acts(connection):
        acts.marks.append({act: len(noted) for act, noted in acts.noted.items()})


def _unmark(connection: sa.Connection, _name: str, _context: object) -> None:
    for acts in _get_last_acts(connection):
        acts.marks.pop()


def _take_back(connection: sa.Connection, _name: str, _context: object) -> None:
    """Forget what was noted in a savepoint that is rolled back."""
    for acts in _get_last_acts(connection):
        mark = acts.marks.pop()
        for act, noted in acts.noted.items():
            del noted[mark.get(act, 0) :]


def _get_last_acts(connection: sa.Connection) -> tuple[_LastActs, ...]:
    """Return those of ``writing``; a transaction that others began has none."""
    acts: _LastActs | None = connection.get_execution_options().get("last_acts")
    return () if acts is None else (acts,)


def get_author(connection: sa.Connection) -> Author | None:
    """Return who makes the changes of this transaction, if ``writing`` was told."""
    author: Author | None = connection.get_execution_options().get("author")
    return author


def before_commit(connection: sa.Connection, act: _LastAct) -> list[Any]:
    """
    Return a list with which *act* is called right before the commit of ``writing``.

    A savepoint that is rolled back takes what was added since from the list.

    Raises:
        KeyError: *connection* is not in a transaction of ``writing``.
    """
    acts: _LastActs = connection.get_execution_options()["last_acts"]
    return acts.noted.setdefault(act, [])


def execute_at_once(
    engine: sa.Engine, statement: sa.ClauseElement, values: Mapping[str, object]
) -> Any:
    """Execute *statement* on PostgreSQL: see ``postgresql.execute_at_once``."""
    return load_postgresql().execute_at_once(engine, statement, values)


def stream_kept(
    engine: sa.Engine, statement: sa.ClauseElement, values: Mapping[str, object]
) -> Generator[Any]:
    """Yield rows that PostgreSQL keeps for us: see ``postgresql.stream_kept``."""
    rows: Generator[Any] = load_postgresql().stream_kept(engine, statement, values)
    return rows


@contextmanager
def translating() -> Iterator[None]:
    """Turn the errors of a database that cannot serve now into UnreachableError."""
    try:
        yield
    except (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError) as e:
        if is_beyond_limits(getattr(e, "orig", None)):
            raise
        raise make_unreachable(e) from e
    except sa.exc.DBAPIError as e:
        if is_refused(e.orig):
            raise make_unreachable(e) from e
        if str(e.orig) == "file is not a database":
            raise UsageError(
                f"this {e.orig}. Set MINUTEHAND_HOME to another folder, or"
                " MINUTEHAND_DATABASE_URL to another file."
            ) from e
        if str(e.orig) == "database disk image is malformed":
            raise UsageError(
                f"the {e.orig}: its file is damaged. Put a copy of it in its place, or"
                " what `sqlite3 FILE .recover` can still read."
            ) from e
        if not e.connection_invalidated:
            raise
        raise make_unreachable(e) from e


@lru_cache(maxsize=1024)
def _as_json(value: object) -> object:
    """Return the JSON form of *value*; cached, since many rows share an instant."""
    if isinstance(value, datetime):
        return format_utc(value)
    if isinstance(value, date):
        return str(value)
    raise TypeError(f"{value!r} has no JSON form")


def make_rows_json(rows: Sequence[Mapping[str, object]]) -> str:
    """Return *rows* as the one parameter that ``json_rows`` unpacks."""
    return orjson.dumps(rows, default=_as_json, option=_JSON_OPTIONS).decode()


#: Instants have a form of ours; and SQLAlchemy's names of columns are no mere ``str``.
_JSON_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_NON_STR_KEYS


def json_rows(
    dialect: str,
    columns: Mapping[str, sa.types.TypeEngine[Any]],
    name: str = "rows",
    *,
    given: Sequence[Mapping[str, object]] | None = None,
) -> sa.FromClause:
    """
    Return a table made from the bind parameter *name*, a JSON array of objects.

    There is one parameter for any number of rows: the database unpacks it in C, while
    binding a thousand rows one by one would cost more than everything else.

    Args:
        dialect: ``connection.dialect.name``.
        columns: Name and type of each key.
        name: Name of the bind parameter, and of the table in the statement.
        given: The rows, for a statement that is executed once. None: whoever executes
            it binds what ``make_rows_json`` returns.
    """
    parameter = sa.bindparam(name, type_=sa.Text)
    if given is not None:
        parameter = sa.bindparam(name, make_rows_json(given), sa.Text, unique=True)
    if dialect == "postgresql":
        return (
            sa.func.json_to_recordset(sa.cast(parameter, JSON))
            .table_valued(*(sa.column(key, type_) for key, type_ in columns.items()))
            .render_derived(name=name, with_types=True)
        )
    each = sa.func.json_each(parameter).table_valued("value", name=f"{name}_each")
    return sa.select(
        *(
            sa.type_coerce(sa.func.json_extract(each.c.value, f"$.{key}"), type_).label(
                key
            )
            for key, type_ in columns.items()
        )
    ).subquery(name)
