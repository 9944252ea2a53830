"""Pausing or resuming many actions does with each what is done to a single one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from actions.pausing.pause_and_resume import (
    Refusal,
    Switched,
    pause_many,
    resume_many,
    set_paused,
)
from actions.pausing.targets import pause_target
from models.database.engine import reading, writing
from models.database.tables import changes, scheduled_action_revisions
from models.errors import ConflictError, InvalidDocumentError, NotFoundError
from tests.scheduling import add_app, edit_action, fetch_action, get_now, post

HOUR = timedelta(hours=1)

#: How an action may be when it is paused or resumed.
FORMS = ("plain", "paused", "noted", "events", "quarantined", "unreadable", "deleted")

#: Columns that say how it is afterwards, whenever that was done.
COLUMNS = (
    *("paused_until", "paused_by", "pause_note", "pause_scope", "revision"),
    *("quarantined_at", "quarantine_reason"),
)


def make_forms(engine: sa.Engine, prefix: str) -> list[str]:
    """Post an action of each form in app *prefix*; return their uids."""
    add_app(engine, prefix)
    for form in FORMS:
        when = {"on": "app.x"} if form == "events" else {"cron_rule": "0 7 * * *"}
        post(engine, prefix, name=form, uid=f"{prefix}-{form}", when=when)
    edit_action(engine, f"{prefix}-quarantined", quarantined_at=get_now(engine))
    edit_action(engine, f"{prefix}-unreadable", timing='{"when": 1}')
    edit_action(engine, f"{prefix}-deleted", deleted_at=get_now(engine))
    with writing(engine) as connection:
        set_paused(connection, f"{prefix}-paused", paused=True)
        set_paused(connection, f"{prefix}-noted", paused=True, note="why")
    return [f"{prefix}-{form}" for form in FORMS]


def switch_one(engine: sa.Engine, uid: str, **options: Any) -> str:
    """Pause or resume a single one; return what became of that."""
    try:
        with writing(engine) as connection:
            done = set_paused(connection, uid, by="ann", **options)
    except (ConflictError, InvalidDocumentError, NotFoundError) as error:
        return type(error).__name__
    return "done" if done else "nothing"


def describe(engine: sa.Engine, uid: str) -> tuple[object, ...]:
    """Return how an action is, and what its revisions and the record say of it."""
    row = fetch_action(engine, uid)
    with reading(engine) as connection:
        revisions = connection.execute(
            sa.select(
                scheduled_action_revisions.c.change,
                scheduled_action_revisions.c.changed_by,
                scheduled_action_revisions.c.note,
            )
            .where(scheduled_action_revisions.c.uid == uid)
            .order_by(scheduled_action_revisions.c.revision)
        ).all()
        noted = connection.execute(
            sa.select(changes.c.change, changes.c.note)
            .where(changes.c.subject == uid)
            .order_by(changes.c.number)
        ).all()
    columns = (getattr(row, name) for name in COLUMNS if name != "quarantined_at")
    is_out = (row.quarantined_at is not None, row.paused_at is not None)
    return (*columns, *is_out, revisions, noted)


@pytest.mark.parametrize("note", [None, "why", "another"])
@pytest.mark.parametrize("with_app", [False, True])
def test_pause_does_as_for_one(engine: sa.Engine, note: str | None, *, with_app: bool):
    """
    Whether they are paused already, on their own or with their app.
    """
    ones, many = make_forms(engine, "ones"), make_forms(engine, "many")
    if with_app:
        with writing(engine) as connection:
            pause_target(connection, "ones", note="all")
            pause_target(connection, "many", note="all")
    told = [switch_one(engine, uid, paused=True, note=note) for uid in ones]

    with writing(engine) as connection:
        switched = pause_many(connection, many, until=None, note=note, by="ann")

    check(engine, told, switched, ones, many)


@pytest.mark.parametrize("with_app", [False, True])
def test_resume_does_as_for_one(engine: sa.Engine, *, with_app: bool):
    """
    Whether they are paused on their own, with their app, or not.
    """
    ones, many = make_forms(engine, "ones"), make_forms(engine, "many")
    if with_app:
        with writing(engine) as connection:
            pause_target(connection, "ones")
            pause_target(connection, "many")
    told = [switch_one(engine, uid, paused=False, note="on") for uid in ones]

    with writing(engine) as connection:
        switched = resume_many(connection, many, note="on", by="ann")

    check(engine, told, switched, ones, many)


def check(
    engine: sa.Engine,
    told: list[str],
    switched: Switched,
    ones: list[str],
    many: list[str],
) -> None:
    assert told.count("done") == switched.done
    assert len(told) == switched.done + switched.refused.total()
    words = {
        "NotFoundError": {Refusal.GONE},
        "ConflictError": {Refusal.PAUSED_ABOVE},
        "InvalidDocumentError": {Refusal.UNREADABLE},
        "nothing": {Refusal.ALREADY_PAUSED, Refusal.NOT_PAUSED},
    }
    for outcome, refusals in words.items():
        assert told.count(outcome) == sum(switched.refused[each] for each in refusals)
    for one, other in zip(ones, many, strict=True):
        assert describe(engine, one) == describe(engine, other), one


def test_end_that_has_passed_refuses_all(engine: sa.Engine):
    """
    A large change may take longer than a short pause.
    """
    uids = make_forms(engine, "many")

    with writing(engine) as connection:
        switched = pause_many(
            connection, uids, until=get_now(engine) - HOUR, note=None, by=None
        )

    assert (0, {Refusal.TOO_LATE: len(uids)}) == (switched.done, switched.refused)
