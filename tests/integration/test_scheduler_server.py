"""The loop: whatever fails, nothing that was decided is lost or done twice."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from actions.lease import SendFailure, get_send_failure, record_send_failure
from actions.own_actions import fetch_watch, record_watch
from actions.pausing.pause_and_resume import pause_action
from dispatch.dispatcher import Dispatcher
from dispatch.outbox import SILENCE_S
from dispatch.upkeep import NOTICE_AFTER_S, RESCUE_EVERY_S
from models.database.engine import make_engine, writing
from models.database.tables import scheduled_actions
from models.errors import BrokerUnreachableError, UnreachableError
from models.operation_state import Queue
from models.requests.notes import PauseModel
from scheduler_server import PAUSE_S, Scheduler
from tests.database import execute, read_by, write_by
from tests.flying import expire
from tests.scheduling import (
    BROKER_DOWN,
    MINUTE,
    MINUTELY,
    SECOND,
    Clock,
    FakeSender,
    add_app,
    backdate,
    copy_action,
    edit,
    edit_action,
    fetch_action,
    fetch_all,
    get,
    get_now,
    make_operation,
    make_scheduler,
    post,
    record_all,
)


def wake_to_send(scheduler: Scheduler) -> None:
    """Wake for the tick, in which nothing is due, then for the outbox."""
    scheduler.wake()
    scheduler.next_tick_at = get_now(scheduler.engine) + 50 * SECOND
    scheduler.wake()


def tick_again(scheduler: Scheduler) -> float:
    """Wake as if the next minute had come."""
    scheduler.next_tick_at = None
    return scheduler.wake()


def test_first_wake_ticks_and_sleeps_to_the_next_look(engine: sa.Engine):
    """Who leads looks at once; the pause never reaches beyond the minute."""
    add_app(engine)
    backdate(engine, post(engine, when=MINUTELY).uid, 2)
    sender = FakeSender()
    scheduler = make_scheduler(engine, sender)

    pause_s = scheduler.wake()

    assert 0 <= pause_s <= PAUSE_S
    assert [row.id for row in fetch_all(engine)] == sender.ids
    assert len(sender.ids) >= 3


def test_failures_are_looked_for_after_each_tick(engine: sa.Engine):
    """Ten seconds later, once, when most of what it made has run; never before it."""
    add_app(engine)
    clock = Clock()
    scheduler = make_scheduler(engine, clock=clock, NOTICE_MAIL="ops@example.org")
    scheduler.wake()
    scheduler.next_tick_at = get_now(engine) + 50 * SECOND
    looks = []

    for _ in range(30):
        clock.now += 1
        scheduler.wake()
        with writing(engine) as connection:
            looks.append(fetch_watch(connection).noticed_until)
            record_watch(connection, None)

    assert [NOTICE_AFTER_S] == [n for n, look in enumerate(looks, 1) if look]


def test_wake_between_minutes_does_not_tick(engine: sa.Engine):
    """In between the outbox is drained, and nothing is decided."""
    add_app(engine)
    sender = FakeSender()
    scheduler = make_scheduler(engine, sender)
    scheduler.wake()
    scheduler.next_tick_at = get_now(engine) + 30 * SECOND
    backdate(engine, post(engine, when=MINUTELY).uid)
    made = make_operation()
    record_all(engine, made)

    scheduler.wake()

    assert [made.id] == sender.ids


def test_standby_does_nothing(engine: sa.Engine):
    """A second scheduler waits, and takes over when the first one stops."""
    add_app(engine)
    first, second = make_scheduler(engine), make_scheduler(engine)
    first.wake()
    backdate(engine, post(engine, when=MINUTELY).uid)

    assert PAUSE_S == second.wake()
    assert [] == fetch_all(engine)
    first.stop()
    second.wake()

    assert {2} == {row.fence for row in fetch_all(engine)}


@pytest.mark.parametrize("leads", [True, False])
def test_only_who_led_says_that_it_gave_the_lead_away(
    engine: sa.Engine, *, leads: bool
):
    """A standby that stops has nothing to give away."""
    first, standby = make_scheduler(engine), make_scheduler(engine)
    first.wake()
    standby.wake()

    with capture_logs() as lines:
        (first if leads else standby).stop()

    assert ["lease_released"] * leads == [line["event"] for line in lines]


def test_broker_that_is_down_stops_no_decision(engine: sa.Engine):
    """Everything is recorded; later it is sent, the oldest first, each once."""
    add_app(engine)
    uid = post(engine, when=MINUTELY).uid
    sender, clock = FakeSender(error=BROKER_DOWN), Clock()
    scheduler = make_scheduler(engine, sender, clock)
    backdate(engine, uid, 3)
    scheduler.wake()
    # a minute may have begun meanwhile; no other one is due
    edit_action(engine, uid, next_due_at=None)
    recorded = [row.state for row in fetch_all(engine)]
    assert 4 <= len(recorded) <= 5
    assert {"pending"} == set(recorded)
    late = make_operation(queue=Queue.TASKS)
    record_all(engine, late)
    assert 1 == sender.attempts

    for _ in range(3):
        scheduler.wake()
        tick_again(scheduler)
    assert 1 == sender.attempts
    scheduler.next_tick_at = get_now(engine) + 50 * SECOND

    clock.now += SILENCE_S + 0.1
    scheduler.wake()
    assert 2 == sender.attempts
    sender.error = None
    clock.now += SILENCE_S + 0.1
    scheduler.wake()

    rows = fetch_all(engine)
    assert ["queued"] * (len(recorded) + 1) == [row.state for row in rows]
    # MONDAY's comes first by occurrence, and was recorded last
    assert [*(row.id for row in rows[1:]), late.id] == sender.ids


def fetch_send_failure(engine: sa.Engine) -> SendFailure | None:
    return read_by(engine, get_send_failure)


def test_what_the_broker_says_is_kept_until_it_takes_something(engine: sa.Engine):
    """The first time and the last word; a new leader has heard nothing yet."""
    record_all(engine, make_operation())
    sender, clock = FakeSender(error=BROKER_DOWN), Clock()
    scheduler = make_scheduler(engine, sender, clock)
    wake_to_send(scheduler)
    first = fetch_send_failure(engine)
    assert first is not None
    assert "the broker is down" == first.error
    sender.error = BrokerUnreachableError("out of memory")
    clock.now += SILENCE_S + 0.1
    scheduler.wake()
    assert SendFailure(first.since, "out of memory") == fetch_send_failure(engine)
    sender.error = None
    clock.now += SILENCE_S + 0.1
    scheduler.wake()
    assert ["queued"] == [row.state for row in fetch_all(engine)]
    assert fetch_send_failure(engine) is None
    write_by(engine, record_send_failure, "once more")
    scheduler.leader.release()

    make_scheduler(engine, sender, clock).wake()

    assert fetch_send_failure(engine) is None


def test_failure_is_told_until_nothing_waits(engine: sa.Engine):
    """What is canceled is never sent: the last word would be an old outage's."""
    made = make_operation()
    record_all(engine, made)
    sender, clock = FakeSender(error=BROKER_DOWN), Clock()
    scheduler = make_scheduler(engine, sender, clock)
    wake_to_send(scheduler)
    edit(engine, made.id, state="canceled")
    assert fetch_send_failure(engine) is not None

    clock.now += SILENCE_S + 0.1
    scheduler.wake()

    assert fetch_send_failure(engine) is None


