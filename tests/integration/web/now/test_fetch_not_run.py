"""What did not run as it should, with the reason and the zone of its action."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.tables import leaderships
from tests.database import execute, read_by
from tests.scheduling import (
    MINUTE,
    MONDAY,
    add_app,
    add_mails,
    get_now,
    post,
    put,
    tell_missed,
)
from web.now.fetch_not_run import NotRun, NotRunKind, NotRunList, fetch_not_run


def put_now(engine: sa.Engine, number: int, **values: Any) -> UUID:
    """Record an operation of now, with *values*."""
    now = get_now(engine)
    return put(engine, number, **{"occurrence": now, "recorded_at": now, **values})


def fetch(engine: sa.Engine, **options: Any) -> NotRunList:
    return read_by(engine, fetch_not_run, **options)


def find_only(found: NotRunList, kind: NotRunKind) -> NotRun:
    """Return the one entry that there is, which is of this kind."""
    ((only, entry),) = ((k, each) for k, of in found.entries.items() for each in of)
    assert kind is only
    return entry


def say(entry: NotRun) -> str:
    """Return why, as the row of its operation says it, too."""
    assert entry.why is not None
    return entry.why.text


def test_missed_occurrences_are_counted(engine: sa.Engine):
    """A row is for a whole outage; its action goes by the clocks of Paris."""
    add_app(engine)
    when = {"cron_rule": "0 7 * * *", "timezone": "Europe/Paris"}
    post(engine, uid="daily", when=when)
    missed = tell_missed(MONDAY, MONDAY + timedelta(days=2), count=3, more=True)
    id_ = put_now(engine, 0, **missed, finished_at=get_now(engine))

    found = fetch(engine)

    entry = find_only(found, NotRunKind.MISSED)
    assert 3 == found.counts[NotRunKind.MISSED]
    assert (3, id_, "Europe/Paris") == (entry.count, entry.last.id, entry.zone.key)
    assert "catch_up does not include them" in say(entry)


def lead_again(engine: sa.Engine) -> tuple[datetime, datetime]:
    """Let somebody lead for ten minutes; return when nobody did, from and until."""
    now = get_now(engine)
    first, back = now - 30 * MINUTE, now - 10 * MINUTE
    led = [
        {"fence": fence, "hostname": "a", "pid": fence, "acquired_at": since}
        for fence, since in ((1, now - 90 * MINUTE), (2, back))
    ]
    execute(engine, sa.insert(leaderships), led)
    return first, back


def test_outage_is_named(engine: sa.Engine):
    """From the first occurrence that was missed until somebody led again."""
    first, back = lead_again(engine)
    at = dict.fromkeys(("recorded_at", "finished_at"), back + MINUTE)
    put_now(engine, 0, occurrence=first, **at, **tell_missed(first))

    entry = find_only(fetch(engine), NotRunKind.MISSED)

    assert entry.why is not None
    assert {first, back} < set(entry.why.parts)
    assert "Nobody led from " in say(entry)


def test_skipped_ones_of_an_action_are_one_entry(engine: sa.Engine):
    """With the latest as the example."""
    skipped = {"state": "skipped", "reason": "overlap"}
    then = get_now(engine) - 9 * MINUTE
    put_now(engine, 0, recorded_at=then, occurrence=then, **skipped)
    latest = put_now(engine, 1, **skipped)

    entry = find_only(fetch(engine), NotRunKind.SKIPPED)

    assert (2, latest) == (entry.count, entry.last.id)
    assert say(entry).startswith("overlap: an earlier run of the action")


def test_uncertain_mails_are_told_with_the_others(engine: sa.Engine):
    """One of three is uncertain; one was sent."""
    id_ = put_now(engine, 0, state="succeeded")
    mails = {"a": "uncertain", "b": "sent", "c": "failed"}
    add_mails(engine, id_, mails, at=get_now(engine))

    found = fetch(engine)

    entry = find_only(found, NotRunKind.UNCERTAIN)
    assert (1, 1) == (entry.count, found.counts[NotRunKind.UNCERTAIN])
    assert say(entry).startswith("1 mail is uncertain: ")


def test_late_ones_say_what_held_them_up(engine: sa.Engine):
    """No worker took them; those that began in time are none."""
    now = get_now(engine)
    for number in range(2):
        due = now - (20 - number) * MINUTE
        times = dict.fromkeys(("occurrence", "recorded_at", "sent_at"), due)
        times["started_at"] = due + 4 * MINUTE
        put_now(engine, number, **times, state="succeeded")
    put_now(engine, 2, sent_at=now, started_at=now, state="succeeded")

    found = fetch(engine)

    entry = find_only(found, NotRunKind.LATE)
    assert (2, 4 * MINUTE) == (entry.count, entry.delay)
    assert "no worker took it for 4 min" in entry.text


def test_jitter_is_not_late(engine: sa.Engine):
    """It is due when its jitter says, and then it was recorded."""
    add_app(engine)
    post(engine, uid="daily", jitter="PT10M")
    now = get_now(engine)
    began = dict.fromkeys(("recorded_at", "started_at"), now - 3 * MINUTE)
    put_now(engine, 0, occurrence=now - 10 * MINUTE, **began, state="succeeded")

    assert 0 == fetch(engine).counts[NotRunKind.LATE]


def test_only_the_app_and_the_day_count(engine: sa.Engine):
    """What others skipped is theirs, and what is long ago is over."""
    put_now(engine, 0, app="other", state="skipped", reason="overlap")
    old = get_now(engine) - timedelta(hours=25)
    put_now(engine, 1, state="skipped", reason="overlap", recorded_at=old)

    assert 0 == fetch(engine, app="app").counts[NotRunKind.SKIPPED]
    assert 1 == fetch(engine).counts[NotRunKind.SKIPPED]


def test_one_outage_is_told_once(engine: sa.Engine):
    """Who missed most comes first; what was missed otherwise is apart."""
    first, back = lead_again(engine)
    at = dict.fromkeys(("recorded_at", "finished_at"), back + MINUTE)
    for number in range(7):
        missed = tell_missed(first, count=number + 1)
        uid = f"action-{number}"
        put_now(engine, number, action_uid=uid, occurrence=first, **at, **missed)
    now = get_now(engine)
    later = put_now(engine, 7, state="missed", reason="outage", finished_at=now)

    found = fetch(engine)

    (outage,) = found.outages
    assert (first, back) == (outage.unled.since, outage.unled.until)
    assert (28, False) == (outage.count, outage.is_more)
    assert 28 + 1 == found.counts[NotRunKind.MISSED]
    assert [f"action-{n}" for n in (6, 5, 4, 3, 2, 1, 0)] == [
        each.uid for each in outage.actions
    ]
    assert later == find_only(found, NotRunKind.MISSED).last.id
