"""What an edit changes in the near future, of actions of time and of events."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa

from actions.lookup import get_action
from actions.posting.changes import RunChanges
from models.database.engine import reading
from models.door.documents import read_action_object
from overview import previews
from overview.previews import foretell_edit
from tests.scheduling import DAY, add_event, edit_action, get_now, make_document, post

SEEN = "instance.user.last_seen"


pytestmark = pytest.mark.usefixtures("small_app")


@pytest.fixture
def seen_at(engine: sa.Engine) -> datetime:
    """Two users were seen five days ago."""
    instant = (get_now(engine) - 5 * DAY).replace(microsecond=0)
    for user in ("ann", "bob"):
        add_event(engine, user, instant, name=SEEN)
    return instant


def compare(engine: sa.Engine, uid: str, **document: Any) -> RunChanges:
    action = read_action_object(make_document(uid=uid, **document))
    with reading(engine) as connection:
        return foretell_edit(
            connection,
            "app",
            get_action(connection, uid),
            action,
            now=get_now(engine),
            holidays={},
        )


def after(days: int) -> dict[str, str]:
    return {"after": SEEN, "delay": f"P{days}D"}


def test_longer_delay_moves_the_run_of_each_user(engine: sa.Engine, seen_at: datetime):
    """As far as the events so far lead."""
    uid = post(engine, when=after(7)).uid

    changes = compare(engine, uid, when=after(14))

    moved = (seen_at + 7 * DAY, seen_at + 14 * DAY)
    assert [moved, moved] == [(each.was, each.is_now) for each in changes.moved]
    assert ((), ()) == (changes.added, changes.removed)


@pytest.mark.parametrize(
    ("edit", "removed"),
    [
        # it takes effect now: what would have been due before it never runs
        ({"when": after(2)}, 2),
        # on events they are a filter
        ({"when": after(7), "recipients": {"users": ["ann"]}}, 1),
        ({"when": after(7), "active": False}, 2),
    ],
    ids=["delay that has passed", "recipients", "inactive"],
)
def test_runs_are_removed(
    engine: sa.Engine, seen_at: datetime, edit: dict[str, Any], removed: int
):
    """Of users who have none by the edit, and nothing else changes."""
    uid = post(engine, when=after(7)).uid

    changes = compare(engine, uid, **edit)

    assert (seen_at + 7 * DAY,) * removed == changes.removed
    assert ((), ()) == (changes.added, changes.moved)


def test_rule_of_time_becomes_one_of_events(engine: sa.Engine, seen_at: datetime):
    """And the other way round."""
    of_time = {"cron_rule": "0 7 * * *", "timezone": "UTC"}
    uid = post(engine, name="of time", when=of_time).uid
    of_event = post(engine, name="of event", when=after(7)).uid

    there = compare(engine, uid, when=after(7))
    back = compare(engine, of_event, when=of_time)

    assert (seen_at + 7 * DAY,) * 2 == there.added == back.removed
    assert 30 == len(there.removed) == len(back.added)
    assert () == there.moved


def test_inactive_action_has_no_runs(engine: sa.Engine, seen_at: datetime):
    off = post(engine, when=after(7), active=False).uid

    assert (seen_at + 7 * DAY,) * 2 == compare(engine, off, when=after(7)).added


def test_action_that_cannot_be_read_had_no_runs(engine: sa.Engine):
    """Every run of what replaces it is new."""
    uid = post(engine).uid
    edit_action(engine, uid, timing="{}")

    assert 30 == len(compare(engine, uid).added)


def test_only_so_many_events_are_looked_at(
    engine: sa.Engine, seen_at: datetime, monkeypatch: pytest.MonkeyPatch
):
    """The comparison then ends at the last of them, and says so."""
    add_event(engine, "ann", seen_at + DAY, name=SEEN)
    uid = post(engine, when=after(7)).uid
    monkeypatch.setattr(previews, "MOST_EVENTS", 3)

    changes = compare(engine, uid, when=after(14))

    assert seen_at + 8 * DAY == changes.until
    assert (seen_at + 7 * DAY,) * 2 == changes.removed
