"""Replays of events, on both databases."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from actions.receive_events import ReplayedEvent, replay_event
from actions.user_events import EventOutcome, NewEvent, record_each
from models.database.engine import reading
from models.database.tables import changes, events, users
from models.errors import ConflictError, NotFoundError
from overview.events import fetch_detailed_event
from tests.database import execute, fetch_rows, write_by
from tests.scheduling import (
    SECOND,
    add_app,
    fetch_all,
    get_now,
    make_dispatcher,
    post,
    tick,
)

LONG_AGO = timedelta(days=2)


pytestmark = pytest.mark.usefixtures("small_app")


def _send(engine: sa.Engine, name: str = "app.x") -> UUID:
    at = get_now(engine) - LONG_AGO
    new = [NewEvent("app", name, "ann", at)]
    ((event_id, _),) = write_by(engine, record_each, new)
    return event_id


def _replay(engine: sa.Engine, event_id: UUID, key: str = "1") -> ReplayedEvent:
    return write_by(engine, replay_event, "app", event_id, key=key)


def test_replay_is_an_event_of_its_own(engine: sa.Engine):
    first = _send(engine)
    now = get_now(engine)

    replayed = _replay(engine, first)

    assert (EventOutcome.RECORDED, first) == (replayed.outcome, replayed.replays)
    with reading(engine) as connection:
        shown = fetch_detailed_event(connection, "app", replayed.id)
        before = fetch_detailed_event(connection, "app", first)
        (noted,) = connection.execute(
            sa.select(changes.c.subject).where(changes.c.change == "replayed")
        ).scalars()
    assert shown.at >= now
    assert (first, None) == (shown.replays, before.replays)
    assert now - LONG_AGO >= before.at
    assert str(first) == noted


def test_runs_of_the_first_event_stay_what_they_are(engine: sa.Engine):
    """The replay has a run of its own; the first is not run again."""
    first = _send(engine)
    uid = post(engine, when={"on": "app.x"}).uid
    again = _replay(engine, first)
    leader = make_dispatcher(engine)
    tick(leader, get_now(engine))
    (operation,) = fetch_all(engine)
    replay = _replay(engine, again.id, "2")
    # Occurrences are whole seconds, and this test is over within one.
    later = sa.update(events).values(at=get_now(engine) + SECOND)
    execute(engine, later.where(events.c.id == replay.id))

    tick(leader, get_now(engine) + 2 * SECOND)

    found = fetch_all(engine)
    assert 2 == len({each.id for each in found})
    assert operation.id in {each.id for each in found}
    assert {uid} == {each.action_uid for each in found}


def test_the_same_replay_is_one(engine: sa.Engine):
    first = _send(engine)

    asked = [_replay(engine, first) for _ in range(3)]
    other = _replay(engine, first, "other")

    assert 1 == len({each.id for each in asked})
    assert ["recorded", "known", "known"] == [each.outcome for each in asked]
    assert other.id != asked[0].id


@pytest.mark.parametrize("name", ["instance.user.last_seen", "instance.user.created"])
def test_what_is_said_of_a_user_is_not_replayed(engine: sa.Engine, name: str):
    """That it happened now would be untrue, so nothing is recorded."""
    first = _send(engine, name)
    before = fetch_rows(engine, sa.select(users)).all()

    with pytest.raises(ConflictError, match="would say that it was now"):
        _replay(engine, first)

    assert before == fetch_rows(engine, sa.select(users)).all()
    assert 1 == len(fetch_rows(engine, sa.select(events)).all())


def test_what_is_not_there_is_not_found(engine: sa.Engine):
    add_app(engine, "other")
    first = _send(engine)
    with pytest.raises(NotFoundError, match="no event"):
        _replay(engine, uuid4())
    with pytest.raises(NotFoundError, match="'other'"):
        write_by(engine, replay_event, "other", first, key="1")
    execute(engine, sa.delete(users))

    with pytest.raises(NotFoundError, match="no user 'ann'"):
        _replay(engine, first)
