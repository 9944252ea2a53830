"""
What only PostgreSQL has: connections that keep deadlines, and its driver, psycopg.

What both databases can do is in engine.py; look there first. Only what needs the driver
imports this module: loading psycopg takes longer than most commands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from typing import Any
from uuid import uuid4

import psycopg
import sqlalchemy as sa
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.generators import send
from psycopg.pq import PGconn, TransactionStatus
from psycopg.rows import namedtuple_row

from models.database.postgresql_errors import (
    hide_data,
    is_ailing,
    is_beyond_limits,
    make_unreachable,
)
from models.database.transaction import Answer
from models.errors import UsageError

#: How long to ask a server to cancel a statement.
CANCEL_WITHIN_S = 2.0

#: In the error of a pooler that cannot hand on the settings of a session.
_REFUSED_BY_POOLERS = "startup parameter"

#: The first version that ends sessions which do nothing, if it is set so. Of ours, one
#: would find out with its next statement, and do that again.
_ENDS_IDLE_SESSIONS = 14_00_00

#: Rows that are fetched in one go of those that the server keeps.
FETCHED_AT_ONCE = 1000


class _DeadlineConnection(psycopg.Connection[Any]):
    """
    A connection on which no call waits longer than ``deadline_s``.

    ``statement_timeout`` is the server's promise, which a stopped server or a network
    that swallows packets does not keep. libpq has no read timeout.

    A call that anything interrupts cancels its query. psycopg does so only for Ctrl+C;
    after any other exception, such as that of a time limit, the server would go on with
    a query whose result nobody waits for.
    """

    deadline_s: float

    #: Begins a transaction, and says what holds in it; None: the session knows it.
    begin: str | None = None

    def wait(
        self,
        gen: Generator[Any, Any, Any],
        interval: float = 0.1,
        timeout: float | None = None,
    ) -> Any:
        """Consume *gen* as psycopg does, but give up after ``deadline_s``."""
        limit_s = self.deadline_s if timeout is None else timeout
        give_up_at = time.monotonic() + limit_s
        try:
            return super().wait(gen, interval, limit_s)
        except psycopg.Error as error:
            if time.monotonic() < give_up_at or timeout is not None:
                raise
            # The answer may still arrive, so the session cannot be reused.
            self.pgconn.finish()
            msg = f"no answer from the database within {limit_s:g} s"
            raise psycopg.OperationalError(msg) from error
        except BaseException:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                with suppress(psycopg.Error):
                    self.cancel_safe(timeout=CANCEL_WITHIN_S)
                self.pgconn.finish()  # for the same reason
            raise


def make_postgresql_engine(
    url: sa.URL, *, timeout: timedelta, lock_timeout: timedelta, pool_size: int
) -> sa.Engine:
    """Return an engine for ``models.database.engine.make_engine``; see there."""
    if (mistake := _find_mistake(url)) is not None:
        raise UsageError(
            f"the database URL is not one of PostgreSQL's own: {mistake}."
            " Correct that, or take it out"
        )
    engine = sa.create_engine(
        url.set(drivername="postgresql+psycopg"),
        creator=_make_connect(url, timeout, lock_timeout),
        pool_size=pool_size,
        max_overflow=10,
        pool_timeout=timeout.total_seconds(),
        pool_pre_ping=False,
        pool_use_lifo=True,
        hide_parameters=True,
    )
    sa.event.listen(engine, "handle_error", _leave_ailing_server)
    sa.event.listen(engine, "begin", _begin)
    return engine


def _find_mistake(url: sa.URL) -> str | None:
    """Return what the driver does not take of *url*; nobody is asked."""
    try:
        nowhere = make_conninfo(_show(url), host="/", hostaddr="", port="")
    except psycopg.ProgrammingError as error:  # a parameter of another driver's
        return str(error).strip()
    # libpq checks values as it begins to connect, here to a socket that never is.
    said = PGconn.connect_start(nowhere.encode()).get_error_message()
    return said if said.startswith(("invalid ", "weak ")) else None


def _show(url: sa.URL) -> str:
    """Return *url* as the driver takes it, to whom a plus is no space."""
    shown = url.set(drivername="postgresql").render_as_string(hide_password=False)
    place, mark, parameters = shown.partition("?")
    return f"{place}{mark}{parameters.replace('+', '%20')}"


def _make_connect(
    url: sa.URL, timeout: timedelta, lock_timeout: timedelta
) -> Callable[[], _DeadlineConnection]:
    """Return what connects to *url*, and says what holds in our transactions."""
    milliseconds = int(timeout.total_seconds() * 1000)
    settings = {
        "timezone": "UTC",
        "datestyle": "ISO",  # the driver reads no other
        # the conditions of our statements are made for it, and a stricter one fails
        "default_transaction_isolation": "read committed",
        # compiling the statement that looks for what waits takes seconds as soon as
        # much does, and executing it milliseconds
        "jit": "off",
        "statement_timeout": milliseconds,
        "lock_timeout": int(lock_timeout.total_seconds() * 1000),
        "idle_in_transaction_session_timeout": milliseconds,
    }
    given = ((name, f"{value}".replace(" ", r"\ ")) for name, value in settings.items())
    ours = " ".join(f"-c {name}={value}" for name, value in given)
    dsn = _show(url)
    # of two that name one thing, the last holds
    options = f"{conninfo_to_dict(dsn).get('options', '')} {ours}"
    local = (f"SET LOCAL {name} = '{value}'" for name, value in settings.items())
    begin = "; ".join(("BEGIN ISOLATION LEVEL READ COMMITTED", *local))

    class Connection(_DeadlineConnection):
        # a little later than the server's timeout, whose message says more
        deadline_s = timeout.total_seconds() + 2

    def connect(options: str | None) -> Connection:
        return Connection.connect(
            dsn,
            options=options,
            autocommit=True,
            client_encoding="UTF8",
            connect_timeout=max(2, int(timeout.total_seconds() / 2)),
            application_name="minutehand",
            tcp_user_timeout=milliseconds,
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
        )

    def connect_and_look() -> Connection:
        try:
            connection = connect(options)
        except psycopg.OperationalError as error:
            if _REFUSED_BY_POOLERS not in str(error):
                raise
            connection = connect(None)
        if _has_pooler(connection):
            # What is prepared would be in whichever session had that transaction.
            connection.prepare_threshold = None
            connection.begin = begin
        else:
            if connection.info.server_version >= _ENDS_IDLE_SESSIONS:
                connection.execute("set idle_session_timeout = 0")
            connection.autocommit = False
        return connection

    return connect_and_look


def _has_pooler(connection: psycopg.Connection[Any]) -> bool:
    """
    Tell whether a pooler stands between, whatever it pools.

    It tells its clients another process id, so that it gets their cancel requests.
    """
    row = connection.execute("select pg_backend_pid()").fetchone()
    return row != (connection.info.backend_pid,)


def _begin(connection: sa.Connection) -> None:
    """Say all at the beginning of a transaction, if the session may be another's."""
    driver: Any = connection.connection.driver_connection
    if driver.begin is not None:
        driver.autocommit = True  # or the driver would begin as well
        connection.exec_driver_sql(driver.begin)


