"""A new tz database: which instants it moves, and that the leader takes it over."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any

import pytest
import sqlalchemy as sa

from actions.adopting_zones import adopt_part, begin_adoption, date_adoption_back
from actions.lease import Leader
from actions.zone_changes import MovedInstant, find_moved, find_unreadable
from models.database.engine import writing
from models.database.tables import leases, zones
from models.occurrence import make_operation_id
from models.operation_state import Trigger
from tests.database import execute, read_by, write_by
from tests.scheduling import (
    HOUR,
    MINUTE,
    add_app,
    count_revisions,
    edit_action,
    fetch_action,
    make_operation,
    post,
    record_all,
)

PARIS = "Europe/Paris"
#: A Monday noon in winter, before any rule of these tests is due, and not soon past.
NOW = datetime(2083, 1, 4, 12, tzinfo=UTC)
DAILY = {"cron_rule": "0 7 * * *", "timezone": PARIS}
#: In the gap of Paris in March 2083; Algiers has none.
IN_GAP = {"due_date": "2083-03-28T02:30", "timezone": PARIS}


@pytest.fixture(autouse=True)
def _app(engine: sa.Engine) -> None:
    add_app(engine)
    assert Leader(engine).hold()


def make_older(engine: sa.Engine, rules_of: str, zone: str = PARIS) -> None:
    """Make as if *zone* had the rules of another when its actions were posted."""
    data = resources.files("tzdata").joinpath(f"zoneinfo/{rules_of}").read_bytes()
    execute(engine, sa.update(zones).where(zones.c.name == zone).values(data=data))


def find(engine: sa.Engine, **options: Any) -> list[MovedInstant]:
    return read_by(engine, find_moved, now=NOW, **options)


def adopt(
    engine: sa.Engine,
    *,
    ticked_at: datetime = NOW,
    parts: int = 9,
    meanwhile: Callable[[], datetime] = lambda: NOW,
) -> set[str]:
    """Lead, and adopt up to so many *parts* of two actions; return which zones."""
    changed = write_by(engine, begin_adoption, ticked_at=ticked_at)
    if changed is None:
        return set()
    for _part in range(parts):
        is_left = write_by(
            engine, adopt_part, changed, ticked_at=meanwhile(), at_most=2
        )
        if not is_left:
            break
    return set(changed.names)


def test_the_same_rules_move_nothing(engine: sa.Engine):
    post(engine, when=DAILY)

    assert ([], set()) == (find(engine), adopt(engine))


def test_moved_instants_are_told_with_both(engine: sa.Engine):
    """07:00 by London's clocks is an hour earlier by those of Paris."""
    uid = post(engine, when=DAILY).uid
    post(engine, name="elsewhere", when={**DAILY, "timezone": "Asia/Tokyo"})
    make_older(engine, "Europe/London")

    moved = find(engine)

    seven = NOW.replace(hour=7) + timedelta(days=1)
    assert MovedInstant(uid, PARIS, seven, seven - HOUR) == moved[0]
    assert {uid} == {each.action_uid for each in moved}
    assert 100 == len(moved)
    assert moved[:3] == find(engine, limit=3)


def test_only_the_season_that_changed_is_told(engine: sa.Engine):
    """A country that took up summer time moves nothing in winter."""
    post(engine, when={**DAILY, "cron_rule": "0 7 1 * *"})
    make_older(engine, "Africa/Algiers")

    months = [each.after.month for each in find(engine)]

    assert [4, 5, 6, 7, 8, 9, 10] == months


@pytest.mark.parametrize(
    "when",
    [
        {"cron_rule": "0 * * * *", "timezone": PARIS},
        {"cron_rule": "*/5 * * * *", "timezone": PARIS},
        {"every": "PT6H", "anchor": "2026-01-01T00:00:00Z", "timezone": PARIS},
        {"due_date": "2083-07-01T09:00:00+02:00", "timezone": PARIS},
        {"calendar": "*-*-* 07:00 UTC", "timezone": PARIS},
        {"on": "app.x", "timezone": PARIS},
    ],
)
def test_what_no_clock_decides_is_not_told(engine: sa.Engine, when: dict[str, Any]):
    """Each hour, elapsed time, an offset."""
    uid = post(engine, when=when).uid
    post(engine, name="remembers the zone", when=DAILY)
    make_older(engine, "Europe/London")

    told = {each.action_uid for each in find(engine, limit=1000)}

    assert uid not in told
    assert told


