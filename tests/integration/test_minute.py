"""The leader keeps its minute, whatever waits; the tick comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
import sqlalchemy as sa

from actions.lease import LEASE_NAME
from actions.tick import TickReport
from actions.zone_changes import fetch_changed
from dispatch.due_pauses import has_ended_pause
from models.database.tables import leases, operations, scheduled_actions, zones
from models.fields.zone import read_zone_data
from models.operation_state import Queue
from operations.rescue import LOST_AFTER
from operations.sending.order import Message
from overview.auditing import audit_all
from scheduler_server import Scheduler
from tests.database import execute, note_walks, read_by
from tests.integration.clocked import SEVEN, World, make_scheduler
from tests.integration.dispatch.backfills.backfilling import post_daily, start
from tests.scheduling import (
    MINUTE,
    FakeSender,
    add_app,
    copy_action,
    edit,
    edit_action,
    fetch_all,
    get,
    make_operation,
    post,
    record_all,
)


class SlowSender(FakeSender):
    """A broker that takes two messages a second."""

    world: World

    def send(self, messages: Sequence[Message]) -> None:
        """Take *messages*, and the time for it."""
        super().send(messages)
        self.world.now += len(messages) / 2


@pytest.fixture
def scheduler(world_engine: sa.Engine, world: World) -> Scheduler:
    """Give a scheduler that sends one or two messages at a time, a second each."""
    add_app(world_engine)
    sender = SlowSender(empty={Queue.QUICK})
    sender.world = world
    settings = {"CHUNK": "1", "NOTICE_MAIL": "ops@example.org"}
    return make_scheduler(world_engine, world, sender, **settings)


def live(scheduler: Scheduler, world: World, minutes: int) -> list[TickReport]:
    """Wake as the scheduler does until there were so many ticks; return them."""
    ticks: list[TickReport] = []
    scheduler.on_tick.append(ticks.append)
    while len(ticks) < minutes:
        pause_s = scheduler.wake()  # which lets time pass by itself
        # at least as long as a look at the database takes
        world.now += max(0.01, pause_s)
    return ticks


def find_delays(ticks: Sequence[TickReport]) -> list[float]:
    """Return how many seconds each tick came after the minute that it was for."""
    return [
        (tick.now - (SEVEN + number * MINUTE)).total_seconds()
        for number, tick in enumerate(ticks)
    ]


def test_what_waits_is_sent_between_ticks(scheduler: Scheduler, world: World):
    """It takes almost three minutes; each tick waits for one part at most."""
    waiting = [make_operation(number) for number in range(300)]
    record_all(scheduler.engine, *waiting)

    ticks = live(scheduler, world, minutes=4)

    # two messages are a second, and a look has some statements
    assert max(find_delays(ticks)) < 1.1
    assert 0 not in {row.sends for row in fetch_all(scheduler.engine)}


#: Indexes of a few rows of a table that grows: to walk one of them is cheap.
OF_FEW = {
    "ix_operations_first_lane",
    "ix_operations_heavy",
    "ix_scheduled_actions_resting",
}


def test_sqlite_walks_no_table_that_grows(scheduler: Scheduler, world: World):
    """It walked all actions every five seconds, and each minute all mails."""
    walked = note_walks(scheduler.engine)
    record_all(scheduler.engine, *map(make_operation, range(3)))

    live(scheduler, world, minutes=2)

    assert "ix_operations_heavy" in walked
    assert set() == walked - OF_FEW


def test_tick_that_takes_longer_than_a_minute_lets_the_next_one_begin(
    scheduler: Scheduler, world: World
):
    """
    What it leaves is decided by that; meanwhile nothing says that all was decided, and
    what was lost is rescued.
    """
    lost = make_operation()
    record_all(scheduler.engine, lost)
    edit(scheduler.engine, lost.id, state="queued", sent_at=SEVEN - LOST_AFTER)
    sends: list[int] = []
    scheduler.on_tick.append(
        lambda _tick: sends.append(get(scheduler.engine, lost.id).sends)
    )
    uid = post(scheduler.engine, when={"cron_rule": "0 7 * * *"}).uid
    edit_action(scheduler.engine, uid, next_due_at=SEVEN, effective_from=SEVEN)
    copy_action(scheduler.engine, uid, 149)

    ticks = live(scheduler, world, minutes=3)

    assert max(find_delays(ticks)) <= 1
    assert [True, False, False] == [tick.is_cut for tick in ticks]
    assert [0, 1, 1] == sends
    assert 150 == sum(tick.recorded for tick in ticks)
    assert {"queued"} == {row.state for row in fetch_all(scheduler.engine)}


def test_all_that_a_leader_does_at_once_lets_the_ticks_begin(
    scheduler: Scheduler, world: World
):
    """
    Operations that wait, lost messages, failures to report, pauses that end, a
    backfill, a clock that was set back, and a zone that changed: no tick is late, and
    all of it is done.
    """
    engine = scheduler.engine
    uid = post_daily(engine, when={"cron_rule": "0 8 * * *"})
    start(engine, uid, at_once=2)
    record_all(engine, *map(make_operation, range(120)))
    for first, values in (
        (1000, {"state": "queued", "sent_at": SEVEN - LOST_AFTER}),
        (2000, {"state": "failed", "finished_at": SEVEN}),
    ):
        ids = record_all(engine, *map(make_operation, range(first, first + 60)))
        those = operations.c.id.in_(ids)
        execute(engine, sa.update(operations).where(those).values(values))
    lease = {"name": LEASE_NAME, "fence": 0, "expires_at": SEVEN}
    execute(engine, sa.insert(leases), {**lease, "last_tick_at": SEVEN + MINUTE})
    copy_action(engine, uid, 1200)
    paused = {"paused_at": SEVEN - MINUTE, "paused_until": SEVEN}
    others = scheduled_actions.c.uid != uid
    execute(engine, sa.update(scheduled_actions).where(others).values(paused))
    execute(engine, sa.update(zones).values(data=read_zone_data("Asia/Tokyo")))

    ticks = live(scheduler, world, minutes=4)

    assert max(find_delays(ticks)) <= 2
    # Nobody takes a message here, so what was sent at first is lost by now, and again.
    rows = fetch_all(engine)
    assert {True: 183, False: 60} == Counter(row.state != "failed" for row in rows)
    assert 0 not in {row.sends for row in rows if row.state != "failed"}
    assert not read_by(engine, has_ended_pause, now=SEVEN)
    assert not read_by(engine, lambda connection: list(fetch_changed(connection)))


def test_end_of_many_pauses_takes_longer_than_the_look_back(
    scheduler: Scheduler, world: World, monkeypatch: pytest.MonkeyPatch
):
    """
    Somebody led all the time, so what was due as they ended is late and runs, whoever
    is written last; and that is no fault.
    """
    monkeypatch.setattr("dispatch.due_pauses.ENDED_AT_ONCE", 1)
    engine = scheduler.engine
    post(engine, uid="daily", when={"cron_rule": "0 7 * * *"})
    edit_action(engine, "daily", next_due_at=SEVEN, effective_from=SEVEN - MINUTE)
    copy_action(engine, "daily", 34)
    paused = {"paused_at": SEVEN - MINUTE, "paused_until": SEVEN}
    execute(engine, sa.update(scheduled_actions).values(paused))
    world.statement_s = 0.25

    live(scheduler, world, minutes=9)

    rows = sorted(fetch_all(engine), key=lambda row: row.recorded_at)
    assert rows[-1].recorded_at - SEVEN > scheduler.settings.lookback
    assert {SEVEN: 35} == Counter(row.occurrence for row in rows)
    assert "missed" not in {row.state for row in rows}
    lookback = scheduler.settings.lookback
    audit = audit_all(engine, since=SEVEN, until=None, app=None, lookback=lookback)
    assert (35, ()) == (audit.audited, audit.faults)
