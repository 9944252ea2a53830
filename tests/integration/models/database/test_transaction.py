"""Transactions whose end nobody waits for, and rows that the server keeps for us."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from itertools import islice
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from models.database.engine import make_engine, stream_kept
from models.database.postgresql import FETCHED_AT_ONCE
from models.database.tables import small_apps
from models.database.transaction import departing
from models.errors import UnreachableError
from tests.database import execute, fetch_rows
from tests.servers import wait_until

_apps = small_apps.c
ADD = (
    sa.insert(small_apps)
    .values(uid=sa.bindparam("uid"), name=sa.bindparam("called"))
    .returning(_apps.uid)
)
NAMES = sa.select(_apps.name).order_by(_apps.uid)
RENAME = sa.update(small_apps).values(name=sa.bindparam("called"))

#: Beyond what sockets keep for whoever does not read yet.
MANY = sa.select(sa.func.repeat("x", 1_000)).select_from(
    sa.func.generate_series(1, 30_000)
)

#: What no statement of ours is: a mistake, and one that only the data shows.
WRONG = sa.text("select no_such_column")
DIVISION = sa.select(1 / sa.bindparam("by", type_=sa.Integer))


def add(uid: str) -> dict[str, str]:
    return {"uid": uid, "called": f"the app {uid}"}


def fetch_uids(engine: sa.Engine) -> list[str]:
    return list(fetch_rows(engine, sa.select(_apps.uid).order_by(_apps.uid)).scalars())


def count_open(engine: sa.Engine) -> int:
    """Return how many transactions of others are open in this database."""
    others = sa.text(
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and xact_start is not null"
        " and backend_type = 'client backend'"
    )
    return int(fetch_rows(engine, others).scalar_one())


def terminate_others(engine: sa.Engine) -> None:
    """End all other sessions of ours, and wait until they have ended."""
    others = sa.text(
        "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
        " and application_name = 'minutehand'"
    )
    with engine.connect() as connection:
        assert all(connection.scalars(others))


def test_answers_are_there_when_it_has_landed(engine: sa.Engine):
    """A later statement sees what an earlier one wrote."""
    with departing(engine) as flight:
        flight.connection.execute(sa.select(1))
        added = flight.ask(ADD, add("a"))
        named = flight.ask(NAMES, {})
        renamed = flight.ask(RENAME, {"called": "100 %"})
    flight.land()

    assert ([("a",)], 1) == ([tuple(row) for row in added.rows], added.count)
    assert [("the app a",)] == [tuple(row) for row in named.rows]
    assert 1 == renamed.count
    assert ["a"] == fetch_uids(engine)


@pytest.mark.parametrize("asks", [False, True])
def test_block_that_fails_writes_nothing(engine: sa.Engine, *, asks: bool):
    """Whether it asked anything or not; the next transaction has a sound connection."""
    with pytest.raises(ZeroDivisionError):
        fail_in_flight(engine, asks=asks)

    assert [] == fetch_uids(engine)


def fail_in_flight(engine: sa.Engine, *, asks: bool) -> float:
    with departing(engine) as flight:
        flight.connection.execute(ADD, add("a"))
        if asks:
            flight.ask(ADD, add("b"))
        return 1 / 0


def test_it_commits_though_nobody_waits(ours: sa.Engine, other: sa.Engine):
    """No transaction stays open: whoever wants the rows next need not wait for us."""
    with departing(ours) as flight:
        flight.ask(ADD, add("a"))

    wait_until(lambda: ["a"] == fetch_uids(other))
    wait_until(lambda: count_open(other) == 0)
    rename(other)
    flight.land()


def test_large_answer_that_nobody_reads_is_not_in_the_way(
    ours: sa.Engine, other: sa.Engine
):
    """It has committed before it is read: nothing is locked."""
    with departing(ours) as flight:
        flight.ask(ADD, add("a"))
        found = flight.ask_after(MANY, {})

    wait_until(lambda: ["a"] == fetch_uids(other))
    rename(other)
    flight.land()

    assert 30_000 == found.count == len(found.rows)
    assert 1_000 == len(found.rows[0][0])


def test_what_is_asked_after_it_sees_what_it_wrote(engine: sa.Engine):
    with departing(engine) as flight:
        flight.ask(ADD, add("a"))
        names = flight.ask_after(NAMES, {})
    flight.land()

    assert [("the app a",)] == [tuple(row) for row in names.rows]


def add_twice(engine: sa.Engine) -> None:
    with departing(engine) as flight:
        flight.ask(ADD, add("b"))
        flight.ask(ADD, add("a"))
        flight.ask_after(NAMES, {})
    flight.land()


def test_what_is_asked_after_it_hides_no_error(postgres_engine: sa.Engine):
    """Though it succeeds, and is the last that the driver hears of."""
    with departing(postgres_engine) as first:
        first.ask(ADD, add("a"))
    first.land()

    with pytest.raises(sa.exc.IntegrityError):
        add_twice(postgres_engine)

    assert ["a"] == fetch_uids(postgres_engine)


def test_network_that_takes_little_at_a_time_has_it_all_at_departure(
    ours: sa.Engine, other: sa.Engine
):
    """
    What the driver has not sent when it departs would not be sent before it lands: a
    process that froze in between would hold its locks for ever.
    """

    @sa.event.listens_for(ours, "connect")
    def _narrow(connection: psycopg.Connection[Any], _record: object) -> None:
        with socket.socket(fileno=connection.fileno()) as wire:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
            wire.detach()

    with departing(ours) as flight:
        flight.ask(ADD, {"uid": "a", "called": "x" * 400_000})

    wait_until(lambda: ["a"] == fetch_uids(other))
    flight.land()


def test_process_that_freezes_before_it_departs_frees_its_locks(
    postgres_url: str, other: sa.Engine
):
    """
    What it has asked is not sent yet: for a server that waits for the rest of what was
    sent, the transaction is not idle, and no timeout ends it.
    """
    # Long enough for a machine that stands still between two statements.
    ours = make_engine(postgres_url, timeout=timedelta(seconds=4))
    fly(other, "a")

    with pytest.raises(UnreachableError):
        freeze(ours, lambda: rename(other))

    assert ["renamed"] == list(fetch_rows(other, NAMES).scalars())
    ours.dispose()


def freeze(engine: sa.Engine, meanwhile: Callable[[], None]) -> None:
    with departing(engine) as flight:
        flight.connection.execute(sa.select(_apps.uid).with_for_update())
        flight.ask(ADD, add("b"))
        meanwhile()
    flight.land()


def rename(engine: sa.Engine) -> None:
    execute(engine, RENAME, {"called": "renamed"})


def test_session_that_ends_in_flight_means_the_database_is_away(
    ours: sa.Engine, other: sa.Engine
):
    """The pool has no part of it afterwards."""
    with departing(ours) as flight:
        flight.ask(ADD, add("a"))
    wait_until(lambda: ["a"] == fetch_uids(other))
    terminate_others(other)

    with pytest.raises(UnreachableError, match="the database did not answer"):
        flight.land()

    assert ["a"] == fetch_uids(ours)
    with departing(ours) as flight:
        flight.ask(ADD, add("b"))
    flight.land()
    assert ["a", "b"] == fetch_uids(ours)


def test_statement_that_fails_in_flight_takes_all_with_it(
    ours: sa.Engine, other: sa.Engine
):
    """
    The error is that of the statement, not of those that were skipped after it, whether
    it is noticed before the departure or at the landing; nothing stays locked.
    """
    fly(ours, "a")

    with pytest.raises(sa.exc.IntegrityError, match="pk_small_apps"):
        fly(ours, "b", "a", "c", before=lambda: count_open(other) == 0)

    assert ["a"] == fetch_uids(ours)
    assert 0 == count_open(other)


def fly(
    engine: sa.Engine, *uids: str, before: Callable[[], bool] = lambda: True
) -> None:
    """Let apps fly, and land when *before* is true."""
    with departing(engine) as flight:
        for uid in uids:
            flight.ask(ADD, add(uid))
        flight.ask(NAMES, {})
    wait_until(before)
    flight.land()


def test_error_that_the_data_shows_is_no_outage(postgres_engine: sa.Engine):
    """Whoever let it fly looks for the culprit."""
    with pytest.raises(psycopg.DataError):  # noqa: PT012 - wherever it is noticed
        with departing(postgres_engine) as flight:
            flight.ask(ADD, add("a"))
            flight.ask(DIVISION, {"by": 0})
        flight.land()

    assert [] == fetch_uids(postgres_engine)


def test_flight_that_is_abandoned_gives_no_connection_back(ours: sa.Engine):
    """Whether it commits is not known; the next flight is another one."""
    with departing(ours) as flight:
        flight.ask(ADD, add("a"))
    flight.abandon()
    with departing(ours) as flight:
        asked = flight.ask(NAMES, {})
    flight.land()

    assert asked.count in {0, 1}
    assert ours.pool.checkedout() == 0  # type: ignore[attr-defined]  # of a queue pool


# -- rows that the server keeps ------------------------------------------------

NUMBERS = sa.text("select generate_series(1, :last)").bindparams(
    sa.bindparam("last", type_=sa.Integer)
)
CURSORS = sa.text("select count(*) from pg_cursors")


def count_cursors(engine: sa.Engine) -> int:
    """Return how many cursors the sessions of the pool have."""
    return int(fetch_rows(engine, CURSORS).scalar_one())


def test_all_rows_come_in_order(postgres_engine: sa.Engine):
    last = 2 * FETCHED_AT_ONCE + 1

    rows = stream_kept(postgres_engine, NUMBERS, {"last": last})

    assert list(range(1, last + 1)) == [number for (number,) in rows]
    assert 0 == count_cursors(postgres_engine)
    with postgres_engine.connect() as connection:
        connection.execute(ADD, add("a"))
        connection.rollback()
    assert [] == fetch_uids(postgres_engine)


def test_no_transaction_is_open_while_rows_are_kept(ours: sa.Engine, other: sa.Engine):
    """They hold up no vacuum, and no lock; a row is as it was at first."""
    with departing(ours) as flight:
        for number in range(3):
            flight.ask(ADD, add(str(number)))
    flight.land()
    with closing(stream_kept(ours, NAMES, {})) as rows:
        assert ("the app 0",) == next(rows)
        assert 0 == count_open(other)
        rename(other)

        assert [("the app 1",), ("the app 2",)] == list(rows)


def test_stream_that_is_closed_early_leaves_nothing_behind(
    ours: sa.Engine, other: sa.Engine
):
    """No cursor, no transaction, no connection that nobody gives back."""
    rows = stream_kept(ours, NUMBERS, {"last": 3 * FETCHED_AT_ONCE})
    assert [(1,), (2,)] == list(islice(rows, 2))
    rows.close()

    assert 0 == count_cursors(ours)
    assert 0 == count_open(other)
    assert 0 == ours.pool.checkedout()  # type: ignore[attr-defined]  # of a queue pool


def test_stream_of_a_session_that_ended_means_the_database_is_away(
    ours: sa.Engine, other: sa.Engine
):
    """Rows that were fetched before are no promise of the others."""
    rows = stream_kept(ours, NUMBERS, {"last": 3 * FETCHED_AT_ONCE})
    assert (1,) == next(rows)
    terminate_others(other)

    with pytest.raises(UnreachableError, match="the database did not answer"):
        list(rows)

    assert [] == fetch_uids(ours)


def test_statement_that_is_wrong_is_no_outage(postgres_engine: sa.Engine):
    """Nobody would be helped by another try."""
    with pytest.raises(psycopg.errors.UndefinedColumn):
        list(stream_kept(postgres_engine, WRONG, {}))

    assert 0 == count_cursors(postgres_engine)