@pytest.mark.parametrize(
    ("when", "before"),
    [
        ({"due_date": "2083-07-01T09:00:00"}, "2083-07-01T08:00:00+00:00"),
        (
            {"every": "P1M", "anchor": "2083-06-30T09:00:00"},
            "2083-06-30T08:00:00+00:00",
        ),
        ({"calendar": "2083-07-01 09:00 Europe/Paris"}, "2083-07-01T08:00:00+00:00"),
    ],
)
def test_every_kind_on_the_wall_clock_is_told(
    engine: sa.Engine, when: dict[str, Any], before: str
):
    """Local due dates, calendar months and calendar rules move as cron rules do."""
    post(engine, when={**when, "timezone": PARIS})
    make_older(engine, "Europe/London")

    first = find(engine)[0]

    assert datetime.fromisoformat(before) == first.before
    assert first.before - HOUR == first.after


def test_leader_takes_the_new_rules_over(engine: sa.Engine):
    """
    What was computed by the older rules is computed again, once; the next leader
    finds nothing to do.
    """
    uid = post(engine, when=DAILY).uid
    other = post(engine, name="other", when={**DAILY, "timezone": "UTC"}).uid
    stale = NOW.replace(hour=7) + timedelta(days=1)
    for each in (uid, other):
        edit_action(engine, each, effective_from=NOW, next_due_at=stale)
    make_older(engine, "Europe/London")

    adopted, again = adopt(engine), adopt(engine)

    assert ({PARIS}, set()) == (adopted, again)
    assert stale - HOUR == fetch_action(engine, uid).next_due_at
    assert stale == fetch_action(engine, other).next_due_at
    assert [] == find(engine)


def post_in_gap(engine: sa.Engine, **changes: Any) -> str:
    """Post a due date when there was no gap; the tz database in use has one there."""
    uid = post(engine, when={**IN_GAP, "due_date": "2083-03-28T04:30"}, **changes).uid
    timing = fetch_action(engine, uid).timing.replace("T04:30", "T02:30")
    edit_action(engine, uid, timing=timing)
    make_older(engine, "Africa/Algiers")
    return uid


def test_rule_that_new_clocks_make_unreadable_stops_nobody(engine: sa.Engine):
    """It goes into quarantine, in words; the others are recomputed."""
    bad = post_in_gap(engine)
    good = post(engine, name="good", when=DAILY).uid
    edit_action(engine, good, effective_from=NOW, next_due_at=NOW + HOUR)

    adopted, again = adopt(engine), adopt(engine)

    assert ({PARIS}, set()) == (adopted, again)
    assert NOW.replace(hour=6) + 24 * HOUR == fetch_action(engine, good).next_due_at
    row = fetch_action(engine, bad)
    assert row.quarantined_at is not None
    assert row.quarantine_reason.startswith("'2083-03-28T02:30' does not exist")
    assert "\n" not in row.quarantine_reason
    assert 2 == count_revisions(engine, bad)


@pytest.mark.parametrize(
    "values", [{"quarantined_at": NOW}, {"next_due_at": None}], ids=["known", "over"]
)
def test_what_is_out_already_is_left_alone(engine: sa.Engine, values: dict[str, Any]):
    """What is in quarantine, or has nothing more to do, gets no new revision."""
    uid = post_in_gap(engine)
    edit_action(engine, uid, **values)

    adopt(engine)

    assert 1 == count_revisions(engine, uid)


def test_rules_that_cannot_be_read_any_more_are_told(engine: sa.Engine):
    """Before a leader takes the new clocks over; what moves is told all the same."""
    bad = post_in_gap(engine)
    good = post(engine, name="good", when=DAILY).uid

    moved = {each.action_uid for each in find(engine)}
    unreadable = read_by(engine, find_unreadable)

    assert {good} == moved
    assert [(bad, PARIS)] == [(each.action_uid, each.zone) for each in unreadable]
    assert "does not exist" in unreadable[0].reason


def test_zone_that_is_gone_is_passed_over(engine: sa.Engine):
    """Its actions are named, and the other zones are taken over."""
    lost = post(engine, when=DAILY).uid
    timing = fetch_action(engine, lost).timing.replace(PARIS, "Mars/Base")
    edit_action(engine, lost, timing=timing, next_due_at=NOW)
    post(engine, name="good", when={**DAILY, "timezone": "Asia/Tokyo"})
    execute(
        engine, sa.update(zones).where(zones.c.name == PARIS).values(name="Mars/Base")
    )
    make_older(engine, "UTC", "Asia/Tokyo")

    adopted = adopt(engine)
    unreadable = read_by(engine, find_unreadable)

    assert {"Asia/Tokyo"} == adopted
    assert (NOW, None) == (
        fetch_action(engine, lost).next_due_at,
        fetch_action(engine, lost).quarantined_at,
    )
    assert [(lost, "Mars/Base")] == [(u.action_uid, u.zone) for u in unreadable]
    assert [] == [each for each in find(engine) if each.action_uid == lost]