def test_broker_that_is_away_is_asked_once_for_all(engine: sa.Engine):
    """Neither sending nor rescuing waits for it twice within a few seconds."""
    record_all(engine, make_operation())
    sender, clock = FakeSender(error=BROKER_DOWN), Clock()
    scheduler = make_scheduler(engine, sender, clock)
    wake_to_send(scheduler)
    assert 1 == sender.attempts

    clock.now += min(RESCUE_EVERY_S, SILENCE_S) - 0.1
    scheduler.wake()
    scheduler.dispatcher.rescue()

    assert 1 == sender.attempts
    clock.now += 1
    scheduler.dispatcher.rescue()
    assert 1 == sender.attempts
    scheduler.wake()
    assert 2 == sender.attempts


def test_rescue_leaves_the_first_word_to_what_waits(engine: sa.Engine):
    """However often it asks a broker that is away, what waits is tried, and told."""
    sender, clock = FakeSender(error=BROKER_DOWN), Clock()
    scheduler = make_scheduler(engine, sender, clock)
    scheduler.wake()
    record_all(engine, make_operation())
    for _ in range(3):
        clock.now += SILENCE_S + 0.1
        scheduler.dispatcher.rescue()
        scheduler.wake()

    assert fetch_send_failure(engine) is not None


def test_crash_between_commit_and_send_sends_the_same_ids(engine: sa.Engine):
    """A new process finds the rows pending and sends them, no others."""
    add_app(engine)
    uid = post(engine, when=MINUTELY).uid
    backdate(engine, uid, 1)
    crashed = make_scheduler(engine, FakeSender(error=MemoryError()))
    with pytest.raises(MemoryError):
        crashed.wake()
    ids = [row.id for row in fetch_all(engine)]
    assert ["pending"] * len(ids) == [row.state for row in fetch_all(engine)]
    expire(engine)

    sender = FakeSender()
    wake_to_send(make_scheduler(engine, sender))

    assert ids == sender.ids[: len(ids)]
    assert len(set(sender.ids)) == len(sender.ids)


