"""The occurrences of an action, past and planned, from both databases."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa

from dispatch.manual_runs import run_now
from models.database.tables import scheduled_action_revisions
from models.errors import UsageError
from models.paging import Page, Part
from overview.why.occurrence_list import ShownOccurrence, fetch_occurrence_part
from tests.database import execute, read_by, turn_pages
from tests.scheduling import (
    DAY,
    MINUTE,
    MINUTELY,
    edit_action,
    find_far_hour,
    get_now,
    make_dispatcher,
    post,
    tick,
)

ALL = Page(200)


pytestmark = pytest.mark.usefixtures("small_app")


def ask(
    engine: sa.Engine, uid: str, page: Page = ALL, **options: Any
) -> Part[ShownOccurrence]:
    return read_by(engine, fetch_occurrence_part, uid, page, **options)


def post_since(engine: sa.Engine, since: datetime, **changes: Any) -> str:
    """Post an action as if it was done at *since*, and nothing was decided yet."""
    uid = post(engine, **changes).uid
    edit_action(engine, uid, created_at=since, effective_from=since, next_due_at=since)
    execute(
        engine,
        sa.update(scheduled_action_revisions).values(
            recorded_at=since, effective_from=since
        ),
    )
    return uid


def test_past_and_planned_are_one_list(engine: sa.Engine):
    """
    What ran has its operation, what was missed the row of its outage and its sentence,
    and what is to come none. A run that somebody asked for is no occurrence.
    """
    now = get_now(engine)
    begin = now.replace(second=0, microsecond=0) - 10 * MINUTE
    uid = post_since(engine, begin, when=MINUTELY)
    tick(make_dispatcher(engine), now, lookback=5 * MINUTE)
    run_now(engine, uid)

    found = ask(engine, uid, since=begin - DAY, until=begin + 40 * MINUTE).entries

    assert [begin + n * MINUTE for n in range(40)] == [each.moment.at for each in found]
    missed = [each.moment.verdict.value for each in found].count("missed")
    assert missed in {5, 6}
    assert 1 == len({each.moment.operation_id for each in found[:missed]})
    told = f"it was missed: outage: {missed} occurrences, "
    assert all(each.text.startswith(told) for each in found[:missed])
    waiting = [each.moment for each in found if each.moment.verdict.value == "waiting"]
    assert all(moment.operation_id is not None for moment in waiting)
    assert "will run" == found[-1].moment.verdict.value


def test_times_are_those_of_the_rule(engine: sa.Engine):
    """With zone and offset, and what the clocks do on that day."""
    paris = {"cron_rule": "30 2 * * *", "timezone": "Europe/Paris"}
    uid = post(engine, when=paris).uid
    day = datetime.fromisoformat("2083-03-28T00:00:00+00:00")

    (found,) = ask(engine, uid, since=day, until=day + DAY).entries

    assert {
        "utc": datetime.fromisoformat("2083-03-28T01:00:00+00:00"),
        "local": "2083-03-28T03:00:00+02:00",
        "zone": "Europe/Paris",
        "offset": "+02:00",
    } == found.occurrence
    assert "02:30 does not exist on this day" in found.notes[0]


def test_what_ran_by_a_rule_that_cannot_be_read_is_listed(engine: sa.Engine):
    """A newer version of the program may have written it; its zone is unknown."""
    uid = post(engine, when=MINUTELY).uid
    tick(make_dispatcher(engine), get_now(engine) + MINUTE)
    unread = {"timing": '{"when":[{"cron_rule":"61 * * * *","timezone":"UTC"}]}'}
    execute(engine, sa.update(scheduled_action_revisions).values(unread))

    found = ask(engine, uid).entries

    assert [("UTC", ())] == [(each.occurrence["zone"], each.notes) for each in found]


def test_parts_are_the_whole(engine: sa.Engine):
    now = get_now(engine)
    begin = now.replace(second=0, microsecond=0) - 4 * MINUTE
    uid = post_since(engine, begin, when=MINUTELY)
    tick(make_dispatcher(engine), now)
    bounds: dict[str, Any] = {"since": begin, "until": begin + 9 * MINUTE}
    whole = ask(engine, uid, **bounds).entries
    parts = turn_pages(lambda page: ask(engine, uid, page, **bounds), 2)

    found = [each for part in parts for each in part]
    assert 9 == len(found)
    assert [each.moment.key for each in whole] == [each.moment.key for each in found]


def test_period_is_bounded(engine: sa.Engine):
    """By default, a week before and after now; at most 400 days."""
    uid = post(engine, when={"cron_rule": f"0 {find_far_hour(engine)} * * *"}).uid
    now = get_now(engine)

    assert 7 == len(ask(engine, uid).entries)
    with pytest.raises(UsageError, match="400 days"):
        ask(engine, uid, since=now, until=now + 401 * DAY)
    with pytest.raises(UsageError, match="not before until"):
        ask(engine, uid, since=now, until=now)
