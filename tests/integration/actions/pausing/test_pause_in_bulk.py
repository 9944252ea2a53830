"""Many actions are paused and resumed together, and what is refused is counted."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
import sqlalchemy as sa

from actions.pausing.pause_and_resume import (
    Refusal,
    pause_action,
    pause_many,
    resume_many,
)
from actions.pausing.targets import pause_target
from models.database.engine import Author, writing
from models.database.tables import changes, scheduled_action_revisions
from models.requests.notes import PauseModel
from tests.database import fetch_rows, write_by
from tests.scheduling import add_app, edit_action, fetch_action, get_now, post

#: How an action may be when it is paused or resumed.
FORMS = ("plain", "paused", "noted", "events", "quarantined", "unreadable", "deleted")


@pytest.fixture(autouse=True)
def _forms(engine: sa.Engine) -> None:
    """Give every test an action of each form, which is its uid."""
    add_app(engine)
    for form in FORMS:
        when = {"on": "app.x"} if form == "events" else {"cron_rule": "0 7 * * *"}
        post(engine, name=form, uid=form, when=when)
    edit_action(engine, "quarantined", quarantined_at=get_now(engine))
    edit_action(engine, "unreadable", timing='{"when": 1}')
    edit_action(engine, "deleted", deleted_at=get_now(engine))
    write_by(engine, pause_action, "paused")
    write_by(engine, pause_action, "noted", PauseModel(note="why"))


def fetch_last(engine: sa.Engine, uid: str) -> tuple[object, ...]:
    """Return what the last revision of an action and the record of changes say."""
    kept, noted = scheduled_action_revisions.c, changes.c
    revisions = sa.select(kept.change, kept.changed_by, kept.note).where(
        kept.uid == uid
    )
    record = sa.select(noted.change, noted.note).where(noted.subject == uid)
    return (
        fetch_rows(engine, revisions.order_by(kept.revision.desc())).first(),
        fetch_rows(engine, record.order_by(noted.number.desc())).first(),
    )


@pytest.mark.parametrize(
    ("with_app", "note", "left"),
    [
        (False, None, {"paused", "noted"}),
        (False, "why", {"noted"}),
        (True, None, {"paused", "noted"}),
        (True, "another", set()),
    ],
)
def test_many_are_paused_on_their_own(
    engine: sa.Engine, note: str | None, left: set[str], *, with_app: bool
):
    """Also those that are paused with their app; those that are so already stay."""
    if with_app:
        write_by(engine, pause_target, "app", PauseModel(note="all"))
    with writing(engine, author=Author("ann")) as connection:
        switched = pause_many(connection, FORMS, PauseModel(note=note))

    refused = Counter({Refusal.GONE: 1, Refusal.ALREADY_PAUSED: len(left)})
    assert (6 - len(left), +refused) == (switched.done, switched.refused)
    for uid in {*FORMS} - {"deleted"} - left:
        row = fetch_action(engine, uid)
        assert row.paused_at is not None
        assert (None, note) == (row.pause_scope, row.pause_note)
        noted = (("paused", "ann", note), ("paused", note))
        assert noted == fetch_last(engine, uid)


@pytest.mark.parametrize("with_app", [False, True])
def test_many_are_resumed_from_now(engine: sa.Engine, *, with_app: bool):
    """But those of a paused app stay paused with it."""
    if with_app:
        write_by(engine, pause_target, "app")
    with writing(engine, author=Author("ann")) as connection:
        switched = resume_many(connection, FORMS, "on")

    left = {"plain", "events", "quarantined"} if with_app else {"plain", "events"}
    why = Refusal.PAUSED_ABOVE if with_app else Refusal.NOT_PAUSED
    refused = {Refusal.GONE: 1, Refusal.UNREADABLE: 1, why: len(left)}
    assert (5 - len(left), refused) == (switched.done, switched.refused)
    for uid in {"paused", "noted", "quarantined"} - left:
        row = fetch_action(engine, uid)
        assert ("app" if with_app else None, None) == (
            row.pause_scope,
            row.quarantined_at,
        )
        assert with_app is (row.paused_at is not None)
        assert ("resumed", "on") == fetch_last(engine, uid)[1]


def test_end_that_has_passed_refuses_all(engine: sa.Engine):
    """A large change may take longer than a short pause."""
    passed = get_now(engine) - timedelta(hours=1)

    switched = write_by(engine, pause_many, FORMS, PauseModel(until=passed))

    assert (0, {Refusal.TOO_LATE: len(FORMS)}) == (switched.done, switched.refused)