def set_deadline(connection: sa.Connection, deadline: timedelta) -> None:
    """
    Let each statement of *connection* take up to *deadline*, from now on.

    For what an operator waits for, such as an index. It also waits that long for locks,
    so it must not hold any that others need.

    Raises:
        UsageError: A pooler stands between: the next transactions are in any session.
    """
    driver = connection.connection.dbapi_connection
    assert isinstance(driver, _DeadlineConnection)  # as all our engines make them
    if driver.begin is not None:
        raise UsageError(
            "this needs a session of its own, and a pooler stands between. Name the"
            " database's own address for this command: MINUTEHAND_DATABASE_URL=…"
        )
    milliseconds = int(deadline.total_seconds() * 1000)
    for name in ("statement_timeout", "lock_timeout"):
        connection.execute(sa.text(f"set {name} = {milliseconds}"))
    driver.deadline_s = deadline.total_seconds() + 2


def _leave_ailing_server(context: sa.ExceptionContext) -> None:
    """Drop all connections to a demoted or failing server: another one may serve."""
    if is_ailing(context.original_exception):
        context.is_disconnect = True


def execute_at_once(
    engine: sa.Engine, statement: sa.ClauseElement, values: Mapping[str, object]
) -> Any:
    """
    Execute *statement* as a transaction of its own, straight on the driver.

    For the few statements that a worker needs for every operation: for each of them,
    SQLAlchemy would take as much CPU as the whole rest of a short operation.

    Args:
        engine: Of ``make_postgresql_engine``.
        statement: Rendered once, so pass the same object each time. It must have no
            lists for IN, and no constants that psycopg cannot write: nothing expands
            or converts them.
        values: For the bind parameters without a value, of types that psycopg takes.

    Returns:
        Its first row, a named tuple; None if there is none.

    Raises:
        UnreachableError: As ``models.database.engine.translating``.
        sqlalchemy.exc.IntegrityError: A constraint was violated; nothing changed.
        psycopg.Error: The statement is wrong.
    """
    query = _render(statement, engine.dialect)
    with _straight(engine) as driver:
        cursor = driver.cursor(row_factory=namedtuple_row)
        return cursor.execute(query, values).fetchone()