def test_crash_between_send_and_mark_sends_twice_under_one_id(engine: sa.Engine):
    """At least once: the claim turns the second copy away."""
    made = make_operation()
    record_all(engine, made)
    crashing = FakeSender(error_after=MemoryError())
    with pytest.raises(MemoryError):
        wake_to_send(make_scheduler(engine, crashing))
    expire(engine)
    sender = FakeSender()

    wake_to_send(make_scheduler(engine, sender))

    assert [made.id] == crashing.ids == sender.ids
    assert "queued" == get(engine, made.id).state


def test_broker_that_took_it_and_failed_gets_it_again(engine: sa.Engine):
    """An error means "unknown", so the whole batch is sent again."""
    made = make_operation()
    record_all(engine, made)
    sender, clock = FakeSender(error_after=BROKER_DOWN), Clock()
    scheduler = make_scheduler(engine, sender, clock)
    wake_to_send(scheduler)
    assert "pending" == get(engine, made.id).state
    sender.error_after = None
    clock.now += SILENCE_S + 0.1

    scheduler.wake()

    assert [made.id, made.id] == sender.ids


def test_database_that_is_away_stops_the_wake_and_not_the_loop():
    """Nothing is dispatched, nothing raised; the next look finds it again."""
    engine = make_engine("postgresql://nobody@127.0.0.1:1/none")
    sender = FakeSender()
    scheduler = make_scheduler(engine, sender)

    assert PAUSE_S == scheduler.wake()
    scheduler.stop()

    assert [] == sender.batches
    engine.dispose()


def test_tick_that_failed_is_repeated_at_once(engine: sa.Engine):
    """Not a minute later."""
    add_app(engine)
    scheduler = make_scheduler(engine)
    scheduler.wake()
    backdate(engine, post(engine, when=MINUTELY).uid)
    before = scheduler.next_tick_at
    expire(engine)
    scheduler.next_tick_at = None

    assert PAUSE_S == scheduler.wake()
    assert [] == fetch_all(engine)
    scheduler.wake()

    assert before is not None
    assert 1 <= len(fetch_all(engine)) <= 2


def test_tick_that_failed_lets_nothing_fly(
    postgres_engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
):
    """What flies has a session, and maybe locks for which the lease would wait."""
    add_app(postgres_engine)
    uid = post(postgres_engine, when=MINUTELY).uid
    copy_action(postgres_engine, uid, 5)
    scheduler = make_scheduler(postgres_engine, CHUNK="2")
    scheduler.wake()
    past = get_now(postgres_engine) - MINUTE
    execute(postgres_engine, sa.update(scheduled_actions).values(next_due_at=past))
    pool: Any = postgres_engine.pool
    in_flight: list[int] = []

    def fail(_dispatcher: Dispatcher) -> None:
        in_flight.append(pool.checkedout())
        raise UnreachableError("the lease could not be renewed")

    monkeypatch.setattr(Dispatcher, "hand_over", fail)
    monkeypatch.setattr(Dispatcher, "land", fail)
    scheduler.next_tick_at = None
    scheduler.wake()

    assert in_flight[0] > 0
    assert 0 == pool.checkedout()


def test_tick_ends_pauses_before_it_decides(engine: sa.Engine):
    """What is due at the very end of a pause is recorded by the tick that sees it."""
    add_app(engine)
    uid = post(engine, when={"every": "PT1M"}).uid
    until = get_now(engine).replace(second=0, microsecond=0) + 2 * MINUTE
    write_by(engine, pause_action, uid, PauseModel(until=until))
    scheduler = make_scheduler(engine)
    assert scheduler.leader.hold()

    before = scheduler.tick(until - timedelta(seconds=1))
    after = scheduler.tick(until + timedelta(seconds=1))

    assert (0, 1) == (before.recorded, after.recorded)
    assert [until] == [row.occurrence for row in fetch_all(engine)]
    assert fetch_action(engine, uid).paused_at is None
