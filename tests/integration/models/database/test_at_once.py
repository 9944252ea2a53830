"""Statements that are a transaction of their own, straight on the driver."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa

from models.database.engine import writing
from models.database.postgresql import execute_at_once
from models.database.tables import small_apps
from models.errors import UnreachableError
from tests.database import fetch_rows

ADD = (
    sa.insert(small_apps)
    .values(uid=sa.bindparam("uid"), name="100 % ours %(uid)s %s")
    .returning(small_apps.c.uid, small_apps.c.name)
)
RENAME = (
    sa.update(small_apps)
    .where(small_apps.c.uid == sa.bindparam("app_uid"))
    .values(name="renamed")
    .returning(small_apps.c.uid)
)

PID = sa.text("select pg_backend_pid()")


def fetch_names(engine: sa.Engine) -> list[str]:
    return list(fetch_rows(engine, sa.select(small_apps.c.name)).scalars())


def test_row_is_returned_and_kept(postgres_engine: sa.Engine):
    """
    Constants are written out as they are, whatever the driver makes of a percent sign.
    What finds nothing, as of a claim that somebody else has, returns None.
    """
    row = execute_at_once(postgres_engine, ADD, {"uid": "shop"})
    nothing = execute_at_once(postgres_engine, RENAME, {"app_uid": "nobody"})

    assert ("shop", "100 % ours %(uid)s %s") == (row.uid, row.name)
    assert nothing is None
    assert ["100 % ours %(uid)s %s"] == fetch_names(postgres_engine)


def test_violated_constraint_changes_nothing(postgres_engine: sa.Engine):
    """The error is the one that SQLAlchemy would raise."""
    execute_at_once(postgres_engine, ADD, {"uid": "shop"})

    with pytest.raises(sa.exc.IntegrityError, match="pk_small_apps"):
        execute_at_once(postgres_engine, ADD, {"uid": "shop"})

    assert 1 == len(fetch_names(postgres_engine))


def test_transactions_are_whole_again_afterwards(postgres_engine: sa.Engine):
    """The connection goes back to the pool as it came, or not at all."""
    execute_at_once(postgres_engine, ADD, {"uid": "shop"})
    assert rolls_back(postgres_engine)
    with suppress(sa.exc.IntegrityError):
        execute_at_once(postgres_engine, ADD, {"uid": "shop"})

    assert rolls_back(postgres_engine)


def rolls_back(engine: sa.Engine) -> bool:
    """Tell whether what is not committed is undone."""
    with engine.connect() as connection:
        connection.execute(sa.delete(small_apps))
        connection.rollback()
    return len(fetch_names(engine)) == 1


@pytest.mark.parametrize("state", ["25006", "40001", "57P01", "XX000"])
def test_server_that_cannot_serve_is_away(postgres_engine: sa.Engine, state: str):
    """As in any transaction; the next statement has a connection of its own."""
    fail = f"fail_{uuid4().hex}"
    with writing(postgres_engine) as connection:
        connection.exec_driver_sql(
            f"create function {fail}() returns int language plpgsql as $$"
            f" begin raise exception 'it fails' using errcode = '{state}'; end $$"
        )

    with pytest.raises(UnreachableError, match="it fails"):
        execute_at_once(postgres_engine, sa.text(f"select {fail}()"), {})

    assert execute_at_once(postgres_engine, ADD, {"uid": "shop"}) is not None
    with writing(postgres_engine) as connection:
        connection.exec_driver_sql(f"drop function {fail}()")


def test_connection_that_was_cut_is_replaced(ours: sa.Engine, other: sa.Engine):
    """Also one that lay idle in the pool while the server was restarted."""
    (pid,) = execute_at_once(ours, PID, {})
    execute_at_once(other, sa.text(f"select pg_terminate_backend({pid})"), {})

    with pytest.raises(UnreachableError):
        execute_at_once(ours, ADD, {"uid": "shop"})

    assert execute_at_once(ours, ADD, {"uid": "shop"}) is not None


def test_server_that_dies_while_we_connect_is_away(ours: sa.Engine):
    """Also in what SQLAlchemy itself asks of the first connection."""

    @sa.event.listens_for(ours, "connect", insert=True)
    def _die(connection: psycopg.Connection[Any], _record: object) -> None:
        connection.close()

    with pytest.raises(UnreachableError):
        execute_at_once(ours, PID, {})


def test_statement_that_takes_too_long_costs_one_connection(ours: sa.Engine):
    """Its own: the others of the pool are as good as they were."""
    with ours.connect() as connection, ours.connect() as other:
        idle = {fetch_pid(connection), fetch_pid(other)}
    cancel = sa.text("select pg_cancel_backend(pg_backend_pid()), pg_sleep(9)")

    with pytest.raises(UnreachableError, match="user request"):
        execute_at_once(ours, cancel, {})

    with ours.connect() as connection, ours.connect() as other:
        now = {fetch_pid(connection), fetch_pid(other)}
    assert 1 == len(idle & now)


def fetch_pid(connection: sa.Connection) -> int:
    pid: int = connection.execute(PID).scalar_one()
    return pid


def test_pool_that_is_used_up_is_no_mistake(ours: sa.Engine):
    """Whoever holds them all gives one back: the message returns to its queue."""
    pool: Any = ours.pool
    pool._timeout = 0.1  # no statement has so little
    with ExitStack() as claim:
        for _ in range(15):  # five kept open, ten more
            claim.enter_context(ours.connect())

        with pytest.raises(UnreachableError, match="QueuePool"):
            execute_at_once(ours, PID, {})

    assert execute_at_once(ours, PID, {}) is not None


@pytest.mark.parametrize(
    ("query", "mistake"),
    [
        ("select no_such_column", psycopg.errors.UndefinedColumn),
        (f"select {', '.join('1' * 1700)}", psycopg.errors.TooManyColumns),
        ("select repeat('[', 1000000)::jsonb", psycopg.errors.StatementTooComplex),
    ],
    ids=["unknown", "too many", "too deep"],
)
def test_mistake_of_ours_is_no_outage(
    postgres_engine: sa.Engine, query: str, mistake: type[psycopg.Error]
):
    """A statement that is wrong would be wrong again."""
    with pytest.raises(mistake):
        execute_at_once(postgres_engine, sa.text(query), {})
