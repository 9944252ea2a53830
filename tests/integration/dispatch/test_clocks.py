"""The database's clock is set back: everything follows, in parts, beside ticks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from actions.lease import (
    Leader,
    LeadershipLostError,
    SetBack,
    get_last_tick_at,
    get_set_back,
    record_set_back,
    record_tick,
)
from actions.pausing.pause_and_resume import pause_action, resume_action
from actions.pausing.targets import pause_target, resume_target
from actions.user_events import NewEvent, record_events
from dispatch.bulk.requests import count_bulk
from dispatch.clocks import (
    follow_clock_set_back,
    notice_clock_set_back,
    read_compared_clock,
)
from models.back_off import LEASE
from models.database.engine import make_engine, reading, writing
from models.database.transaction import AtOnce
from models.fields.instants import format_instant
from models.requests.bulk_changes import BulkChangeModel, BulkKind, ChosenActionsModel
from models.requests.operations import OperationFilterModel
from operations.claiming.claim import await_task, retry_later
from operations.claiming.claim import claim_operation as claim
from operations.sending.order import fetch_sendable, mark_sent
from overview.doctor.checks.scheduler import look_at_set_back
from overview.doctor.finding import Finding, Health, View
from tests.database import read_by, write_by
from tests.integration.clocked import SEVEN, World, make_scheduler
from tests.scheduling import (
    HOUR,
    MINUTE,
    MINUTELY,
    add_app,
    add_revision,
    copy_action,
    edit_action,
    fetch_action,
    fetch_all,
    get,
    lead,
    make_dispatcher,
    make_operation,
    make_settings,
    must_claim,
    post,
    record_all,
    tick,
)


@pytest.fixture
def world() -> World:
    """Give the clocks: the database's is an hour fast, and statements take no time."""
    made = World()
    made.fast_by, made.statement_s = HOUR, 0
    return made


@pytest.fixture
def engine(world_engine: sa.Engine) -> sa.Engine:
    """Give the engine of *world*."""
    return world_engine


@pytest.fixture
def leader(engine: sa.Engine, world: World) -> Leader:
    """Give a leader, after a tick at eight by the wrong clock."""
    leader = lead(engine, monotonic=world)
    write_by(engine, record_tick, world.read())
    return leader


def set_right(engine: sa.Engine, world: World, leader: Leader) -> None:
    """Set the clock back to seven; *leader* notices at once."""
    world.fast_by = timedelta()
    notice_clock_set_back(engine, leader, now=world.read())


def follow(engine: sa.Engine, leader: Leader) -> bool:
    """Do a small part of what follows."""
    return follow_clock_set_back(engine, leader, lease=LEASE, at_most=2)


@pytest.mark.parametrize(
    ("to", "decided"),
    [
        (SEVEN + HOUR + MINUTE, SEVEN + HOUR),
        (SEVEN + HOUR - MINUTE, SEVEN + HOUR - MINUTE),
    ],
)
def test_clock_set_back_by_less_than_ticks_were_cut_for(
    engine: sa.Engine, leader: Leader, to: datetime, decided: datetime
):
    """It is noticed, too; and what was left undecided does not count as decided."""
    was = SEVEN + HOUR + 2 * MINUTE
    write_by(engine, record_tick, was, is_cut=True)

    notice_clock_set_back(engine, leader, now=to)

    assert SetBack(was, to, recomputed_until="") == read_by(engine, get_set_back)
    assert decided == read_by(engine, get_last_tick_at)
    notice_clock_set_back(engine, leader, now=to + MINUTE)
    assert SetBack(was, to, recomputed_until="") == read_by(engine, get_set_back)


