"""
PostgreSQL as no other database is: connections that keep deadlines, and the driver.

What both databases can do is in engine.py; ask there first.
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

#: Bound of asking a server to stop what it does.
CANCEL_WITHIN_S = 2.0


class InterruptibleConnection(psycopg.Connection[Any]):
    """
    A connection that cancels what it waits for if something else interrupts it.

    psycopg does so for Ctrl+C alone. After any other exception, such as that of a
    time limit, the server would go on with a query that nobody waits for.
    """

    def wait(
        self,
        gen: Generator[Any, Any, Any],
        interval: float = 0.1,
        timeout: float | None = None,
    ) -> Any:
        """Consume *gen* as psycopg does; cancel it if that was interrupted."""
        try:
            return super().wait(gen, interval, timeout)
        except psycopg.Error:
            raise
        except BaseException:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                with suppress(psycopg.Error):
                    self.cancel_safe(timeout=CANCEL_WITHIN_S)
                # What it answers, nobody reads: the session is of no more use.
                self.pgconn.finish()
            raise


class _DeadlineConnection(InterruptibleConnection):
    """
    A connection on which no call waits longer than ``deadline_s``.

    ``statement_timeout`` is the server's promise; a server that is stopped, or
    a network that swallows packets, keeps none. libpq has no read timeout.
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
            # What was asked may still be answered: the session is of no more use.
            self.pgconn.finish()
            msg = f"no answer from the database within {limit_s:g} s"
            raise psycopg.OperationalError(msg) from error


def make_postgresql_engine(
    url: sa.URL, *, timeout: timedelta, pool_size: int
) -> sa.Engine:
    """Return an engine for ``models.database.engine.make_engine``, which says more."""
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
        # a little later than the server's own timeout, whose message says more
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
    Let each statement of *connection* take as long as *deadline*, for all its life.

    For what an operator waits for, such as an index. Locks are waited for as long, so
    it must hold none that others need.
    """
    milliseconds = int(deadline.total_seconds() * 1000)
    for name in ("statement_timeout", "lock_timeout"):
        connection.execute(sa.text(f"set {name} = {milliseconds}"))
    driver = connection.connection.dbapi_connection
    assert isinstance(driver, _DeadlineConnection)  # every engine of ours makes them
    driver.deadline_s = deadline.total_seconds() + 2


#: First characters of SQLSTATEs of a server that cannot serve now, which the driver
#: does not call operational: read-only (a failover), a transaction that took too
#: long, a snapshot too old, an internal error.
_AILING = ("25006", "25P03", "25P04", "72", "XX")

#: First characters of SQLSTATEs of a statement that goes beyond what PostgreSQL can
#: do, such as too many columns, or a text that no index takes. The driver calls it
#: operational; but it would fail again, on any server.
_BEYOND_LIMITS = "54"


def _leave_ailing_server(context: sa.ExceptionContext) -> None:
    """Drop all connections to a server that was demoted or is ill: others may serve."""
    if _is_ailing(context.original_exception):
        context.is_disconnect = True


def _is_ailing(error: BaseException | None) -> bool:
    return _get_state(error).startswith(_AILING)


#: SQLSTATE of a right that the role lacks. The driver calls it a mistake in the
#: statement; but the statement is ours, and the next GRANT mends it.
_REFUSED = "42501"


def is_refused(error: BaseException | None) -> bool:
    """Tell whether the role lacks a right for what was asked."""
    return _get_state(error) == _REFUSED


#: First characters of SQLSTATEs of values that do not fit, which are quoted then.
_BAD_VALUE = "22"


def hide_data(error: BaseException | None) -> None:
    """
    Take out of *error* what it holds of a statement and its values.

    They are data of tenants, and belong neither into logs nor into the row of an
    operation. What is left says what went wrong, the traceback says where.
    """
    if not isinstance(error, psycopg.Error | sa.exc.StatementError):
        return
    # What follows are lines such as "DETAIL: Failing row contains (...)".
    said = str(error.args[0] if error.args else "").strip().partition("\n")[0]
    cause: BaseException = error
    if isinstance(error, sa.exc.StatementError):
        cause = error.orig or error
        error.statement = error.params = None
    if _get_state(cause).startswith(_BAD_VALUE):
        said = re.sub('".*"', '"..."', said)
    error.args = (said,)


def is_beyond_limits(error: BaseException | None) -> bool:
    """Tell whether a statement, and not the server, is to blame for *error*."""
    return _get_state(error).startswith(_BEYOND_LIMITS)


def _get_state(error: BaseException | None) -> str:
    return getattr(error, "sqlstate", None) or ""


def execute_at_once(
    engine: sa.Engine, statement: sa.ClauseElement, values: Mapping[str, object]
) -> Any:
    """
    Execute *statement* as a transaction of its own, straight on the driver.

    For the few statements that every operation of a worker costs: SQLAlchemy would
    take as much CPU for each as all else that a short operation does.

    Args:
        engine: Of ``make_postgresql_engine``.

        statement: Rendered once; give the same object each time. No lists for IN, and
            no constants but those that psycopg knows: nothing expands or converts them.

        values: Of the bind parameters without a value, as psycopg takes them.

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
        # Where it stopped is not known, so nobody else may get this connection.
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
    """Return *statement* for psycopg: its constants written out, the rest as names."""
    compiled: Any = statement.compile(dialect=dialect)
    assert not compiled.post_compile_params, "a list for IN would have to be expanded"
    # What is not the name of a parameter is doubled: once for us, once for psycopg.
    return str(compiled).replace("%%", "%%%%") % {
        name: f"%({name})s" if bind.required else _quote(bind.value)
        for name, bind in compiled.binds.items()
    }


def _quote(value: object) -> str:
    return sql.quote(value).replace("%", "%%")


def make_unreachable(error: BaseException) -> UnreachableError:
    """Return what is said of a database that cannot serve now."""
    cause = getattr(error, "orig", None) or error
    said = str(cause).strip() or type(cause).__name__
    if is_refused(cause):
        return RefusedError(said)
    return UnreachableError(f"the database did not answer: {said}")
