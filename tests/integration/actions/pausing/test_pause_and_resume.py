"""Actions that are paused, switched off, deleted or in quarantine."""

from __future__ import annotations

from datetime import datetime

import pytest
import sqlalchemy as sa

from actions.decide import ActionRevision
from actions.due_rows import quarantine
from actions.pausing.pause_and_resume import pause_action, resume_action
from actions.posting.post import delete_action
from models.database.engine import writing
from models.database.tables import scheduled_action_revisions
from models.errors import InvalidDocumentError, NotFoundError
from tests.database import fetch_rows, write_by
from tests.scheduling import (
    MINUTE,
    MINUTELY,
    MONDAY,
    at,
    count_revisions,
    edit_action,
    fetch_action,
    fetch_all,
    get_now,
    make_dispatcher,
    post,
    post_at,
    tick,
)

pytestmark = pytest.mark.usefixtures("small_app")


def pause(engine: sa.Engine, uid: str, *, paused: bool = True) -> bool:
    return write_by(engine, pause_action if paused else resume_action, uid)


def test_paused_action_records_nothing_and_resumes_from_now(engine: sa.Engine):
    uid = post_at(engine, get_now(engine) - 3 * MINUTE, when=MINUTELY)
    assert pause(engine, uid)
    assert not pause(engine, uid)
    dispatcher = make_dispatcher(engine)
    tick(dispatcher, get_now(engine))
    before = get_now(engine)

    assert pause(engine, uid, paused=False)
    assert not pause(engine, uid, paused=False)

    row = fetch_action(engine, uid)
    tick(dispatcher, row.effective_from)
    assert [] == fetch_all(engine)
    assert row.effective_from >= before
    assert before < row.next_due_at <= row.effective_from + MINUTE
    assert 3 == count_revisions(engine, uid)


@pytest.mark.parametrize("change", ["inactive", "deleted", "paused"])
def test_action_that_is_off_is_not_decided(engine: sa.Engine, change: str):
    uid = post_at(engine, at("07:00"), when=MINUTELY)
    if change == "inactive":
        post(engine, replace_it=True, when=MINUTELY, active=False)
    elif change == "deleted":
        write_by(engine, delete_action, uid)
    else:
        pause(engine, uid)

    report = tick(make_dispatcher(engine), at("07:01"))

    assert (0, 0) == (report.due, report.recorded)


def test_activation_starts_from_now(engine: sa.Engine):
    """Switching off names what is overtaken; switching on runs nothing of before."""
    uid = post_at(engine, get_now(engine) - 3 * MINUTE, when=MINUTELY)
    off = post(engine, replace_it=True, when=MINUTELY, active=False)
    before = get_now(engine)
    post(engine, replace_it=True, when=MINUTELY, active=True)

    assert off.superseded
    row = fetch_action(engine, uid)
    assert row.effective_from >= before
    assert row.next_due_at >= before


def test_deleted_action_is_gone_for_everybody(engine: sa.Engine):
    uid = post(engine).uid
    write_by(engine, delete_action, uid)

    with pytest.raises(NotFoundError):
        write_by(engine, delete_action, uid)
    with pytest.raises(NotFoundError):
        pause(engine, uid)
    assert 2 == count_revisions(engine, uid)


UNREADABLE = '{"when": [{"cron_rule": "61 * * * *", "timezone": "UTC"}]}'


@pytest.mark.parametrize("quarantined_at", [None, MONDAY])
def test_rule_that_cannot_be_read_gives_way(
    engine: sa.Engine, quarantined_at: datetime | None
):
    """The cure of quarantine works: what cannot be read supersedes nothing."""
    uid = post_at(engine, at("07:00"), when=MINUTELY)
    broken = {"quarantined_at": quarantined_at, "quarantine_reason": "x"}
    edit_action(engine, uid, timing=UNREADABLE, **broken)

    posted = post(engine, replace_it=True, when=MINUTELY)

    assert () == posted.superseded
    row = fetch_action(engine, uid)
    assert (None, None) == (row.quarantined_at, row.quarantine_reason)
    assert row.next_due_at > get_now(engine)


@pytest.mark.parametrize(
    "state", [{}, {"paused_at": MONDAY}, {"quarantined_at": MONDAY}], ids=str
)
def test_rule_that_cannot_be_read_is_not_resumed(
    engine: sa.Engine, state: dict[str, datetime]
):
    """Its admin is told why, and what to do, before the tick finds it, too."""
    uid = post_at(engine, at("07:00"), when=MINUTELY)
    edit_action(engine, uid, timing=UNREADABLE, **state)

    with pytest.raises(InvalidDocumentError) as caught:
        pause(engine, uid, paused=False)

    (problem,) = caught.value.problems
    assert "minute 61" in problem.message
    assert "actions post FILE --replace --app app" in problem.hint
    assert 1 == count_revisions(engine, uid)


@pytest.mark.parametrize(
    ("unreadable", "said"),
    [({"zone": "Mars/Olympus"}, "Mars/Olympus"), ({"delay": "P1X"}, "P1X")],
    ids=["zone", "delay"],
)
def test_event_that_cannot_be_read_is_not_resumed(
    engine: sa.Engine, unreadable: dict[str, str], said: str
):
    """The next event would put the action into quarantine again."""
    when = {"after": "instance.user.last_seen", "delay": "P1M"}
    uid = post(engine, when=when).uid
    edit_action(engine, uid, quarantined_at=MONDAY, **unreadable)

    with pytest.raises(InvalidDocumentError, match=said):
        pause(engine, uid, paused=False)

    assert fetch_action(engine, uid).quarantined_at is not None


def test_quarantine_ends_when_the_action_is_resumed(engine: sa.Engine):
    """What can be read again, by another tz database, starts from now."""
    uid = post_at(engine, at("07:00"), when=MINUTELY)
    edit_action(engine, uid, quarantined_at=MONDAY, quarantine_reason="x")
    before = get_now(engine)

    assert pause(engine, uid, paused=False)

    row = fetch_action(engine, uid)
    assert (None, None) == (row.quarantined_at, row.quarantine_reason)
    assert row.next_due_at > before


def fetch_undecided(engine: sa.Engine, uid: str) -> list[datetime | None]:
    """Return from when on nothing was decided, by revision."""
    kept = scheduled_action_revisions.c
    query = sa.select(kept.undecided_from).where(kept.uid == uid)
    return list(fetch_rows(engine, query.order_by(kept.revision)).scalars())


@pytest.mark.parametrize("change", ["replaced", "paused", "deleted", "quarantined"])
def test_each_change_keeps_what_was_undecided(engine: sa.Engine, change: str):
    """So that what it overtakes can be told from what was missed."""
    uid = post_at(engine, at("07:00"), when=MINUTELY, name="daily")
    with writing(engine) as connection:
        if change == "paused":
            pause_action(connection, uid)
        elif change == "deleted":
            delete_action(connection, uid)
        elif change == "quarantined":
            quarantine(connection, ActionRevision(uid, 1), "x", now=at("07:20"))
    if change == "replaced":
        post(engine, uid=uid, replace_it=True)

    assert [None, at("07:00")] == fetch_undecided(engine, uid)