def test_operations_are_dated_back(engine: sa.Engine, world: World, leader: Leader):
    """
    What waits is sent at once, a message counts as sent now, and the lease of a worker
    that died ends in a minute; a task that is waited for keeps its deadline.
    """
    add_revision(engine)
    rows = [make_operation(n) for n in range(7)]
    fresh, busy, sent, running, awaiting, *_others = (each.id for each in rows)
    record_all(engine, *rows)
    with writing(engine) as connection:
        messages = fetch_sendable(connection, limit=9)
        mark_sent(AtOnce(connection), [each for each in messages if each.id == sent])
    claims = {number: must_claim(engine, rows[number].id) for number in (1, 3, 4)}
    with writing(engine) as connection:
        retry_later(connection, claims[1], delay=MINUTE, error="busy")
        await_task(connection, claims[4], within=HOUR, what="a task")
    deadline = get(engine, awaiting).send_at

    set_right(engine, world, leader)
    assert claim(engine, fresh, worker="w") is None
    while follow(engine, leader):
        pass

    assert SEVEN == get(engine, fresh).send_at
    assert SEVEN == get(engine, busy).send_at
    assert SEVEN == get(engine, sent).sent_at
    assert SEVEN + LEASE == get(engine, running).lease_expires_at
    assert deadline == get(engine, awaiting).send_at
    assert {0, 1, 2, 5, 6} == {
        number for number in range(7) if claim(engine, rows[number].id, worker="w")
    }


def test_actions_follow_whoever_leads(engine: sa.Engine, world: World, leader: Leader):
    """Each part is a transaction under the lease; the next leader goes on with it."""
    add_revision(engine, when=MINUTELY)
    edit_action(engine, "daily", next_due_at=SEVEN + HOUR, effective_from=SEVEN)
    uids = ["daily", *copy_action(engine, "daily", 6)]
    set_right(engine, world, leader)

    assert follow(engine, leader)
    other = Leader(engine, monotonic=world)
    assert other.hold()  # the lease is from the future
    with pytest.raises(LeadershipLostError):
        follow(engine, leader)
    parts = 1
    while follow(engine, other):
        parts += 1

    assert 3 == parts
    assert {SEVEN} == {fetch_action(engine, uid).next_due_at for uid in uids}
    assert not follow(engine, other)


def look(engine: sa.Engine, world: World) -> list[Finding]:
    """Return what doctor says of it."""
    with reading(engine) as connection:
        settings = make_settings()
        view = View(connection, settings, world.read())
        return list(look_at_set_back(view))


def test_doctor_tells_until_the_clock_has_caught_up(
    engine: sa.Engine, world: World, leader: Leader
):
    """Since when, by how much, and what that does; also if it is set back again."""
    assert [] == look(engine, world)
    set_right(engine, world, leader)
    [begun] = look(engine, world)
    while follow(engine, leader):
        pass
    [done] = look(engine, world)
    world.fast_by = -HOUR
    notice_clock_set_back(engine, leader, now=world.read())
    [again] = look(engine, world)
    while follow(engine, leader):
        pass
    world.now += 2 * 3600

    assert [] == look(engine, world)
    assert (Health.DOUBTFUL, SEVEN) == (begun.health, begun.since)
    assert "set back by 1 h, to 2026-11-23 07:00:00Z" in begun.detail
    assert "are being computed again" in begun.detail
    assert "were computed again" in done.detail
    assert "set back by 2 h" in again.detail


def live(
    engine: sa.Engine,
    world: World,
    *until: tuple[float, timedelta],
    each_minute: Callable[[int], None] = lambda _minute: None,
    step_s: float = 20,
    **when: str,
) -> list[int]:
    """
    Let a scheduler live through the minutes of an action that is due each second one.

    Args:
        until: How many minutes of the world, and by how much its clock is wrong then.
        each_minute: Called in the middle of each minute of the world, with its number.
        step_s: How long the scheduler sleeps at most.
        when: What the action is due at instead.

    Returns:
        The minutes at which it ticked.
    """
    add_app(engine, ids=["ann"])
    post(engine, uid="daily", when=when or {"cron_rule": "*/2 * * * *"})
    edit_action(engine, "daily", next_due_at=SEVEN, effective_from=SEVEN - HOUR)
    scheduler = make_scheduler(engine, world)
    ticks: list[datetime] = []
    scheduler.on_tick.append(lambda report: ticks.append(report.now))
    done = -1
    for minutes, world.fast_by in until:
        while world.now < minutes * 60:
            pause_s = scheduler.wake()
            left_s = 60 - world.read().timestamp() % 60
            # nothing else happens meanwhile, and a lease lasts longer
            world.now += max(0.01, min(left_s, step_s) if pause_s else 0.01)
            if world.now >= (done + 1) * 60 + 30:
                done += 1
                each_minute(done)
    return [round((each - SEVEN) / MINUTE) for each in ticks]


