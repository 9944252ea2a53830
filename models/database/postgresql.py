"""
What only PostgreSQL has: connections that keep deadlines, and its driver, psycopg.

What both databases can do is in engine.py; look there first.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row

from models.errors import RefusedError, UnreachableError

#: How long to ask a server to cancel a statement.
CANCEL_WITHIN_S = 2.0


class InterruptibleConnection(psycopg.Connection[Any]):
    """
    A connection that cancels its running query if anything interrupts it.

    psycopg does so only for Ctrl+C. After any other exception, such as that of a time
    limit, the server would go on with a query whose result nobody waits for.
    """

    def wait(
        self,
        gen: Generator[Any, Any, Any],
        interval: float = 0.1,
        timeout: float | None = None,
    ) -> Any:
        """Consume *gen* as psycopg does; cancel the query if that is interrupted."""
        try:
            return super().wait(gen, interval, timeout)
        except psycopg.Error:
            raise
        except BaseException:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                with suppress(psycopg.Error):
                    self.cancel_safe(timeout=CANCEL_WITHIN_S)
                # An unread answer may still arrive, so the session cannot be reused.
                self.pgconn.finish()
            raise


class _DeadlineConnection(InterruptibleConnection):
    """
    A connection on which no call waits longer than ``deadline_s``.

    ``statement_timeout`` is the server's promise, which a stopped server or a network
    that swallows packets does not keep. libpq has no read timeout.
    """

    deadline_s: float

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


def make_postgresql_engine(
    url: sa.URL, *, timeout: timedelta, pool_size: int
) -> sa.Engine:
    """Return an engine for ``models.database.engine.make_engine``; see there."""
    milliseconds = int(timeout.total_seconds() * 1000)
    limits = " ".join(
        f"-c {name}={milliseconds}"
        for name in (
            "statement_timeout",
            "lock_timeout",
            "idle_in_transaction_session_timeout",
        )
    )

    class Connection(_DeadlineConnection):
        # a little later than the server's timeout, whose message says more
        deadline_s = timeout.total_seconds() + 2

    dsn = url.set(drivername="postgresql").render_as_string(hide_password=False)

    def connect() -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] = Connection.connect(
            dsn,
            connect_timeout=max(2, int(timeout.total_seconds() / 2)),
            options=f"-c timezone=UTC {limits}",
            application_name="minutehand",
            tcp_user_timeout=milliseconds,
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
        )
        return connection

    engine = sa.create_engine(
        url.set(drivername="postgresql+psycopg"),
        creator=connect,
        pool_size=pool_size,
        max_overflow=10,
        pool_timeout=timeout.total_seconds(),
        pool_pre_ping=False,
        pool_use_lifo=True,
        hide_parameters=True,
    )
    sa.event.listen(engine, "handle_error", _leave_ailing_server)
    return engine


def set_deadline(connection: sa.Connection, deadline: timedelta) -> None:
    """
    Let each statement of *connection* take up to *deadline*, from now on.

    For what an operator waits for, such as an index. It also waits that long for locks,
    so it must not hold any that others need.
    """
    milliseconds = int(deadline.total_seconds() * 1000)
    for name in ("statement_timeout", "lock_timeout"):
        connection.execute(sa.text(f"set {name} = {milliseconds}"))
    driver = connection.connection.dbapi_connection
    assert isinstance(driver, _DeadlineConnection)  # as all our engines make them
    driver.deadline_s = deadline.total_seconds() + 2


#: Beginnings of the SQLSTATEs of a server that cannot serve now but whose errors the
#: driver does not class as operational: read-only (a failover), a transaction that took
#: too long, a snapshot that is too old, an internal error.
_AILING = ("25006", "25P03", "25P04", "72", "XX")

#: Beginning of the SQLSTATEs of a statement that exceeds the limits of PostgreSQL, such
#: as too many columns, or a text too long for an index. The driver classes them as
#: operational, but the statement would fail again on any server.
_BEYOND_LIMITS = "54"


def _leave_ailing_server(context: sa.ExceptionContext) -> None:
    """Drop all connections to a demoted or failing server: another one may serve."""
    if _is_ailing(context.original_exception):
        context.is_disconnect = True


def _is_ailing(error: BaseException | None) -> bool:
    return _get_state(error).startswith(_AILING)


#: SQLSTATE of a right that the role lacks. The driver classes it as a mistake in the
#: statement, but the statement is ours, and a GRANT puts it right.
_REFUSED = "42501"


def is_refused(error: BaseException | None) -> bool:
    """Tell whether *error* says that the role lacks a right."""
    return _get_state(error) == _REFUSED


#: Beginning of the SQLSTATEs of values that do not fit; their messages quote the value.
_BAD_VALUE = "22"


def hide_data(error: BaseException | None) -> None:
    """
    Remove the statement and its values from *error*.

    They are tenants' data, which belong neither in logs nor in the row of an operation.
    What remains says what went wrong; the traceback says where.
    """
    if not isinstance(error, psycopg.Error | sa.exc.StatementError):
        return
    # Further lines are such as "DETAIL: Failing row contains (...)".
    said = str(error.args[0] if error.args else "").strip().partition("\n")[0]
    cause: BaseException = error
    if isinstance(error, sa.exc.StatementError):
        cause = error.orig or error
        error.statement = error.params = None
    if _get_state(cause).startswith(_BAD_VALUE):
        said = re.sub('".*"', '"..."', said)
    error.args = (said,)


def is_beyond_limits(error: BaseException | None) -> bool:
    """Tell whether the statement, and not the server, is to blame for *error*."""
    return _get_state(error).startswith(_BEYOND_LIMITS)


def _get_state(error: BaseException | None) -> str:
    return getattr(error, "sqlstate", None) or ""


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
    try:
        pooled = engine.raw_connection()
    except (psycopg.Error, sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
        raise make_unreachable(error) from error
    try:
        driver: Any = pooled.driver_connection
        driver.autocommit = True
        cursor = driver.cursor(row_factory=namedtuple_row)
        row = cursor.execute(query, values).fetchone()
        driver.autocommit = False
    except BaseException as error:
        # Its state is unknown, so nobody else may get this connection.
        pooled.invalidate(error)
        hide_data(error)
        if isinstance(error, psycopg.IntegrityError):
            raise sa.exc.IntegrityError(None, None, error) from error
        is_mistake = is_beyond_limits(error) or not isinstance(
            error, (*_OPERATIONAL, psycopg.errors.InsufficientPrivilege)
        )
        if is_mistake and not _is_ailing(error):
            raise
        raise make_unreachable(error) from error
    pooled.close()
    return row


_OPERATIONAL = (psycopg.OperationalError, psycopg.InterfaceError)


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


def make_unreachable(error: BaseException) -> UnreachableError:
    """Return the error to raise for a database that cannot serve now."""
    cause = getattr(error, "orig", None) or error
    said = str(cause).strip() or type(cause).__name__
    if is_refused(cause):
        return RefusedError(said)
    return UnreachableError(f"the database did not answer: {said}")
