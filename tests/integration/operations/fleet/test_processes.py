"""Who works, by rows that processes renew and take away; and who is to rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import pytest
import sqlalchemy as sa

from celery_app.signs_of_life import connect_briefly
from models.database.engine import Author, compare_clocks, make_engine, reading, writing
from models.database.tables import ALIVE_FOR
from models.errors import ConflictError, NotFoundError, UnreachableError
from models.paging import Page
from operations.fleet.presence import AGAIN_S, Presence
from operations.fleet.processes import (
    KEPT_FOR,
    ProcessRole,
    Seen,
    describe_settings,
    drain_worker,
    fetch_installation,
    fetch_processes,
    find_worker,
    record_end,
    record_sign,
    resume_worker,
)
from overview.changes import ChangeFilter, fetch_changes
from tests.database import read_by, write_by
from tests.presence import give_sign, make_worker
from tests.scheduling import SECOND, Clock, make_settings

WORKER = make_worker("host", name="quick@host", queues=("quick",))


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

    compared = read_by(engine, compare_clocks, lambda: next(looks))

    assert (now, expected_s * SECOND) == compared


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
    """They may hold a password; of a socket, they name the database."""
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
    """It is tried again in a moment: who was back would count as gone meanwhile."""
    away = make_settings(DATABASE_URL="postgresql://x@127.0.0.1:1/x")
    clock = Clock()
    presence = Presence(make_worker(), partial(connect_briefly, away), monotonic=clock)

    presence.renew()

    assert AGAIN_S == presence.pause_s
    presence.end()


@pytest.mark.parametrize("took_s", [0, 2, 4, 30])
def test_database_that_hangs_keeps_a_worker_for_a_part_of_its_time(
    sqlite_url: str, took_s: int
):
    """It does nothing else meanwhile; a sign that was given is good for a while."""
    clock, is_away = Clock(), True
    engine = make_engine(sqlite_url)

    @contextmanager
    def connect() -> Iterator[sa.Connection]:
        clock.now += took_s
        if is_away:
            raise UnreachableError("no answer")
        with writing(engine) as connection:
            yield connection

    presence = Presence(make_worker(), connect, monotonic=clock)
    presence.renew()
    again_s = presence.pause_s
    is_away = False
    presence.renew()

    assert {0: 5, 2: 8, 4: 16, 30: 20}[took_s] == again_s
    assert 20 == presence.pause_s
    engine.dispose()


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


def drain(engine: sa.Engine, worker_id: UUID = WORKER.id) -> bool:
    with writing(engine, author=Author("ada", None, None)) as connection:
        return drain_worker(connection, worker_id, by="ada", note="new kernel")


def test_the_worker_is_told_when_it_renews_its_row(engine: sa.Engine):
    """Until it is resumed; its own sign of life does not end it."""
    give_sign(engine, WORKER)
    drain(engine)
    with writing(engine) as connection:
        asked = [record_sign(connection, WORKER) for _ in range(2)]
        (seen,) = fetch_processes(connection)
    with writing(engine) as connection:
        resumed = resume_worker(connection, WORKER.id, note=None)
        then = record_sign(connection, WORKER)

    assert [True, True] == asked
    assert ("ada", True) == (seen.drain_asked_by, seen.drain_asked_at is not None)
    assert (True, False) == (resumed, then)


def test_it_is_recorded_once(engine: sa.Engine):
    """To ask again changes nothing."""
    give_sign(engine, WORKER)
    first, second = drain(engine), drain(engine)
    with writing(engine, author=Author("bob", None, None)) as connection:
        resume_worker(connection, WORKER.id, note="back")
    again = write_by(engine, resume_worker, WORKER.id, note=None)

    found = read_by(
        engine, fetch_changes, ChangeFilter(kind="worker"), Page(10)
    ).entries
    assert (True, False, False) == (first, second, again)
    assert [
        ("bob", "resumed", "quick@host", "back"),
        ("ada", "drained", "quick@host", "new kernel"),
    ] == [(each.by, each.change, each.subject, each.note) for each in found]
    assert {"id": str(WORKER.id), "queues": ["quick"]} == found[1].after


def test_a_new_start_takes_work(engine: sa.Engine):
    """The wish is that of one start of the worker: its id is another afterwards."""
    give_sign(engine, WORKER)
    drain(engine)
    anew = make_worker("host", name="quick@host")
    assert not write_by(engine, record_sign, anew)


def test_who_is_gone_cannot_be_drained(engine: sa.Engine):
    """Nor a scheduler, nor nobody."""
    give_sign(engine, WORKER, age=ALIVE_FOR * 2)
    leader = make_worker("leader", role=ProcessRole.SCHEDULER)
    give_sign(engine, leader)

    with pytest.raises(ConflictError, match=r"quick@host has given no sign of life"):
        drain(engine)
    for unknown in (leader.id, UUID(int=0)):
        with pytest.raises(NotFoundError):
            drain(engine, unknown)


def test_a_worker_is_found_by_its_name(engine: sa.Engine):
    """The living one; two of one name are told apart by nobody."""
    give_sign(engine, make_worker("gone", name="quick@host"), age=ALIVE_FOR * 2)
    give_sign(engine, WORKER)
    with reading(engine) as connection:
        found = find_worker(connection, "quick@host")
        with pytest.raises(NotFoundError, match="minutehand workers list"):
            find_worker(connection, "quick@elsewhere")
    give_sign(engine, make_worker("host", name="quick@host"))
    with pytest.raises(ConflictError, match="2 workers are called 'quick@host'"):
        read_by(engine, find_worker, "quick@host")

    assert WORKER.id == found


def test_migration_makes_one_id_of_the_installation(engine: sa.Engine):
    """It is what messages carry, as text."""
    found = read_by(engine, fetch_installation)

    assert found is not None
    assert str(UUID(found)) == found
