"""
What only PostgreSQL has: connections that keep deadlines, and its driver, psycopg.

What both databases can do is in engine.py; look there first. Only what needs the driver
imports this module: loading psycopg takes longer than most commands.
"""

from __future__ import annotations

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

from models.database.postgresql_errors import (
    hide_data,
    is_ailing,
    is_beyond_limits,
    make_unreachable,
)

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
        if is_mistake and not is_ailing(error):
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