def test_leader_looks_again_at_what_events_lead_to(engine: sa.Engine):
    """Once, where something waits; too late a bound would lose a run."""
    after = {"after": "app.x", "delay": "P7D", "timezone": PARIS}
    uid = post(engine, when=after).uid
    idle = post(engine, name="idle", when=after).uid
    stale = NOW + timedelta(days=2)
    edit_action(engine, uid, effective_from=NOW, next_due_at=stale)
    edit_action(engine, idle, effective_from=NOW, next_due_at=None)
    make_older(engine, "UTC")

    adopted, again = adopt(engine), adopt(engine)

    assert ({PARIS}, set()) == (adopted, again)
    assert NOW < fetch_action(engine, uid).next_due_at < NOW + timedelta(seconds=1)
    assert fetch_action(engine, idle).next_due_at is None


def post_many(engine: sa.Engine, count: int) -> list[str]:
    """Post actions for 13:10 in Paris, or 12:10 UTC; by London's clocks 13:10 UTC."""
    soon = {**DAILY, "cron_rule": "10 13 * * *"}
    uids = [post(engine, name=f"soon {n}", when=soon).uid for n in range(count)]
    for uid in uids:
        stale = NOW + HOUR + 10 * MINUTE
        edit_action(engine, uid, effective_from=NOW - HOUR, next_due_at=stale)
    make_older(engine, "Europe/London")
    return sorted(uids)


def test_next_leader_goes_on_where_the_former_stopped(engine: sa.Engine):
    """
    From the last tick before the first part: what ticks in between did not find, for it
    was stored as due later, is found after all.
    """
    uids = post_many(engine, 5)
    due_at = NOW + 10 * MINUTE

    adopt(engine, parts=1)
    begun = [fetch_action(engine, uid).next_due_at == due_at for uid in uids]
    late = NOW + 20 * MINUTE
    adopt(engine, ticked_at=late, meanwhile=lambda: late)

    assert [True, True, False, False, False] == begun
    assert {due_at} == {fetch_action(engine, uid).next_due_at for uid in uids}
    assert set() == adopt(engine)


def test_what_a_tick_has_decided_since_is_left(engine: sa.Engine):
    """Or it would be recorded as missed beside its rows."""
    ran, fresh = post_many(engine, 2)
    due_at, tomorrow = NOW + 10 * MINUTE, NOW + 24 * HOUR + 10 * MINUTE
    edit_action(engine, ran, next_due_at=tomorrow)
    run = make_operation(action_uid=ran)._replace(
        id=make_operation_id(ran, due_at), occurrence=due_at, trigger=Trigger.SCHEDULE
    )
    record_all(engine, run)

    adopt(engine, meanwhile=lambda: NOW + 20 * MINUTE)

    assert tomorrow == fetch_action(engine, ran).next_due_at
    assert due_at == fetch_action(engine, fresh).next_due_at


def test_leader_with_another_database_begins_anew(engine: sa.Engine):
    """
    From its own last tick, for the ticks before have decided by other clocks; and with
    all zones, for those that are to it as they were may have been moved.
    """
    *_adopted, uid = post_many(engine, 3)
    adopt(engine, parts=1)
    make_older(engine, PARIS)
    execute(engine, sa.update(leases).values(adopting="2083a"))
    late = NOW + 20 * MINUTE

    zones_adopted = adopt(engine, ticked_at=late, meanwhile=lambda: late)

    assert {PARIS} == zones_adopted
    assert NOW + 24 * HOUR + 10 * MINUTE == fetch_action(engine, uid).next_due_at


def test_local_time_that_older_clocks_had_shown_does_not_come_again(engine: sa.Engine):
    """13:30 in Athens was before the last tick; in Paris it is to come."""
    half_past = {**DAILY, "cron_rule": "30 13 * * *"}
    uid = post(engine, when=half_past).uid
    hourly = post(engine, name="hourly", when={**DAILY, "cron_rule": "30 * * * *"}).uid
    tomorrow = NOW + 24 * HOUR + MINUTE * 30
    for each in (uid, hourly):
        edit_action(
            engine, each, effective_from=NOW - 9 * HOUR, next_due_at=tomorrow - HOUR
        )
    make_older(engine, "Europe/Athens")

    adopt(engine)

    assert tomorrow == fetch_action(engine, uid).next_due_at
    assert NOW + MINUTE * 30 == fetch_action(engine, hourly).next_due_at


def test_clock_that_is_set_back_dates_the_adoption_back(engine: sa.Engine):
    uids = post_many(engine, 3)
    with writing(engine) as connection:
        begin_adoption(connection, ticked_at=NOW + HOUR)
        date_adoption_back(connection, now=NOW)

    adopt(engine)

    due_at = NOW + 10 * MINUTE
    assert {due_at} == {fetch_action(engine, uid).next_due_at for uid in uids}