def fetch_minutes(engine: sa.Engine) -> list[tuple[int, str]]:
    """Return the minute of each occurrence, and what became of it."""
    rows = fetch_all(engine)
    return [((row.occurrence - SEVEN) // MINUTE, row.state) for row in rows]


def test_ticks_go_on_at_once(engine: sa.Engine, world: World):
    """
    The hour that the clock shows a second time has all its ticks, and runs nothing of
    what ran before a second time.
    """
    ticks = live(engine, world, (5, timedelta()), (10, -3 * MINUTE))

    assert [0, 1, 2, 3, 4, 2, 3, 4, 5, 6] == ticks
    assert [0, 2, 4, 6] == [minute for minute, _state in fetch_minutes(engine)]


def test_what_ran_before_is_not_missed_when_the_clock_comes_right(
    engine: sa.Engine, world: World
):
    """What was due later, while the clock was wrong, is missed once it comes right."""
    live(engine, world, (9, timedelta()), (10, -8 * MINUTE), (22, timedelta()))

    ran = [(minute, "queued") for minute in (0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20)]
    assert ran == fetch_minutes(engine)


def test_who_was_paused_meanwhile_misses_nothing_of_before(
    engine: sa.Engine, world: World
):
    """A resume is a revision, but what ran before with the same rule has run."""

    def pause(minute: int) -> None:
        if minute == 10:  # the clock shows two and a half
            with writing(engine) as connection:
                assert pause_action(connection, "daily")
                assert resume_action(connection, "daily")

    live(
        *(engine, world, (9, timedelta()), (12, -8 * MINUTE), (22, timedelta())),
        each_minute=pause,
    )

    ran = [(minute, "queued") for minute in range(0, 22, 2)]
    assert ran == fetch_minutes(engine)


def test_what_jitter_delayed_is_not_missed_for_it(engine: sa.Engine):
    """The last that was decided before was due some minutes after its occurrence."""
    add_app(engine)
    post(engine, uid="daily", when={"cron_rule": "*/10 * * * *"}, jitter="PT9M")
    edit_action(engine, "daily", next_due_at=SEVEN, effective_from=SEVEN)
    dispatcher = make_dispatcher(engine)
    for minute in range(30):
        tick(dispatcher, SEVEN + minute * MINUTE)
    write_by(engine, record_set_back, SetBack(SEVEN + HOUR, SEVEN, None))
    edit_action(engine, "daily", next_due_at=SEVEN)

    tick(dispatcher, SEVEN + 40 * MINUTE)

    assert [0, 10, 20, 30] == [minute for minute, _state in fetch_minutes(engine)]


def test_app_is_paused_with_what_was_posted_in_the_future(
    engine: sa.Engine, world: World
):
    """Its actions, posted before the clock was set back, are paused and resumed."""
    add_app(engine)
    post(engine, uid="daily")
    world.fast_by = timedelta()

    write_by(engine, pause_target, "app")
    paused = fetch_action(engine, "daily").paused_at
    write_by(engine, resume_target, "app")

    assert (SEVEN, None) == (paused, fetch_action(engine, "daily").paused_at)


def test_many_are_changed_with_what_is_of_the_future(engine: sa.Engine, world: World):
    """Actions and operations from before the clock was set back are among them."""
    add_app(engine)
    post(engine, uid="daily")
    record_all(engine, make_operation())
    world.fast_by = timedelta()

    with reading(engine) as connection:
        counted = [
            count_bulk(
                connection, BulkChangeModel(kind=kind, filter=every, dry_run=True)
            ).total
            for kind, every in (
                (BulkKind.PAUSE, ChosenActionsModel()),
                (BulkKind.CANCEL, OperationFilterModel()),
            )
        ]

    assert [1, 1] == counted


def test_another_rule_misses_what_the_clock_leapt_over(engine: sa.Engine, world: World):
    """What ran before with another rule says nothing of it."""

    def edit(minute: int) -> None:
        if minute == 10:
            post(
                engine,
                uid="daily",
                when={"cron_rule": "1-59/2 * * * *"},
                replace_it=True,
            )

    live(
        *(engine, world, (9, timedelta()), (12, -8 * MINUTE), (16, timedelta())),
        each_minute=edit,
    )

    states = dict(fetch_minutes(engine))
    assert {5: "missed"} == {
        at: each for at, each in states.items() if each == "missed"
    }


def test_events_of_before_are_not_missed_when_the_clock_comes_right(
    engine: sa.Engine, world: World
):
    """
    One that comes while the clock is wrong wakes the action for the time that the clock
    shows then; what it had decided before lies after that, and was not missed.
    """

    def happen(minute: int) -> None:
        if minute in {1, 3, 8, 9}:
            write_by(engine, record_events, [NewEvent("app", "app.x", "ann")])

    live(
        *(engine, world, (8.9, timedelta()), (9.9, -8.1 * MINUTE), (14, timedelta())),
        each_minute=happen,
        step_s=5,
        on="app.x",
    )

    ran = [(1, "queued"), (3, "queued"), (8, "queued")]
    assert sorted([(1, "missed"), *ran]) == sorted(fetch_minutes(engine))
    assert [1] == [row.details["count"] for row in fetch_all(engine) if row.details]


def test_only_what_is_new_is_missed_when_the_clock_comes_right_late(
    engine: sa.Engine, world: World
):
    """Nobody led then; one row begins after the last occurrence that was decided."""
    live(engine, world, (9, timedelta()), (10, -8 * MINUTE), (11, 9 * MINUTE))

    ran = [(minute, "queued") for minute in (0, 2, 4, 6, 8)]
    missed, *rest = fetch_minutes(engine)[5:]
    assert ran == fetch_minutes(engine)[:5]
    assert (missed, rest) == ((10, "missed"), [(16, "queued"), (18, "queued")])


def test_what_ran_while_the_clock_was_ahead_hides_no_outage(engine: sa.Engine):
    """It is of the future; what nobody decided before now is missed."""
    add_revision(engine, when={"cron_rule": "0 * * * *"})
    far = SEVEN + timedelta(days=60)
    edit_action(engine, "daily", next_due_at=far, effective_from=SEVEN)
    dispatcher = make_dispatcher(engine)
    tick(dispatcher, far)
    write_by(engine, record_set_back, SetBack(far + MINUTE, SEVEN, None))
    edit_action(engine, "daily", next_due_at=SEVEN)

    tick(dispatcher, SEVEN + HOUR / 2)

    missed, ran = fetch_all(engine)
    assert [(SEVEN, "missed"), (far, "queued")] == [
        (row.occurrence, row.state) for row in (missed, ran)
    ]
    assert SEVEN + HOUR == fetch_action(engine, "daily").next_due_at


def test_outage_that_begins_as_an_earlier_one_is_recorded_too(engine: sa.Engine):
    """
    If it is longer, under an id of its own, once, whoever decides it; or else what came
    after the first would be without a decision.
    """
    add_revision(engine, when={"cron_rule": "0 * * * *"})
    edit_action(engine, "daily", effective_from=SEVEN)
    dispatcher = make_dispatcher(engine)

    def miss(hours: int) -> set[tuple[datetime, str]]:
        """Let nobody lead from seven for so long and a half; return the ranges."""
        edit_action(engine, "daily", next_due_at=SEVEN)
        tick(dispatcher, SEVEN + (hours + 0.5) * HOUR)
        rows = fetch_all(engine)
        assert len(rows) <= 2
        return {(row.occurrence, row.details["last"]) for row in rows}

    once, longer, again, shorter = miss(1), miss(3), miss(3), miss(2)

    first, second = ((SEVEN, format_instant(SEVEN + n * HOUR)) for n in (1, 3))
    assert ({first}, {first, second}) == (once, longer)
    assert longer == again == shorter


@pytest.mark.parametrize(
    ("took_s", "ahead_s", "told_s"),
    [(5, 0, []), (5, -4, []), (0, 3, [3]), (5, 7, [7]), (5, -9, [-4])],
)
def test_only_a_clock_that_is_wrong_is_told_of(
    sqlite_url: str, took_s: int, ahead_s: int, told_s: list[float]
):
    """A database that answered late was taken for a wrong clock of the host."""
    host = [SEVEN + timedelta(seconds=ahead_s)]

    def answer() -> datetime:
        host[0] += timedelta(seconds=took_s)
        return SEVEN

    engine = make_engine(sqlite_url, clock=answer)

    with capture_logs() as logs:
        assert SEVEN == read_compared_clock(engine, lambda: host[0])

    assert told_s == [each["seconds"] for each in logs]
