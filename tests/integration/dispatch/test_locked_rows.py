"""A row that a shell keeps locked holds up nothing else, and is not lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from dispatch import watching
from dispatch.noticer import Noticer
from dispatch.watching import Rester
from models.database.engine import make_engine, reading
from models.database.tables import (
    deliveries,
    installation,
    leases,
    operation_steps,
    operations,
    scheduled_actions,
    small_apps,
)
from models.errors import LockedError
from models.occurrence import LOOKBACK
from models.operation_state import Queue
from operations.rescue import RESEND_AFTER
from scheduler_server import LOCKED_AGAIN, Scheduler
from settings import read_settings
from telemetry import Event
from tests.database import execute
from tests.flying import NOW, assert_all_sent_once, fly, make_due
from tests.integration.dispatch.test_noticer import fail
from tests.integration.dispatch.test_task_outbox import Case
from tests.scheduling import (
    MINUTE,
    FakeSender,
    add_mails,
    add_steps,
    backdate,
    edit,
    edit_action,
    fetch_action,
    fetch_all,
    get,
    get_now,
    make_dispatcher,
    make_scheduler,
    must_claim,
    post,
    put,
)

pytestmark = pytest.mark.usefixtures("small_app")

MINUTELY = {"cron_rule": "* * * * *"}


@pytest.fixture
def engine(postgres_engine: sa.Engine) -> sa.Engine:
    """Give the one of PostgreSQL: SQLite locks no rows."""
    return postgres_engine


@pytest.fixture
def hasty(postgres_url: str) -> Iterator[sa.Engine]:
    """Give an engine that waits for no lock."""
    engine = make_engine(postgres_url, lock_timeout=timedelta(milliseconds=30))
    yield engine
    engine.dispose()


@contextmanager
def locking(
    engine: sa.Engine, table: sa.Table, *where: sa.ColumnElement[bool]
) -> Iterator[None]:
    """Keep rows locked, as a shell in which somebody forgot to commit."""
    with engine.connect() as shell:
        shell.execute(sa.select(table).where(*where).with_for_update())
        yield
        shell.rollback()


def make_leading(engine: sa.Engine) -> Scheduler:
    """Return a scheduler that leads."""
    scheduler = make_scheduler(engine, FakeSender())
    assert scheduler.leader.hold()
    return scheduler


def hold_action(engine: sa.Engine, uid: str) -> AbstractContextManager[None]:
    return locking(engine, scheduled_actions, scheduled_actions.c.uid == uid)


def hold_operation(engine: sa.Engine, id_: object) -> AbstractContextManager[None]:
    return locking(engine, operations, operations.c.id == id_)


def add_lost(engine: sa.Engine, number: int, **values: Any) -> UUID:
    """Add an operation whose worker was lost long ago."""
    lost = put(engine, number, **values)
    must_claim(engine, lost)
    long_ago = get_now(engine) - 10 * RESEND_AFTER
    edit(engine, lost, lease_expires_at=long_ago)
    return lost


@pytest.mark.parametrize("place", [0, 3, 6])
def test_locked_action_is_left_out_of_a_tick(
    engine: sa.Engine, hasty: sa.Engine, place: int
):
    """
    All others are decided, recorded and sent at once, those of its chunk, too; each
    tick tells of it, and the first without the lock decides about it.
    """
    uids = make_due(engine, 7)
    sender = FakeSender()
    dispatcher = make_dispatcher(hasty, sender)

    with hold_action(engine, uids[place]), capture_logs() as logs:
        report = fly(dispatcher, hasty)
        again = fly(dispatcher, hasty)

    assert (7, 6, 6, 1) == (report.due, report.recorded, report.sent, report.locked)
    assert (1, 0, 1) == (again.due, again.recorded, again.locked)
    told = [Event.LOCK_HELD, Event.ROWS_LEFT_OUT, Event.ROWS_LEFT_OUT]
    assert told == [each["event"] for each in logs]
    assert ("scheduled_actions", uids[place]) == (logs[1]["table"], logs[1]["first"])
    assert uids[place] not in {row.action_uid for row in fetch_all(engine)}

    report = fly(dispatcher, hasty)

    assert (1, 1, 1, 0) == (report.due, report.recorded, report.sent, report.locked)
    assert_all_sent_once(engine, sender, 7)


def test_lock_that_lasts_is_waited_for_once(engine: sa.Engine, hasty: sa.Engine):
    """Not for each chunk, nor at each tick; when it is gone, locks are waited for."""
    uids = make_due(engine, 9)
    dispatcher = make_dispatcher(hasty)

    with capture_logs() as logs:
        with hold_action(engine, uids[4]), hold_action(engine, uids[8]):
            fly(dispatcher, hasty)
            fly(dispatcher, hasty)
        for _ in range(2):
            fly(dispatcher, hasty)
        edit_action(engine, uids[4], next_due_at=NOW)
        with hold_action(engine, uids[4]):
            fly(dispatcher, hasty)

    held = [each for each in logs if each["event"] == Event.LOCK_HELD]
    assert 2 == len(held)
    assert "minutehand doctor" in held[0]["error"]


def test_events_that_come_while_an_action_is_locked_are_decided_later(
    engine: sa.Engine, hasty: sa.Engine
):
    """Rows of event-driven actions are locked ahead, which waits for nobody either."""
    uids = make_due(engine, 3, wakes=1)
    dispatcher = make_dispatcher(hasty)

    with hold_action(engine, uids[1]), capture_logs():
        report = fly(dispatcher, hasty)

    assert (2, 1) == (report.recorded, report.locked)


def test_locked_operation_is_marked_later(engine: sa.Engine, hasty: sa.Engine):
    """
    What was sent is sent no second time for it, all others are marked, and ticks go on.
    """
    uids = make_due(engine, 5)
    sender = FakeSender()
    dispatcher = make_dispatcher(hasty, sender)
    made = put(engine)

    with hold_operation(engine, made), capture_logs() as logs:
        assert 1 == dispatcher.send_waiting()
        report = fly(dispatcher, hasty)
        for _ in range(3):
            assert 0 == dispatcher.send_waiting()

        assert (5, 5) == (report.recorded, report.sent)
        waiting = [row.id for row in fetch_all(engine) if row.state == "pending"]
        assert [made] == waiting

    assert len(uids) + 1 == len(sender.ids)
    told = [Event.LOCK_HELD, Event.ROWS_LEFT_OUT, Event.ROWS_LEFT_OUT]
    assert told == [each["event"] for each in logs]
    assert 0 == dispatcher.send_waiting()
    assert_all_sent_once(engine, sender, 6)


def test_what_is_locked_is_quarantined_later(engine: sa.Engine, hasty: sa.Engine):
    """An action that cannot be read waits for no lock."""
    uids = make_due(engine, 3)
    edit_action(engine, uids[1], timing="{")
    dispatcher = make_dispatcher(hasty)

    with hold_action(engine, uids[1]), capture_logs():
        assert 2 == fly(dispatcher, hasty).recorded
    assert fetch_action(engine, uids[1]).quarantined_at is None

    with capture_logs():
        fly(dispatcher, hasty)

    assert fetch_action(engine, uids[1]).quarantined_at is not None


def test_lease_that_is_locked_stops_the_tick(engine: sa.Engine, hasty: sa.Engine):
    """Nobody can tell who leads: nothing is written, and the next wake tries again."""
    make_due(engine, 3)
    dispatcher = make_dispatcher(hasty)

    with (
        locking(engine, leases),
        capture_logs(),
        pytest.raises(LockedError, match="minutehand doctor"),
    ):
        fly(dispatcher, hasty)

    assert 3 == fly(dispatcher, hasty).recorded


def test_what_a_tick_left_out_is_for_a_tick_soon(engine: sa.Engine, hasty: sa.Engine):
    """Not for the next minute, and not at each wake."""
    uid = post(engine, when=MINUTELY).uid
    backdate(engine, uid)
    scheduler = make_leading(hasty)

    with hold_action(engine, uid), capture_logs():
        now = get_now(engine)
        report = scheduler.tick(now)

    assert 1 == report.locked
    assert scheduler.next_tick_at is not None
    assert scheduler.next_tick_at <= now + LOCKED_AGAIN


def test_look_leaves_what_is_locked_to_that_tick(engine: sa.Engine, hasty: sa.Engine):
    """Or it would look again at once, and again, while the lock lasts."""
    scheduler = make_leading(hasty)
    now = get_now(engine).replace(second=0, microsecond=0)
    scheduler.tick(now - MINUTE)
    due = {"next_due_at": now, "queue": Queue.TASKS}
    uids = make_due(engine, 2, when=MINUTELY, **due)
    scheduler.next_tick_at = now + MINUTE

    with hold_action(engine, uids[0]), capture_logs():
        report = scheduler.look(now)

    assert (1, 1) == (report.recorded, report.locked)
    assert scheduler.next_look_at is None
    assert now + LOCKED_AGAIN == scheduler.next_tick_at


def test_what_is_locked_beyond_the_look_back_runs_all_the_same(
    engine: sa.Engine, hasty: sa.Engine
):
    """Ticks went on: nobody was away, so nothing was missed."""
    (uid,) = make_due(engine, 1, when=MINUTELY)
    scheduler = make_leading(hasty)

    with hold_action(engine, uid), capture_logs():
        for number in range(4):
            assert 1 == scheduler.tick(NOW + number * LOOKBACK).locked
        scheduler.tick(NOW + 4 * LOOKBACK - MINUTE)
    with capture_logs():
        scheduler.tick(NOW + 4 * LOOKBACK)

    rows = fetch_all(engine)
    assert [NOW + n * MINUTE for n in range(21)] == [row.occurrence for row in rows]
    assert {"queued"} == {row.state for row in rows}


@pytest.mark.parametrize("held", ["action", "app", "installation"])
def test_pause_that_is_locked_ends_later(
    engine: sa.Engine, hasty: sa.Engine, held: str
):
    """The others end, if they can be told apart; the tick decides in any case."""
    over = get_now(engine) - timedelta(minutes=1)
    pause = {"paused_at": over, "paused_until": over, "paused_by": "ann"}
    uids = make_due(engine, 4)
    for uid in uids[:2]:
        edit_action(engine, uid, pause_scope="action", **pause)
    execute(engine, sa.update(small_apps).values(**pause))
    shells = {
        "action": hold_action(engine, uids[0]),
        "app": locking(engine, small_apps, small_apps.c.uid == "app"),
        "installation": locking(engine, installation),
    }
    scheduler = make_leading(hasty)

    with shells[held], capture_logs() as logs:
        report = scheduler.tick(get_now(engine))
        paused = [uid for uid in uids if fetch_action(engine, uid).paused_at]

    expected = {"action": uids[:1], "app": [], "installation": uids[:2]}[held]
    assert expected == paused
    told = Event.PAUSE_ENDED in {each["event"] for each in logs}
    assert (held != "installation") == told
    assert 2 == report.due
    scheduler.tick(get_now(engine))
    assert {None} == {fetch_action(engine, uid).paused_at for uid in uids}


def test_locked_operation_holds_up_the_rescue_of_no_other(
    engine: sa.Engine, hasty: sa.Engine
):
    """Those of lost workers go back, and lost messages are sent again."""
    long_ago = get_now(engine) - 10 * RESEND_AFTER
    lost = [add_lost(engine, number) for number in range(2)]
    unheard = [
        put(engine, number, state="queued", sent_at=long_ago, sends=1)
        for number in (2, 3)
    ]
    dispatcher = make_dispatcher(hasty)

    with (
        hold_operation(engine, lost[0]),
        hold_operation(engine, unheard[0]),
        capture_logs(),
    ):
        assert 2 == dispatcher.rescue()

    states = [get(engine, each).state for each in (*lost, *unheard)]
    assert ["running", "pending", "queued", "pending"] == states


def test_locked_action_that_follows_a_lost_run_holds_up_the_rescue_of_no_other(
    engine: sa.Engine, hasty: sa.Engine
):
    """The run that it follows fails when its row is free."""
    first = post(engine, name="first").uid
    after = {"after_action": "first", "on": "failure"}
    follower = post(engine, name="second", when=after, overlap="skip").uid
    lost = [
        add_lost(engine, 0, action_uid=first, attempts_allowed=1),
        add_lost(engine, 1, attempts_allowed=1),
    ]
    dispatcher = make_dispatcher(hasty)

    with hold_action(engine, follower), capture_logs():
        assert 1 == dispatcher.rescue()
    assert 1 == dispatcher.rescue()

    assert ["failed"] * 2 == [get(engine, each).state for each in lost]
    assert follower in {row.action_uid for row in fetch_all(engine)}


@pytest.mark.parametrize("table", [operation_steps, deliveries])
def test_locked_step_of_a_lost_run_holds_up_the_rescue_of_no_other(
    engine: sa.Engine, hasty: sa.Engine, table: sa.Table
):
    """Nor does a mail: the run fails with them, when all are free."""
    lost = [add_lost(engine, n, attempts_allowed=1) for n in range(2)]
    steps = [{"name": name, "state": "pending"} for name in ("refresh", "send_email")]
    for each in lost:
        add_steps(engine, each, *steps)
        add_mails(engine, each, {"ann@example.com": "sending"})
    last = {operation_steps: operation_steps.c.position == 1}
    held = table.c.operation_id == lost[0], last.get(table, sa.true())
    dispatcher = make_dispatcher(hasty)

    with locking(engine, table, *held), capture_logs():
        rescued = dispatcher.rescue()

    assert ["running", "failed"] == [get(engine, each).state for each in lost]
    assert (1, 1) == (rescued, dispatcher.rescue())
    assert "failed" == get(engine, lost[0]).state


def test_locked_action_keeps_no_other_from_its_rest(
    engine: sa.Engine, hasty: sa.Engine, monkeypatch: pytest.MonkeyPatch
):
    """It rests when it is free, and takes the place of none while that takes long."""
    one = watching._TIRED_AND_FREE.limit(1)
    monkeypatch.setattr(watching, "_TIRED_AND_FREE", one)
    uids = [post(engine, name=n, rest_after=1).uid for n in ("one", "two")]
    for uid in uids:
        fail(engine, 0, action_uid=uid)
    scheduler = make_leading(hasty)
    rester = Rester(hasty, scheduler.leader, Noticer(hasty, scheduler.leader))

    with hold_action(engine, min(uids)):
        assert 1 == rester.look()
        edit_all = sa.update(operations).values(
            finished_at=operations.c.finished_at - MINUTE
        )
        execute(engine, edit_all)
        assert 0 == rester.look()
    assert 1 == rester.look()


@pytest.mark.parametrize("part", ["operation", "step"])
def test_locked_operation_of_a_task_is_marked_later(
    engine: sa.Engine, hasty: sa.Engine, part: str
):
    """Or that has a locked step: its broker has it once; another is marked."""
    case = Case(hasty)
    made = [case.run(name=name, wait=False, within=None) for name in ("one", "two")]
    add_steps(engine, made[0], {"name": "run_task", "state": "pending"})
    step = operation_steps.c.operation_id == made[0]
    shells = {
        "operation": hold_operation(engine, made[0]),
        "step": locking(engine, operation_steps, step),
    }

    with shells[part], capture_logs():
        case.send()
        states = [get(engine, each).state for each in made]
    case.send()

    assert ["pending", "succeeded"] == states
    assert "succeeded" == get(engine, made[0]).state
    assert 2 == len(case.couriers.sent)


def test_locked_action_that_follows_holds_up_no_tick(
    engine: sa.Engine, hasty: sa.Engine
):
    """The end that it waits for is marked with its run, when it is free."""
    case = Case(hasty)
    ended = case.run(name="first", wait=False, within=None)
    after = {"after_action": "first"}
    follower = post(engine, name="second", when=after, overlap="skip").uid
    make_due(engine, 3)

    with hold_action(engine, follower), capture_logs():
        case.send()
        assert 3 == fly(case.dispatcher, hasty).recorded
        assert "pending" == get(engine, ended).state
    case.send()
    fly(case.dispatcher, hasty)
    case.send()

    assert "succeeded" == get(engine, ended).state
    assert [follower] == [
        row.action_uid for row in fetch_all(engine) if row.trigger == "action"
    ]
    assert 1 == [task.name for task in case.couriers.sent].count("first")


def test_scheduler_waits_for_a_lock_for_less_than_two_seconds(postgres_url: str):
    """And longer than PostgreSQL until it looks for a deadlock."""
    given = {"MINUTEHAND_DATABASE_URL": postgres_url}
    scheduler = Scheduler.make(read_settings(given, env_file=None))

    waits = "select current_setting('lock_timeout')::interval"
    with reading(scheduler.engine) as connection:
        lasts = connection.exec_driver_sql(waits).scalar_one()
    scheduler.engine.dispose()

    assert timedelta(seconds=1) < lasts < timedelta(seconds=2)


def test_locked_action_holds_up_no_chain_of_others(engine: sa.Engine, hasty: sa.Engine):
    """However long it is locked: what follows the end of a task is recorded with it."""
    case = Case(hasty)
    ended = case.run(name="first", wait=False, within=None)
    after = {"after_action": "first"}
    follower = post(engine, name="second", when=after, overlap="skip").uid
    (other,) = make_due(engine, 1)

    with hold_action(engine, other), capture_logs():
        assert 1 == fly(case.dispatcher, hasty).locked
        case.send()
        assert "succeeded" == get(engine, ended).state
        rows = fetch_all(engine)

    assert [follower] == [row.action_uid for row in rows if row.trigger == "action"]
