"""Between two ticks the scheduler looks only for what is due at its second."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa

from actions.due_rows import fetch_next_look
from actions.tick import run_look
from models.operation_state import Queue, Reason
from operations.rescue import LOST_AFTER
from scheduler_server import Scheduler
from tests.database import read_by
from tests.integration.clocked import SEVEN, World, make_scheduler
from tests.integration.test_minute import SlowSender
from tests.scheduling import (
    MINUTE,
    SECOND,
    add_app,
    add_event,
    at,
    copy_action,
    edit,
    edit_action,
    fetch_all,
    get,
    make_dispatcher,
    make_operation,
    post,
    post_at,
    record_all,
    tick,
)

MAIL = {"send_email": {"template": "hello"}}


@pytest.fixture
def seconds_engine(world_engine: sa.Engine) -> sa.Engine:
    """Give the engine of *world*, with a small app."""
    add_app(world_engine)
    return world_engine


def live(scheduler: Scheduler, world: World, *, until: float) -> None:
    """Wake as the scheduler does until *world* is so many seconds old."""
    while world.now < until:
        pause_s = scheduler.wake()
        world.now += max(0.01, pause_s)


def post_every(engine: sa.Engine, every: str, **changes: Any) -> str:
    """Post a task that is due so often since SEVEN, whatever the time is."""
    when = {"every": every, "anchor": SEVEN.isoformat()}
    uid = post(engine, when=when, **changes).uid
    edit_action(engine, uid, next_due_at=SEVEN, effective_from=SEVEN)
    return uid


def test_each_second_is_decided_at_its_second(seconds_engine: sa.Engine, world: World):
    """Once, with and without a tick, and before the next one."""
    post_every(seconds_engine, "PT1S")

    live(make_scheduler(seconds_engine, world), world, until=61)

    rows = fetch_all(seconds_engine)
    expected = [SEVEN + n * SECOND for n in range(len(rows))]
    assert len(rows) >= 60
    assert expected == [row.occurrence for row in rows]
    assert max(row.recorded_at - row.occurrence for row in rows) < SECOND


def test_only_seconds_are_looked_for(seconds_engine: sa.Engine, world: World):
    """A mail of the same rule, a user's event and whole minutes wait for the tick."""
    by_second = {"calendar": "*:*:10,40"}
    uids = {
        name: post(seconds_engine, name=name, when=when, operations=operations).uid
        for name, when, operations in (
            ("mail", by_second, MAIL),
            ("task", by_second, {"run_task": {"name": "tests.nothing"}}),
            ("minute", {"cron_rule": "* * * * *"}, MAIL),
            ("event", {"after": "app.x", "delay": "PT10S"}, MAIL),
        )
    }
    scheduler = make_scheduler(seconds_engine, world)
    scheduler.wake()
    add_event(seconds_engine, "ann", SEVEN, name="app.x")

    live(scheduler, world, until=59)

    found = Counter(row.action_uid for row in fetch_all(seconds_engine))
    assert 2 == found[uids["task"]]
    assert 0 == found[uids["mail"]] == found[uids["event"]]


def test_nothing_is_looked_for_where_nobody_asks(
    seconds_engine: sa.Engine, world: World
):
    """The scheduler knows after its tick, and sleeps as ever."""
    post(seconds_engine, when={"cron_rule": "* * * * *"})
    post(seconds_engine, name="mail", when={"calendar": "*:*:0/5"}, operations=MAIL)
    scheduler = make_scheduler(seconds_engine, world)

    scheduler.wake()

    assert scheduler.next_look_at is None


def test_successor_goes_on_in_the_middle_of_a_minute(
    seconds_engine: sa.Engine, world: World
):
    """
    Its first wake is a tick, which finds what nobody looked for: the latest runs, and
    one row tells of the others.
    """
    post_every(seconds_engine, "PT5S")
    first = make_scheduler(seconds_engine, world)
    second = make_scheduler(seconds_engine, world)
    while world.now < 21:
        pause_s = first.wake()
        world.now += max(0.01, pause_s)
        second.wake()
    first.stop()
    world.now = 42

    live(second, world, until=56)

    rows = fetch_all(seconds_engine)
    ran = [row.occurrence for row in rows if row.reason != Reason.OVERTAKEN]
    (overtaken,) = (row for row in rows if row.reason == Reason.OVERTAKEN)
    assert [SEVEN + n * SECOND for n in (0, 5, 10, 15, 20, 40, 45, 50, 55)] == ran
    assert ("skipped", 3) == (overtaken.state, overtaken.details["count"])
    assert SEVEN + 25 * SECOND == overtaken.occurrence
    assert {1, 2} == {row.fence for row in rows}


def test_clock_set_back_a_little_doubles_nothing(
    seconds_engine: sa.Engine, world: World
):
    """Until the clock has caught up, there is nothing to look for."""
    post_every(seconds_engine, "PT1S")
    scheduler = make_scheduler(seconds_engine, world)
    live(scheduler, world, until=40)
    world.now = 25

    live(scheduler, world, until=70)

    rows = fetch_all(seconds_engine)
    expected = [SEVEN + n * SECOND for n in range(len(rows))]
    assert expected == [row.occurrence for row in rows]


def test_looks_that_are_always_late_leave_time_for_the_rest(
    seconds_engine: sa.Engine, world: World
):
    """
    Sending takes longer than a second: what was lost is rescued all the same, and each
    minute has its tick.
    """
    uid = post_every(seconds_engine, "PT1S", overlap="allow")
    copy_action(seconds_engine, uid, 3)
    lost = make_operation()
    record_all(seconds_engine, lost)
    edit(seconds_engine, lost.id, state="queued", sent_at=SEVEN - LOST_AFTER)
    sender = SlowSender(empty={Queue.QUICK})
    sender.world = world

    scheduler = make_scheduler(seconds_engine, world, sender)
    ticks: list[datetime] = []
    scheduler.on_tick.append(lambda report: ticks.append(report.now))

    live(scheduler, world, until=130)

    assert [0, 1, 2] == [(each - SEVEN) // MINUTE for each in ticks]
    assert max(each.second for each in ticks) <= 3  # a look takes two
    # nobody takes it, so two minutes later it is lost again
    assert get(seconds_engine, lost.id).sends in {1, 2}
    assert "overtaken" in {row.reason for row in fetch_all(seconds_engine)}


def test_a_look_leaves_to_the_tick_what_is_of_the_tick(engine: sa.Engine):
    """What a tick that gave way has left, however it is due; and what is due later."""
    add_app(engine)
    left = post_at(engine, at("07:00"), when={"calendar": "*:*:0/20"})
    post_at(engine, at("07:00:20"), name="mail", operations=MAIL)
    due = post_at(engine, at("07:00:20"), name="due", when={"calendar": "*:*:20,40"})
    dispatcher = make_dispatcher(engine)
    bounds = {"since": at("07:00:05"), "until": at("07:01")}

    found = read_by(engine, fetch_next_look, **bounds)
    early = run_look(
        at("07:00:19"), since=bounds["since"], engine=engine, dispatcher=dispatcher
    )
    report = run_look(
        at("07:00:45"), since=bounds["since"], engine=engine, dispatcher=dispatcher
    )

    assert at("07:00:20") == found
    assert (0, 1, 2) == (early.due, report.due, report.recorded)
    assert {due} == {row.action_uid for row in fetch_all(engine)}
    tick(dispatcher, at("07:01"))
    assert left in {row.action_uid for row in fetch_all(engine)}