@contextmanager
def _straight(engine: sa.Engine) -> Iterator[_DeadlineConnection]:
    """
    Give the driver's own connection, in autocommit; see ``execute_at_once``.

    Behind a pooler it is in a transaction, which says the deadlines.
    """
    try:
        pooled = engine.raw_connection()
    except (psycopg.Error, sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
        raise make_unreachable(error) from error
    with _dropping(pooled.invalidate):
        driver: Any = pooled.driver_connection
        driver.autocommit = True
        if driver.begin is not None:
            driver.execute(driver.begin)
        yield driver
        if driver.begin is not None:
            driver.commit()
        driver.autocommit = False
    pooled.close()


@contextmanager
def _dropping(drop: Callable[[], object]) -> Iterator[None]:
    """Drop a connection after an error, and say what one of the driver means."""
    try:
        yield
    except BaseException as error:
        # Its state is unknown, so nobody else may get this connection.
        drop()
        hide_data(error)
        if isinstance(error, psycopg.IntegrityError):
            raise sa.exc.IntegrityError(None, None, error) from error
        is_mistake = is_beyond_limits(error) or not isinstance(
            error, (*_OPERATIONAL, psycopg.errors.InsufficientPrivilege)
        )
        if is_mistake and not is_ailing(error):
            raise
        raise make_unreachable(error) from error


_OPERATIONAL = (psycopg.OperationalError, psycopg.InterfaceError)


def stream_kept(
    engine: sa.Engine, statement: sa.ClauseElement, values: Mapping[str, object]
) -> Generator[Any]:
    """
    Yield the rows of *statement*, which the server keeps until they are fetched.

    Behind a pooler nothing can be kept there: they are all fetched at once.

    No transaction is open meanwhile: the rows are as they were at first, and hold up
    no vacuum. Close it if it is not driven to its end: it holds a connection.

    Args:
        engine: Of ``make_postgresql_engine``.
        statement: As for ``execute_at_once``.
        values: As for ``execute_at_once``.

    Raises:
        UnreachableError: As ``models.database.engine.translating``.
        psycopg.Error: The statement is wrong.
    """
    query = _render(statement, engine.dialect)
    with _straight(engine) as driver:
        if driver.begin is None:
            name = f"kept_{uuid4().hex}"
            with driver.cursor(name, withhold=True) as cursor:
                cursor.itersize = FETCHED_AT_ONCE
                cursor.execute(query, values)
                yield from cursor
            return
        rows = driver.execute(query, values).fetchall()
    yield from rows


class PipelinedFlight:
    """
    A transaction that ends in psycopg's pipeline; see ``models.database.transaction``.

    Args:
        engine: Of ``make_postgresql_engine``.
    """

    def __init__(self, engine: sa.Engine) -> None:
        """Connect; the first statement begins the transaction."""
        self.connection = engine.connect()
        self._asked: list[tuple[psycopg.Cursor[Any], Answer]] = []
        self._after: list[tuple[str, Mapping[str, object] | None, Answer]] = []
        self._pipeline = ExitStack()

    def ask(self, statement: sa.Executable, values: Mapping[str, object]) -> Answer:
        """Send *statement*."""
        answer = Answer()
        self._send(_render(statement, self.connection.dialect), values, answer)
        return answer

    def ask_after(
        self, statement: sa.Executable, values: Mapping[str, object]
    ) -> Answer:
        """Send *statement* behind the commit."""
        answer = Answer()
        query = _render(statement, self.connection.dialect)
        self._after.append((query, values, answer))
        return answer

    def depart(self) -> None:
        """Send the commit, and what is to be read after it."""
        self._send("COMMIT", None, Answer())
        if self._after:
            # A transaction of its own, and its end: the driver might begin one.
            self._send("BEGIN READ ONLY", None, Answer())
            for query, values, answer in self._after:
                self._send(query, values, answer)
            self._send("COMMIT", None, Answer())

    def wait(self, meanwhile: Callable[[], object]) -> None:
        """Call *meanwhile*, then wait for all answers."""
        meanwhile()
        self._wait()

    def _wait(self) -> None:
        asked, self._asked = self._asked, []
        try:
            self._pipeline.close()
        except psycopg.errors.InFailedSqlTransaction as error:
            # The driver raises the last error, and the first says what failed.
            raise error.__context__ or error from None
        for cursor, answer in asked:
            answer.count = cursor.rowcount
            if cursor.description is not None:
                answer.rows = cursor.fetchall()

    def land(self) -> None:
        """Wait for all answers, that of the commit being the last."""
        with _dropping(self.abandon):
            self._wait()
        self.connection.close()

    def abandon(self) -> None:
        """Drop the connection: whatever it still answers is nobody's."""
        if self.connection.closed:
            return
        self.connection.invalidate()
        with suppress(psycopg.Error):
            self._pipeline.close()
        self.connection.close()

    def _send(
        self, query: str, values: Mapping[str, object] | None, answer: Answer
    ) -> None:
        """
        Send all of *query*, and that it is all.

        A server that waits for the rest of something has no timeout: a process that
        froze meanwhile would keep its locks for ever. Between two queries it is idle in
        a transaction, which has one.
        """
        driver: Any = self.connection.connection.driver_connection
        if not self._asked:
            self._pipeline.enter_context(driver.pipeline())
        cursor = driver.cursor()
        cursor.execute(query, values, prepare=True)
        # as Pipeline.sync, which would wait for the answer
        driver.pgconn.pipeline_sync()
        driver._pipeline.result_queue.append(None)  # noqa: SLF001 - see above
        driver.wait(send(driver.pgconn))
        self._asked.append((cursor, answer))


@contextmanager
def departing(engine: sa.Engine) -> Iterator[PipelinedFlight]:
    """Give a flight that departs at the end of the block; see transaction.py."""
    flight = PipelinedFlight(engine)
    with _dropping(flight.abandon):
        yield flight
        flight.depart()


@lru_cache(maxsize=64)
def _render(statement: sa.ClauseElement, dialect: sa.Dialect) -> str:
    """Return *statement* for psycopg: constants written out, parameters by name."""
    compiled: Any = statement.compile(dialect=dialect)
    assert not compiled.post_compile_params, "a list for IN would have to be expanded"
    # A "%" outside of parameters is doubled twice: for the "%" below and for psycopg.
    return str(compiled).replace("%%", "%%%%") % {
        name: f"%({name})s" if bind.required else _quote(bind.value)
        for name, bind in compiled.binds.items()
    }


def _quote(value: object) -> str:
    return sql.quote(value).replace("%", "%%")
