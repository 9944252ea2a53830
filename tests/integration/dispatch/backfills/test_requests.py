"""A backfill is started as it was listed, and canceled at any time."""

from __future__ import annotations

from uuid import uuid4

import pytest
import sqlalchemy as sa

from dispatch.backfills.progress import Backfiller
from dispatch.backfills.requests import (
    MOST_AT_ONCE,
    OccurrenceOutcome,
    cancel_backfill,
    end_backfills,
)
from models.database.engine import writing
from models.errors import ConflictError, NotFoundError, UsageError
from tests.database import fetch_rows, note_statements, write_by
from tests.integration.dispatch.backfills.backfilling import (
    ANN,
    SEVENS,
    UNTIL,
    fetch_outcomes,
    get_backfill,
    post_daily,
    record_state,
    start,
)
from tests.scheduling import MONDAY, edit, fetch_all, fetch_noted

pytestmark = pytest.mark.usefixtures("small_app")


def test_it_holds_what_was_listed(engine: sa.Engine, uid: str):
    """Only what runs; and nothing is recorded before the leader does it."""
    record_state(engine, uid, SEVENS[0], "succeeded")

    row = get_backfill(engine, start(engine, uid, note="lost them", expected_count=6))

    assert (uid, MONDAY, UNTIL, "all", 6, 3, "lost them", ANN.name) == (
        row.action_uid,
        row.from_at,
        row.until_at,
        row.which,
        row.total,
        row.at_once,
        row.note,
        row.requested_by,
    )
    assert 1 == len(fetch_all(engine))


def test_another_count_than_was_seen_is_refused(engine: sa.Engine, uid: str):
    """Both are named, and nothing is stored."""
    with pytest.raises(ConflictError, match=r"7, but 6 were expected"):
        start(engine, uid, expected_count=6)
    assert not fetch_rows(engine, sa.text("select count(*) from backfills")).scalar()


def test_nothing_to_run_is_refused(engine: sa.Engine, uid: str):
    """An empty backfill would look like one that did something."""
    for occurrence in SEVENS:
        record_state(engine, uid, occurrence, "succeeded")

    with pytest.raises(ConflictError, match="nothing of action"):
        start(engine, uid)


@pytest.mark.parametrize("at_once", [0, -1, MOST_AT_ONCE + 1])
def test_at_once_is_bounded(engine: sa.Engine, uid: str, at_once: int):
    """The leader looks at a bounded number of operations at a time."""
    with pytest.raises(UsageError, match="--at-once"):
        start(engine, uid, at_once=at_once)


def test_cancel_stops_recording_and_what_no_worker_has(
    engine: sa.Engine, uid: str, backfiller: Backfiller
):
    """What runs goes on, and then the backfill is over."""
    backfill = start(engine, uid, at_once=3)
    backfiller.look()
    running, queued, pending = fetch_all(engine)
    edit(engine, running.id, state="running", claim_token=uuid4())
    edit(engine, queued.id, state="queued")

    with writing(engine, author=ANN) as connection:
        assert 2 == cancel_backfill(connection, backfill)
    backfiller.look()

    assert ["running", "canceled", "canceled"] == [r.state for r in fetch_all(engine)]
    assert [*["recorded"] * 3, *["left: the backfill was canceled"] * 4] == (
        fetch_outcomes(engine, backfill)
    )
    assert get_backfill(engine, backfill).finished_at is None
    edit(engine, running.id, state="succeeded", claim_token=None)
    backfiller.look()
    row = get_backfill(engine, backfill)
    assert row.canceled_by == ANN.name
    assert row.finished_at >= row.canceled_at
    assert pending.state == "pending"


def test_cancel_leaves_what_others_recorded(
    engine: sa.Engine, uid: str, backfiller: Backfiller
):
    """Another backfill has the same occurrences."""
    start(engine, uid, at_once=7)
    second = start(engine, uid, at_once=7)
    backfiller.look()

    assert 0 == write_by(engine, cancel_backfill, second)

    assert ["pending"] * 7 == [row.state for row in fetch_all(engine)]


def test_cancel_twice_or_too_late_is_refused(engine: sa.Engine):
    """It says which of the two."""
    first = start(engine, post_daily(engine))
    second = start(engine, post_daily(engine, name="other"))
    with writing(engine) as connection:
        cancel_backfill(connection, first)
        connection.execute(
            sa.text("update backfills set finished_at = created_at where id = :id"),
            {"id": second if engine.dialect.name == "postgresql" else str(second)},
        )

    for backfill, word in ((first, "canceled"), (second, "over")):
        with pytest.raises(ConflictError, match=word):
            write_by(engine, cancel_backfill, backfill)


def test_unknown_backfill_locks_no_lease(engine: sa.Engine, uid: str):
    """
    Whoever tries random ids, or those of another tenant, locks no lease, and is
    answered in the same words.
    """
    backfill = start(engine, uid)
    asked = note_statements(engine)

    for unknown, app in ((uuid4(), None), (backfill, "other")):
        with pytest.raises(NotFoundError, match=f"no backfill {unknown}"):
            write_by(engine, cancel_backfill, unknown, app=app)

    assert any("FROM backfills" in text for text in asked)
    assert not any("FROM leases" in text for text in asked)
    assert get_backfill(engine, backfill).canceled_at is None


def test_start_and_cancel_are_on_record(engine: sa.Engine, uid: str):
    """Who, and what."""
    backfill = start(engine, uid, note="why")
    with writing(engine, author=ANN) as connection:
        cancel_backfill(connection, backfill)

    rows = fetch_noted(engine, "backfill")
    assert [("started", "why"), ("canceled", None)] == [
        (row.change, row.note) for row in rows
    ]
    assert {(ANN.name, "app", str(backfill))} == {
        (r.by, r.app, r.subject) for r in rows
    }


def test_restored_backup_ends_all(engine: sa.Engine, uid: str, backfiller: Backfiller):
    """What they would still record may have run after the backup was made."""
    backfill = start(engine, uid)

    write_by(engine, end_backfills, OccurrenceOutcome.RESTORED)
    backfiller.look()

    assert {"left: a backup was restored"} == {*fetch_outcomes(engine, backfill)}
    assert [] == fetch_all(engine)
