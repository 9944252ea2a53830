"""Events: recorded once, found by whoever waits for them, replaced by newer ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone

import pytest
import sqlalchemy as sa

from actions.user_events import NewEvent, record_events
from models.database.engine import writing
from models.database.tables import events, scheduled_actions, users
from models.errors import NotFoundError
from models.occurrence import make_operation_id
from tests.database import execute, fetch_rows, wait_for_lock, write_by
from tests.scheduling import (
    DAY,
    MINUTE,
    edit_action,
    fetch_action,
    fetch_all,
    get_now,
    make_dispatcher,
    post,
    tick,
)

CREATED = "instance.user.created"
ACTIVATED = "instance.user.activated"
SEEN = "instance.user.last_seen"


pytestmark = pytest.mark.usefixtures("small_app")


def send(
    engine: sa.Engine,
    name: str,
    *user_ids: str,
    at: datetime | None = None,
    key: str | None = None,
) -> int:
    return write_by(
        engine,
        record_events,
        [NewEvent("app", name, each, at, key) for each in user_ids],
    )


def fetch_events(engine: sa.Engine) -> list[tuple[str, str, datetime]]:
    query = sa.select(events.c.name, events.c.user_id, events.c.at)
    rows = fetch_rows(engine, query.order_by(events.c.at, events.c.user_id))
    return [(row.name, row.user_id, row.at) for row in rows]


def get_user(engine: sa.Engine, user_id: str = "ann") -> sa.Row[tuple[object, ...]]:
    return fetch_rows(engine, sa.select(users).where(users.c.id == user_id)).one()


def ran(engine: sa.Engine) -> list[str | None]:
    return [row.user_id for row in fetch_all(engine) if row.state == "queued"]


def test_event_is_recorded_once(engine: sa.Engine):
    at = get_now(engine) - DAY
    elsewhere = at.astimezone(timezone(timedelta(hours=5)))

    counts = [send(engine, "app.x", "ann", at=each) for each in (at, at, elsewhere)]

    assert [1, 0, 0] == counts
    assert [("app.x", "ann", at)] == fetch_events(engine)


def test_key_tells_events_apart_and_together(engine: sa.Engine):
    at = get_now(engine) - DAY
    counts = [
        send(engine, ACTIVATED, "ann", at=at, key="1"),
        send(engine, ACTIVATED, "ann", at=at, key="2"),
        send(engine, ACTIVATED, "ann", key="1"),
    ]

    assert [1, 1, 0] == counts
    assert at == get_user(engine).activated_at


def test_unknown_user_stops_the_whole_batch(engine: sa.Engine):
    with pytest.raises(NotFoundError, match="'nobody'"):
        send(engine, "app.x", "ann", "nobody")

    assert [] == fetch_events(engine)


@pytest.mark.parametrize(
    ("batches", "counts"),
    [([[3], [1], [2], [1]], [1, 1, 0, 0]), ([[2, 1, 3]], [1])],
    ids=["one by one", "together"],
)
def test_newer_last_seen_replaces_the_older(
    engine: sa.Engine, batches: list[list[int]], counts: list[int]
):
    """Only the latest is kept, in whatever order they come, days ago."""
    now = get_now(engine)

    sent = (
        [NewEvent("app", SEEN, "ann", now - back * DAY) for back in batch]
        for batch in batches
    )
    found = [write_by(engine, record_events, each) for each in sent]

    assert counts == found
    assert [(SEEN, "ann", now - DAY)] == fetch_events(engine)
    assert now - DAY == get_user(engine).last_seen_at


def test_user_learns_what_happened(engine: sa.Engine):
    at = get_now(engine) - DAY
    send(engine, CREATED, "ann", at=at)
    send(engine, ACTIVATED, "ann", at=at + MINUTE)

    user = get_user(engine)

    assert (at, at + MINUTE) == (user.created_at, user.activated_at)


def test_absence_is_noticed_once(engine: sa.Engine):
    uid = post(engine, when={"after": SEEN, "delay": "P7D"}).uid
    now = get_now(engine)
    send(engine, SEEN, "ann", at=now)
    dispatcher = make_dispatcher(engine)
    tick(dispatcher, now + 4 * DAY)
    assert [] == fetch_all(engine)

    send(engine, SEEN, "ann", at=now + 4 * DAY)
    edit_recorded(engine, now + 4 * DAY)
    for day in (7, 10):
        tick(dispatcher, now + day * DAY)
    assert [] == fetch_all(engine)
    for minutes in range(3):
        tick(dispatcher, now + 11 * DAY + minutes * MINUTE)

    expected = make_operation_id(uid, (now + 11 * DAY).replace(microsecond=0), "ann")
    assert [expected] == [row.id for row in fetch_all(engine)]


def edit_recorded(engine: sa.Engine, instant: datetime) -> None:
    execute(engine, sa.update(events).values(recorded_at=instant))


def test_event_wakes_the_actions_that_wait(engine: sa.Engine):
    """``next_due_at`` is lowered to when the first may be due, never raised."""
    soon = post(engine, name="soon", when={"on": "app.x"}).uid
    later = post(engine, name="later", when={"after": "app.x", "delay": "PT2H"}).uid
    other = post(engine, name="other", when={"on": "app.y"}).uid
    for uid in (soon, later, other):
        edit_action(engine, uid, next_due_at=None)
    before = get_now(engine)

    send(engine, "app.x", "ann")
    first = fetch_action(engine, later).next_due_at
    send(engine, "app.x", "bob")

    assert before <= fetch_action(engine, soon).next_due_at <= get_now(engine)
    second_late = first - timedelta(hours=2) + timedelta(seconds=1)  # it looks early
    assert before <= second_late <= get_now(engine)
    assert first == fetch_action(engine, later).next_due_at
    assert fetch_action(engine, other).next_due_at is None


def test_event_recorded_while_the_tick_decides_is_not_lost(engine: sa.Engine):
    """The tick has read the events already; it must not pass over what came since."""
    post(engine, when={"on": "app.x"})
    send(engine, "app.x", "ann")
    dispatcher = make_dispatcher(engine)
    now = get_now(engine)
    tick(dispatcher, now, meanwhile=lambda: send(engine, "app.x", "bob"))
    assert ["ann"] == ran(engine)

    tick(dispatcher, now + MINUTE)

    assert ["ann", "bob"] == ran(engine)
    assert 0 == tick(dispatcher, now + 2 * MINUTE).due


def test_delayed_event_recorded_while_the_tick_decides_is_not_lost(engine: sa.Engine):
    """Nor what is due between now and the next occurrence that the tick knows of."""
    post(engine, when={"after": "app.x", "delay": "PT1H"})
    now = get_now(engine)
    send(engine, "app.x", "ann", at=now - timedelta(hours=1))
    send(engine, "app.x", "eve", at=now)
    dispatcher = make_dispatcher(engine)
    tick(
        dispatcher,
        now + MINUTE,
        meanwhile=lambda: send(engine, "app.x", "bob", at=now - 30 * MINUTE),
    )

    tick(dispatcher, now + 31 * MINUTE)

    assert ["ann", "bob"] == ran(engine)
    tick(dispatcher, now + 61 * MINUTE)
    assert ["ann", "bob", "eve"] == ran(engine)


def test_event_committed_while_the_tick_decides_is_not_lost(postgres_engine: sa.Engine):
    """It is dated before the tick, and seen only after it."""
    engine = postgres_engine
    post(engine, when={"on": "app.x"})
    dispatcher = make_dispatcher(engine)
    slow = engine.connect()
    record_events(slow, [NewEvent("app", "app.x", "ann")])
    now = get_now(engine)

    tick(dispatcher, now, meanwhile=slow.commit)
    slow.close()
    assert [] == fetch_all(engine)
    tick(dispatcher, now + MINUTE)

    assert ["ann"] == ran(engine)


def test_recipients_of_an_event_action_are_a_filter(engine: sa.Engine):
    post(engine, when={"on": "app.x"}, recipients={"users": ["bob"]})
    post(engine, name="all", when={"on": "app.x"}, recipients={"groups": ["all"]})
    post(engine, name="none", when={"on": "app.x"})
    post(
        engine,
        name="only",
        when={"on": "app.x"},
        recipients={"groups": ["all"], "only_inactive_users": True},
    )
    send(engine, "app.x", "ann", "bob", "eve")
    execute(engine, sa.update(users).where(users.c.id == "eve").values(disabled=True))

    tick(make_dispatcher(engine), get_now(engine))

    names: dict[str, list[str]] = {}
    for row in fetch_all(engine):
        names.setdefault(row.triggered_by.split('"')[1], []).append(row.user_id)
    assert {
        "daily": ["bob"],
        "all": ["ann", "bob"],
        "none": ["ann", "bob", "eve"],
        "only": ["eve"],
    } == names


def test_event_from_before_the_action_counts_if_its_delay_ends_after(engine: sa.Engine):
    """An action posted today reminds the users who were last seen six days ago."""
    now = get_now(engine)
    send(engine, SEEN, "ann", at=now - 6 * DAY)
    send(engine, SEEN, "bob", at=now - 8 * DAY)
    post(engine, when={"after": SEEN, "delay": "P7D"})
    dispatcher = make_dispatcher(engine)
    tick(dispatcher, get_now(engine))
    assert [] == fetch_all(engine)

    tick(dispatcher, now + DAY + MINUTE)

    assert ["ann"] == ran(engine)


def test_action_with_an_unreadable_delay_stops_nobody(engine: sa.Engine):
    """Others hear of the event; that one goes into quarantine."""
    bad = post(engine, name="bad", when={"after": "app.x", "delay": "PT0S"}).uid
    post(engine, name="good", when={"after": "app.x", "delay": "PT0S"})
    edit_action(engine, bad, delay="soon")

    send(engine, "app.x", "ann")
    report = tick(make_dispatcher(engine), get_now(engine))

    assert ["ann"] == ran(engine)
    assert [bad] == [action.uid for action, _reason in report.quarantined]
    assert "soon" in fetch_action(engine, bad).quarantine_reason


@contextmanager
def hold(
    engine: sa.Engine, table: sa.Table, key: sa.ColumnElement[bool]
) -> Iterator[None]:
    """Lock a row of *table* within the block."""
    with writing(engine) as connection:
        connection.execute(sa.select(table).where(key).with_for_update())
        yield


def is_free(engine: sa.Engine, table: sa.Table, key: sa.ColumnElement[bool]) -> bool:
    """Tell whether nobody has locked a row of *table*."""
    lock = sa.select(table).where(key).with_for_update(skip_locked=True)
    with writing(engine) as connection:
        return connection.execute(lock).first() is not None


def test_users_are_locked_in_one_order(postgres_engine: sa.Engine):
    """
    Whatever the order of sending: who waits for the first has locked no other, so two
    batches never wait for each other.
    """
    batch = threading.Thread(target=send, args=(postgres_engine, SEEN, "eve", "ann"))
    with hold(postgres_engine, users, users.c.id == "ann"):
        batch.start()
        wait_for_lock(postgres_engine)
        assert is_free(postgres_engine, users, users.c.id == "eve")
    batch.join()

    assert {"ann", "eve"} == {user for _, user, _ in fetch_events(postgres_engine)}


@pytest.mark.parametrize("who", ["batch", "leader"])
def test_actions_are_locked_in_one_order(postgres_engine: sa.Engine, who: str):
    """By whoever records events, and by the tick that decides about them."""
    kept = scheduled_actions.c
    for uid, name in (("a", "app.y"), ("b", "app.x"), ("c", "app.y")):
        post(postgres_engine, uid=uid, name=uid, when={"on": name})
    dispatcher = make_dispatcher(postgres_engine)

    def record() -> None:
        news = [NewEvent("app", name, "ann") for name in ("app.x", "app.y")]
        write_by(postgres_engine, record_events, news)

    def decide() -> None:
        tick(dispatcher, get_now(postgres_engine))

    if who == "leader":
        record()
    other = threading.Thread(target=decide if who == "leader" else record)
    with hold(postgres_engine, scheduled_actions, kept.uid == "a"):
        other.start()
        wait_for_lock(postgres_engine)
        assert is_free(postgres_engine, scheduled_actions, kept.uid == "b")
        assert is_free(postgres_engine, scheduled_actions, kept.uid == "c")
    other.join()

    assert 3 * (who == "leader") == len(fetch_all(postgres_engine))
