"""A tick whose chunks fly, and a database, a broker or a leader that fails."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

import actions.due_rows
import actions.tick
from actions.lease import Leader, LeadershipLostError, get_send_failure
from dispatch.dispatcher import Dispatcher
from dispatch.outbox import SILENCE_S
from dispatch.upkeep import do_all
from models.back_off import RENEWED_EVERY
from models.database.engine import make_engine, reading, writing
from models.database.tables import leases, operations, scheduled_actions
from models.errors import UnreachableError
from telemetry import Event
from tests.database import execute, read_by
from tests.flying import NOW, assert_all_sent_once, expire, fly, make_due, once
from tests.scheduling import (
    BROKER_DOWN,
    Clock,
    FakeSender,
    Hooked,
    count_states,
    edit_action,
    fetch_action,
    fetch_all,
    make_dispatcher,
)
from tests.servers import wait_until

pytestmark = pytest.mark.usefixtures("small_app")


# -- what fails in flight ------------------------------------------------------


@contextmanager
def refusing(engine: sa.Engine, uid: str) -> Iterator[None]:
    """Let the database refuse the operations of an action."""
    trigger = "create trigger refuse before insert on operations for each row"
    trigger += f" when (new.action_uid = '{uid}')"
    if engine.dialect.name == "postgresql":
        function = (
            "create function refuse() returns trigger language plpgsql as $$ begin"
            " raise 'no more of this' using errcode = 'check_violation'; end $$"
        )
        begin = [function, f"{trigger} execute function refuse()"]
        end = ["drop trigger refuse on operations", "drop function refuse"]
    else:
        begin = [f"{trigger} begin select raise(abort, 'no more of this'); end"]
        end = ["drop trigger refuse"]
    _execute(engine, begin)
    try:
        yield
    finally:
        _execute(engine, end)


def _execute(engine: sa.Engine, statements: Sequence[str]) -> None:
    with writing(engine) as connection:
        for each in statements:
            connection.exec_driver_sql(each)


@pytest.mark.parametrize("place", [0, 2, 3, 5, 6])
def test_culprit_in_a_flight_is_left_out(engine: sa.Engine, place: int):
    """
    Only that action goes into quarantine, with what the database said; the others are
    recorded and sent, and so is what the failed flight was to mark as sent.
    """
    uids = make_due(engine, 7)
    sender = FakeSender()

    with capture_logs(), refusing(engine, uids[place]):
        report = fly(make_dispatcher(engine, sender), engine, chunk=3)

    assert (7, 6, 6) == (report.due, report.recorded, report.sent)
    assert [uids[place]] == [action.uid for action, _reason in report.quarantined]
    reason = fetch_action(engine, uids[place]).quarantine_reason
    assert "no more of this" in reason
    assert "insert" not in reason.lower()
    assert_all_sent_once(engine, sender, 6)


def test_culprit_that_cannot_be_decided_stops_no_flight(engine: sa.Engine):
    """The chunk before lands as if nothing had been; that of the culprit is settled."""
    uids = make_due(engine, 9)
    edit_action(engine, uids[5], timing="{")
    sender = FakeSender()

    report = fly(make_dispatcher(engine, sender), engine)

    assert (9, 8, 8) == (report.due, report.recorded, report.sent)
    assert [uids[5]] == [action.uid for action, _reason in report.quarantined]
    assert_all_sent_once(engine, sender, 8)


@contextmanager
def other_process(url: str) -> Iterator[sa.Engine]:
    """Give an engine of another process, which may keep a lock for a minute."""
    other = make_engine(url, timeout=timedelta(minutes=1))
    try:
        yield other
    finally:
        other.dispose()


#: Sessions that wait for a lock.
_WAITING = (
    "select pid from pg_stat_activity where datname = current_database()"
    " and wait_event_type = 'Lock' and application_name = 'minutehand'"
)
#: Sessions of ours, but for the one that asks.
_OURS = (
    "select pid from pg_stat_activity where datname = current_database()"
    " and application_name = 'minutehand' and pid <> pg_backend_pid()"
)


def terminate(engine: sa.Engine, pids: Sequence[int]) -> None:
    """End these sessions, and wait until they have ended."""
    for pid in pids:
        ended = f"select pg_terminate_backend({pid}, 10000)"
        with engine.connect() as connection:
            assert connection.exec_driver_sql(ended).scalar_one()


def fetch_pids(engine: sa.Engine, statement: str) -> list[int]:
    with reading(engine) as connection:
        return list(connection.exec_driver_sql(statement).scalars())


def test_chunk_that_had_begun_is_not_in_the_way(
    postgres_engine: sa.Engine, postgres_url: str
):
    """
    Its locks go with it, so that the leader can renew its lease while it looks for the
    culprit in the one before; then it is dispatched without a flight.
    """
    uids = make_due(postgres_engine, 7)
    for minutes, uid in enumerate(reversed(uids)):  # so that they come in this order
        edit_action(postgres_engine, uid, next_due_at=NOW - timedelta(minutes=minutes))
    sender = FakeSender()
    real = make_dispatcher(postgres_engine, sender)
    real.leader.release()
    clock = Clock()
    real.leader = Leader(postgres_engine, monotonic=clock)
    assert real.leader.hold()

    with (
        other_process(postgres_url) as other,
        other.connect() as locking,
        capture_logs() as logs,
        refusing(postgres_engine, uids[2]),
    ):

        def lock() -> None:
            locking.exec_driver_sql("lock table operations in share mode")

        def let_it_fail() -> None:
            locking.rollback()
            clock.now += RENEWED_EVERY.total_seconds()  # time to renew

        hooked = Hooked(real, before_launch=once(lock), before_land=once(let_it_fail))
        report = fly(hooked, postgres_engine)

    assert (7, 6, 6) == (report.due, report.recorded, report.sent)
    assert 2 == [each["event"] for each in logs].count(Event.FLIGHT_FAILED)
    assert_all_sent_once(postgres_engine, sender, 6)


def test_session_that_ends_before_its_flight_commits_loses_nothing(
    postgres_engine: sa.Engine, postgres_url: str
):
    """The tick fails; the next records what is left, and sends and marks all once."""
    make_due(postgres_engine, 9)
    sender = FakeSender()
    real = make_dispatcher(postgres_engine, sender)

    with other_process(postgres_url) as other:
        locking = other.connect()

        def lock() -> None:
            locking.exec_driver_sql("lock table operations in share mode")

        def end() -> None:
            pids = wait_until(lambda: fetch_pids(other, _WAITING))
            terminate(other, pids)
            locking.close()

        with pytest.raises(UnreachableError):
            fly(
                Hooked(real, before_launch=once(lock), in_flight=once(end)),
                postgres_engine,
            )
        assert 2 == len(fetch_all(postgres_engine))

        report = fly(real, postgres_engine)

    assert (7, 7) == (report.due, report.recorded)
    assert_all_sent_once(postgres_engine, sender, 9)


def test_session_that_ends_after_its_flight_committed_loses_nothing(
    postgres_engine: sa.Engine, postgres_url: str
):
    """Nobody was told that it is recorded: the database is asked again."""
    make_due(postgres_engine, 9)
    sender = FakeSender()
    real = make_dispatcher(postgres_engine, sender)

    with other_process(postgres_url) as other:

        def end() -> None:
            wait_until(lambda: len(fetch_all(other)) == 4)
            terminate(other, fetch_pids(other, _OURS))

        with pytest.raises(UnreachableError):
            fly(Hooked(real, in_flight=once(end)), postgres_engine)
        do_all(real.send_waiting)
        assert_all_sent_once(postgres_engine, sender, 4)

        report = fly(real, postgres_engine)

    assert (5, 5) == (report.due, report.recorded)
    assert_all_sent_once(postgres_engine, sender, 9)


def test_tick_that_fails_holds_no_connection(
    postgres_engine: sa.Engine, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    """Nor until garbage is collected: a tick each second would soon have them all."""
    monkeypatch.setattr(actions.due_rows, "FIRST_TURNS", 4)
    monkeypatch.setattr(actions.tick, "FIRST_TURNS", 4)
    make_due(postgres_engine, 9)
    real = make_dispatcher(postgres_engine)
    pool: Any = postgres_engine.pool
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)

    with other_process(postgres_url) as other, uncollected():

        def end() -> None:
            terminate(other, fetch_pids(other, _OURS))

        with suppress(UnreachableError):
            fly(Hooked(real, in_flight=once(end)), postgres_engine)
        real.drop()

        assert 0 == pool.checkedout()
        assert [] == unraisable


@contextmanager
def uncollected() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_nothing_is_locked_while_a_chunk_flies(
    postgres_engine: sa.Engine, postgres_url: str
):
    """
    Whoever freezes between launch and landing holds nobody up: no transaction is open,
    and others write what the flight wrote.
    """
    make_due(postgres_engine, 5)
    sender = FakeSender()
    edits = (
        sa.update(leases).values(hostname="other"),
        sa.update(scheduled_actions).values(woken_for=None),
        sa.update(operations).values(triggered_by="other"),
    )
    opened = f"{_OURS} and (xact_start is not null or state <> 'idle')"
    seen = []

    with other_process(postgres_url) as other:

        def write() -> None:
            wait_until(lambda: not fetch_pids(other, opened))
            seen.append(len(fetch_all(other)))
            for edit in edits:
                execute(other, edit)

        hooked = Hooked(make_dispatcher(postgres_engine, sender), in_flight=write)
        report = fly(hooked, postgres_engine)

    assert [4, 5] == seen
    assert (5, 5) == (report.recorded, report.sent)
    assert_all_sent_once(postgres_engine, sender, 5)


# -- a broker that fails -------------------------------------------------------


def fail(sender: FakeSender, error: Exception) -> Callable[[], None]:
    """Return what lets the broker fail from now on."""

    def do() -> None:
        sender.error = error

    return do


def test_broker_that_fails_in_the_middle_of_a_tick_loses_nothing(engine: sa.Engine):
    """
    All is recorded, and the lease says what is wrong; when the broker is back, all is
    sent, and the lease says so.
    """
    make_due(engine, 9)
    sender, clock = FakeSender(), Clock()
    real = make_dispatcher(engine, sender, monotonic=clock)

    report = fly(Hooked(real, in_flight=once(fail(sender, BROKER_DOWN))), engine)

    assert (9, len(sender.ids)) == (report.recorded, report.sent)
    assert 9 > report.sent > 0
    assert 1 == sender.attempts - len(sender.batches)
    failure = read_by(engine, get_send_failure)
    assert failure is not None
    assert "the broker is down" in failure.error

    sender.error = None
    clock.now += SILENCE_S
    assert 9 - report.sent == do_all(real.send_waiting)

    assert read_by(engine, get_send_failure) is None
    assert {"queued": 9} == count_states(engine)
    assert 9 == len(set(sender.ids)) == len(sender.ids)


@pytest.mark.parametrize(
    ("when", "count", "left"), [("before_launch", 9, 3), ("in_flight", 4, 0)]
)
def test_error_that_nobody_expected_of_the_broker_blames_no_action(
    engine: sa.Engine, when: str, count: int, left: int
):
    """
    It ends the tick, also after the last landing; what is recorded is sent later, and
    the rest decided later.
    """
    make_due(engine, count)
    sender = FakeSender()
    real = make_dispatcher(engine, sender)
    broken: dict[str, Any] = {when: once(fail(sender, RuntimeError("a bug")))}

    with pytest.raises(RuntimeError, match="a bug"):
        fly(Hooked(real, **broken), engine)

    sender.error = None
    do_all(real.send_waiting)
    assert_all_sent_once(engine, sender, count - left)
    report = fly(real, engine)
    assert (left, left, []) == (report.due, report.recorded, report.quarantined)
    assert_all_sent_once(engine, sender, count)


# -- leadership ----------------------------------------------------------------


def test_leader_that_is_overtaken_in_flight_stops(engine: sa.Engine):
    """
    What it has launched is recorded, but the next leader sends it; and if it leads
    again, it does not send what landed when it led before.
    """
    make_due(engine, 9)
    old, new = FakeSender(), FakeSender()
    real = make_dispatcher(engine, old)
    others: list[Dispatcher] = []

    def overtake() -> None:
        expire(engine)
        others.append(make_dispatcher(engine, new))

    with pytest.raises(LeadershipLostError):
        fly(Hooked(real, in_flight=once(overtake)), engine)
    assert 4 == len(fetch_all(engine))
    report = fly(others[0], engine)
    others[0].leader.release()
    assert real.leader.hold()
    again = fly(real, engine)

    assert (5, 5) == (report.due, report.recorded)
    assert (0, 0) == (again.due, again.sent)
    assert set(old.ids).isdisjoint(new.ids)
    both = FakeSender(batches=old.batches + new.batches)
    assert_all_sent_once(engine, both, 9)


def test_flight_that_nobody_lands_is_found_by_the_next_leader(engine: sa.Engine):
    """As of a leader that was interrupted for good."""
    make_due(engine, 9)
    old, new = FakeSender(), FakeSender()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fly(Hooked(make_dispatcher(engine, old), in_flight=interrupt), engine)
    expire(engine)
    other = make_dispatcher(engine, new)
    do_all(other.send_waiting)
    fly(other, engine)

    both = FakeSender(batches=old.batches + new.batches)
    assert_all_sent_once(engine, both, 9)


def test_what_landed_is_not_sent_after_an_outage(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
):
    """Another leader may have sent it long before: the next look says what is left."""
    make_due(engine, 9)
    old, new = FakeSender(), FakeSender()
    real = make_dispatcher(engine, old)

    def fail_to_renew() -> bool:
        expire(engine)
        other = make_dispatcher(engine, new)
        do_all(other.send_waiting)
        fly(other, engine)
        raise UnreachableError("the database is away")

    hooked = Hooked(real)
    with monkeypatch.context() as patch:

        def fail_when_it_has_landed() -> None:
            if hooked.launches:
                patch.setattr(real.leader, "hold", fail_to_renew)

        hooked.before_launch = fail_when_it_has_landed
        with pytest.raises(UnreachableError):
            fly(hooked, engine)
    with suppress(LeadershipLostError):
        fly(real, engine)

    both = FakeSender(batches=old.batches + new.batches)
    assert_all_sent_once(engine, both, 9)
