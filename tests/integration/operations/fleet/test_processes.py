"""Who works: rows that processes renew, and take away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import sqlalchemy as sa

from celery_app.signs_of_life import connect_briefly
from models.database.engine import make_engine, measure_skew, writing
from models.database.tables import ALIVE_FOR
from operations.fleet.presence import Presence
from operations.fleet.processes import (
    KEPT_FOR,
    ProcessRole,
    Seen,
    describe_settings,
    fetch_processes,
    record_end,
    record_sign,
)
from settings import Settings, read_settings
from tests.database import read_by, write_by
from tests.presence import give_sign, make_worker

SECOND = timedelta(seconds=1)


def fetch(engine: sa.Engine) -> list[Seen]:
    return read_by(engine, fetch_processes)


def test_row_is_what_the_process_told_last(engine: sa.Engine):
    """One row for each start, however many signs."""
    worker = make_worker()
    give_sign(engine, worker)
    give_sign(engine, replace(worker, queues=("quick",), free_bytes=7))

    (seen,) = fetch(engine)

    assert seen.is_alive
    assert (("quick",), 7) == (seen.process.queues, seen.process.free_bytes)
    assert worker.settings == seen.process.settings


def test_clock_of_the_host_is_compared_with_that_of_the_database(engine: sa.Engine):
    """In seconds, positive if the host is ahead, without what the answer took."""
    give_sign(engine, make_worker(), clock_ahead=timedelta(minutes=5))

    (seen,) = fetch(engine)

    assert seen.process.clock_skew_s is not None
    assert 0 < seen.process.clock_skew_s <= 300


@pytest.mark.parametrize(
    ("before_s", "after_s", "expected_s"),
    [(-3, 4, 0), (-9, -2, -2), (3, 9, 3), (0, 0, 0)],
)
def test_what_an_answer_takes_makes_no_clock_wrong(
    before_s: int, after_s: int, expected_s: int
):
    """A busy machine was told that its clock was behind."""
    now = datetime(2026, 11, 23, 7, tzinfo=UTC)
    looks = iter([now + before_s * SECOND, now + after_s * SECOND])
    engine = make_engine("sqlite://", clock=lambda: now)

    skew = read_by(engine, measure_skew, lambda: next(looks))

    assert expected_s * SECOND == skew


@pytest.mark.parametrize(
    ("age", "is_alive"), [(ALIVE_FOR - 5 * SECOND, True), (ALIVE_FOR + SECOND, False)]
)
def test_process_without_a_sign_counts_as_gone(
    engine: sa.Engine, age: timedelta, *, is_alive: bool
):
    """It is told of for a while, but takes nothing."""
    give_sign(engine, make_worker(), age=age)

    assert [is_alive] == [each.is_alive for each in fetch(engine)]


def test_two_minutes_are_enough_to_be_found_gone():
    """What doctor promises holds if a sign comes the moment before the end."""
    assert timedelta(minutes=2) > ALIVE_FOR


def test_process_that_stops_takes_only_its_own_row_away(engine: sa.Engine):
    """Another of the same name stays."""
    stopping, other = make_worker(), make_worker()
    for each in (stopping, other):
        give_sign(engine, each)

    write_by(engine, record_end, stopping)

    assert [other.id] == [each.process.id for each in fetch(engine)]


def test_others_forget_who_has_been_gone_for_a_day(engine: sa.Engine):
    """Nobody has to clean up after a host that never comes back."""
    give_sign(engine, make_worker("gone"), age=KEPT_FOR + SECOND)
    give_sign(engine, make_worker("b"))

    assert ["celery@b"] == [each.process.name for each in fetch(engine)]


def make_settings(**given: str) -> Settings:
    values = {f"MINUTEHAND_{name}": value for name, value in given.items()}
    return read_settings({"MINUTEHAND_HOME": "/data", **values}, env_file=None)


def test_secrets_are_told_as_digests():
    """Two that differ are told apart, and neither can be read from the row."""
    told = [
        describe_settings(
            make_settings(
                WEBHOOK_SECRET=secret, BROKER_URL="redis://ada:hunter2@broker:6379/1"
            ),
            ProcessRole.WORKER,
        )
        for secret in ("first secret", "second secret")
    ]

    assert told[0] != told[1]
    assert "redis://broker:6379/1" == told[0]["MINUTEHAND_BROKER_URL"]
    assert "hunter2" not in str(told)
    assert "first secret" not in str(told)


def test_parameters_of_an_address_are_told_as_digests():
    """
    They may hold a password; of a socket, they name the database, which must agree.
    """
    told = [
        describe_settings(
            make_settings(
                BROKER_URL=f"redis+socket:///run/r.sock?virtual_host={database}"
            ),
            ProcessRole.WORKER,
        )["MINUTEHAND_BROKER_URL"]
        for database in (271, 272)
    ]

    assert told[0] != told[1]
    assert told[0].startswith("redis+socket:///run/r.sock (digest ")
    assert "271" not in told[0].partition(" (digest ")[0]
    assert "virtual_host" not in str(told)


def test_each_role_is_asked_only_for_what_it_uses():
    """A scheduler has no workspace, and may be given none."""
    settings = make_settings()

    assert "MINUTEHAND_WORKSPACE" in describe_settings(settings, ProcessRole.WORKER)
    assert "MINUTEHAND_WORKSPACE" not in describe_settings(
        settings, ProcessRole.SCHEDULER
    )
    assert "MINUTEHAND_LOOKBACK" in describe_settings(settings, ProcessRole.SCHEDULER)


def test_database_that_is_away_ends_nobody():
    """
    The next call is left out, for this one was waited for; then it is tried again.
    """
    away = make_settings(DATABASE_URL="postgresql://x@127.0.0.1:1/x")
    tried: list[int] = []

    @contextmanager
    def connect() -> Iterator[sa.Connection]:
        tried.append(len(tried))
        with connect_briefly(away) as connection:
            yield connection

    presence = Presence(make_worker(), connect)
    for _ in range(3):
        presence.renew()
    presence.end()

    assert 3 == len(tried)


def test_schema_without_the_table_ends_nobody(unmigrated_url: str):
    """A worker that is newer than its database works on."""
    engine = make_engine(unmigrated_url)

    Presence(make_worker(), partial(writing, engine)).renew()

    engine.dispose()


def test_sign_leaves_no_connection_behind(sqlite_url: str):
    """The parent of a pool forks between two signs."""
    settings = make_settings(DATABASE_URL=sqlite_url)
    opened: list[sa.Engine] = []

    with connect_briefly(settings) as connection:
        record_sign(connection, make_worker())
        opened.append(connection.engine)

    pool = opened[0].pool
    assert isinstance(pool, sa.QueuePool)
    assert 0 == pool.checkedin() + pool.checkedout()
