"""What faces show of events and of what they led to, on both databases."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from actions.user_events import NewEvent, record_each
from models.database.tables import events
from models.errors import NotFoundError
from models.paging import Page, Part
from overview.events import (
    EventFilter,
    ListedEvent,
    fetch_detailed_event,
    fetch_event_part,
)
from tests.database import execute, read_by, turn_pages, write_by
from tests.scheduling import (
    HOUR,
    add_app,
    edit_action,
    fetch_all,
    get_now,
    make_dispatcher,
    post,
    tick,
)

pytestmark = pytest.mark.usefixtures("small_app")


def _send(
    engine: sa.Engine, name: str, user_id: str = "ann", at: datetime | None = None
) -> UUID:
    new = [NewEvent("app", name, user_id, at)]
    ((event_id, _),) = write_by(engine, record_each, new)
    return event_id


def _find(engine: sa.Engine, wanted: EventFilter, limit: int = 50) -> list[list[str]]:
    parts = turn_pages(
        lambda page: read_by(engine, fetch_event_part, "app", wanted, page), limit
    )
    return [[each.name for each in part] for part in parts]


def _move(engine: sa.Engine, name: str, recorded_at: datetime) -> None:
    moved = sa.update(events).values(recorded_at=recorded_at)
    execute(engine, moved.where(events.c.name == name))


@pytest.fixture
def now(engine: sa.Engine) -> datetime:
    """Give the clock, after five events: two an hour ago, three two hours ago."""
    now = get_now(engine)
    for number in range(5):
        name = f"app.{number}"
        _send(engine, name, "bob" if number == 0 else "ann")
        _move(engine, name, now - HOUR * (1 if number < 2 else 2))
    return now


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 50])
def test_parts_are_the_whole_latest_first(engine: sa.Engine, now: datetime, limit: int):
    """Each event is in one part, however many have the same instant."""
    assert now is not None

    parts = _find(engine, EventFilter(), limit)

    names = [name for part in parts for name in part]
    assert {"app.0", "app.1"} == set(names[:2])
    assert {"app.2", "app.3", "app.4"} == set(names[2:])
    assert 5 == len(names)
    assert all(len(part) == limit for part in parts[:-1])


def test_filters(engine: sa.Engine, now: datetime):
    """All that is given must hold; the end is exclusive."""

    def find(**wanted: Any) -> set[str]:
        (part,) = _find(engine, EventFilter(**wanted))
        return set(part)

    assert {"app.3"} == find(name="app.3")
    assert {"app.0"} == find(user_id="bob")
    assert {"app.0", "app.1"} == find(since=now - HOUR)
    assert {"app.2", "app.3", "app.4"} == find(until=now - HOUR)
    assert set() == find(user_id="bob", name="app.3")


def test_event_tells_what_it_led_to(engine: sa.Engine):
    """What it made, what is still to come, and what there is no operation for."""
    recorded = post(engine, name="a", when={"on": "app.x"}).uid
    planned = post(engine, name="b", when={"after": "app.x", "delay": "PT2H"}).uid
    dropped = post(
        engine, name="c", when={"on": "app.x"}, recipients={"users": ["bob"]}
    ).uid
    post(engine, name="d", when={"on": "app.y"})
    event_id = _send(engine, "app.x", at=get_now(engine))
    tick(make_dispatcher(engine), get_now(engine))

    told = read_by(engine, fetch_detailed_event, "app", event_id)

    assert [(recorded, "recorded"), (planned, "planned"), (dropped, "none")] == [
        (each.uid, each.outcome) for each in told.matched
    ]
    first, later, _ = told.matched
    (operation,) = fetch_all(engine)
    assert (operation.id, "queued") == (first.operation_id, first.state)
    assert later.occurrence == told.at.replace(microsecond=0) + 2 * HOUR
    assert 0 == told.unlisted


def test_events_of_others_are_not_found(engine: sa.Engine):
    """Neither those of another app, nor those that never were."""
    add_app(engine, "other")
    event_id = _send(engine, "app.x")

    for app, each in (("other", event_id), ("app", uuid4())):
        with pytest.raises(NotFoundError, match=app):
            read_by(engine, fetch_detailed_event, app, each)


def test_list_tells_what_each_event_led_to(engine: sa.Engine):
    """The first actions that wait for it, and that there are more."""
    for name in "abcd":
        post(engine, name=name, when={"on": "app.x"})
    post(engine, name="later", when={"after": "app.y", "delay": "PT2H"})
    _send(engine, "app.x")
    _send(engine, "app.y")
    _send(engine, "app.z")
    tick(make_dispatcher(engine), get_now(engine))

    part = read_by(engine, fetch_event_part, "app", EventFilter(), Page())

    found = {each.name: each for each in part.entries}
    assert [*"abc"] == [each.name for each in found["app.x"].matched]
    assert {"recorded"} == {each.outcome for each in found["app.x"].matched}
    assert ["planned"] == [each.outcome for each in found["app.y"].matched]
    assert [] == found["app.z"].matched
    assert [True, False, False] == [found[f"app.{n}"].has_more for n in "xyz"]


def test_list_of_all_apps_has_all(engine: sa.Engine):
    """Each with the actions of its own app, in one list."""
    add_app(engine, "other", ids=["ann"])
    ours, theirs = (
        post(engine, app, when={"on": "app.x"}).uid for app in ("app", "other")
    )
    _send(engine, "app.x")
    write_by(engine, record_each, [NewEvent("other", "app.x", "ann")])

    def read(page: Page) -> Part[ListedEvent]:
        return read_by(engine, fetch_event_part, None, EventFilter(), page)

    found = read(Page()).entries

    assert {("app", ours), ("other", theirs)} == {
        (each.app, each.matched[0].uid) for each in found
    }
    assert [[each.id] for each in found] == [
        [each.id for each in part] for part in turn_pages(read, 1)
    ]


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ({"active": False}, "is not active"),
        ({"quarantined_at": True, "quarantine_reason": "no such zone"}, "no such zone"),
        ({"effective_from": True}, "nothing from before"),
        ({"starts_at": True}, "only starts at"),
        ({"ends_at": False}, "ended at"),
        ({"paused_at": True}, "is paused"),
        ({"active": True}, None),
    ],
)
def test_action_that_cannot_run_for_it_says_why(
    engine: sa.Engine, values: dict[str, Any], note: str | None
):
    """As it is now; of other reasons, its why tells."""
    uid = post(engine, when={"on": "app.x"}).uid
    event_id = _send(engine, "app.x", at=get_now(engine))
    later = get_now(engine) + HOUR
    times = {True: later, False: later - 2 * HOUR}
    edit_action(
        engine,
        uid,
        **{
            name: times[value] if name.endswith(("_at", "_from")) else value
            for name, value in values.items()
        },
    )

    told = read_by(engine, fetch_detailed_event, "app", event_id)

    found = told.matched[0].note
    assert found is None if note is None else note in str(found)
