"""Lists of mails, in parts."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
import sqlalchemy as sa

from models.database.tables import deliveries
from models.operation_state import MailState
from models.paging import Page
from operations.mail.list_mails import MailFilter, count_lately, fetch_mails
from tests.database import execute, note_statements, read_by, turn_pages
from tests.scheduling import at, edit, make_operation, record_all

NOON = at("12:00")
OURS, THEIRS = make_operation(0), make_operation(1)


@pytest.fixture(autouse=True)
def _mailed(engine: sa.Engine) -> None:
    """Give two operations of two apps with mails, some of the same instant."""
    record_all(engine, OURS, THEIRS)
    edit(engine, THEIRS.id, app="other")
    rows = [
        {
            "operation_id": operation.id,
            "step": "send_email",
            "recipient": f"user{number:02}",
            "state": "failed" if number % 3 == 0 else "sent",
            "updated_at": NOON + timedelta(minutes=number // 4),
            "app": app,
        }
        for operation, app in ((OURS, "app"), (THEIRS, "other"))
        for number in range(20)
    ]
    execute(engine, sa.insert(deliveries), rows)


def collect(engine: sa.Engine, wanted: MailFilter, limit: int) -> list[str]:
    """Read a list to its end, a part at a time."""
    parts = turn_pages(lambda page: read_by(engine, fetch_mails, wanted, page), limit)
    return [f"{each.app} {each.recipient}" for part in parts for each in part]


@pytest.mark.parametrize("limit", [1, 3, 20, 21])
def test_parts_make_up_the_list(engine: sa.Engine, limit: int):
    """Every mail of the app once, the latest first, whoever wrote it."""
    found = collect(engine, MailFilter(app="app", state=None), limit)

    assert sorted(found) == [f"app user{number:02}" for number in range(20)]
    minutes = [int(each[-2:]) // 4 for each in found]
    assert minutes == sorted(minutes, reverse=True)


def test_list_of_all_apps_has_all(engine: sa.Engine):
    """Without an app there is no other bound."""
    assert 40 == len(set(collect(engine, MailFilter(state=None), 7)))


def test_filters_hold_in_every_part(engine: sa.Engine):
    """By state, recipient, operation and time."""
    failed = MailFilter(app="app", state=MailState.FAILED)
    of_some = MailFilter(state=None, recipients=frozenset({"user03"}))
    late = MailFilter(
        app="app",
        state=None,
        since=NOON + timedelta(minutes=1),
        until=NOON + timedelta(minutes=2),
    )
    unknown = MailFilter(operation_id=uuid4(), state=None)

    assert [0, 3, 6, 9, 12, 15, 18] == sorted(
        int(each[-2:]) for each in collect(engine, failed, 2)
    )
    assert {"app user03", "other user03"} == set(collect(engine, of_some, 1))
    assert {"04", "05", "06", "07"} == {each[-2:] for each in collect(engine, late, 3)}
    assert [] == collect(engine, unknown, 3)


@pytest.mark.parametrize("most", [39, 40])
def test_all_mails_of_an_action_are_sorted_only_if_they_are_few(
    engine: sa.Engine, most: int
):
    """Its runs may be few, and each have mailed thousands; the list is the same."""
    wanted, page = MailFilter(action_uid="daily", state=None), Page(7)
    asked = note_statements(engine)

    part = read_by(engine, fetch_mails, wanted, page, most=most)

    assert (most == 40) == any("MATERIALIZED" in each for each in asked)
    latest = {f"user{number}" for number in (16, 17, 18, 19)}
    assert latest == {each.recipient for each in part.entries}


def count(engine: sa.Engine, wanted: MailFilter, most: int = 100) -> dict[str, int]:
    """Count by state; a count that is not whole has a state of its own."""
    counts = read_by(engine, count_lately, wanted, most=most)
    return {**counts.by_state, **({} if counts.is_whole else {"more": 0})}


def test_mails_that_wait_for_somebody_are_counted_however_old(engine: sa.Engine):
    """Those that were sent long ago are not, unless their time is asked for."""
    since = MailFilter(app="app", state=None, since=NOON)
    late = MailFilter(app="app", state=None, since=NOON + timedelta(minutes=4))
    sent = MailFilter(state=MailState.SENT, since=NOON)

    assert {"failed": 7} == count(engine, MailFilter(app="app", state=None))
    assert {"failed": 7} == count(engine, MailFilter(app="app", state=MailState.FAILED))
    assert {"failed": 7, "sent": 13} == count(engine, since)
    assert {"failed": 1, "sent": 3} == count(engine, late)
    assert {"sent": 26} == count(engine, sent)


def test_counts_of_too_many_are_not_whole(engine: sa.Engine):
    """The latest are counted, and it is told that there are more."""
    found = count(engine, MailFilter(state=None, since=NOON), most=5)

    assert "more" in found
    assert 5 == found["failed"]
