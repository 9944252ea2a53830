"""What an edit changes is shown before it is saved."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from actions.occurrences import Schedule, make_schedule
from actions.posting.changes import (
    MOST_COMPARED,
    ForeseenRuns,
    RunChanges,
    compare_runs,
)
from models.json_form import write_json
from models.when import CronModel, DueDateModel, TimingModel

START = datetime(2026, 11, 21, tzinfo=UTC)
END = START + timedelta(days=30)
MONDAY_SEVEN = datetime(2026, 11, 23, 7, tzinfo=UTC)
WEEK = timedelta(days=7)
HOUR = timedelta(hours=1)


def make_weekly(*rules: str, jitter: str | None = None) -> Schedule:
    """Return the union of cron rules in UTC."""
    when = tuple(CronModel(cron_rule=rule) for rule in rules)
    return make_schedule(TimingModel(when=when, jitter=jitter))


def compare_schedules(
    old: Schedule | None,
    new: Schedule | None,
    uid: str,
    *,
    start: datetime,
    end: datetime,
) -> RunChanges:
    """Compare rules of time; None: there is no such rule."""
    return compare_runs(ForeseenRuns(old), ForeseenRuns(new), uid, start=start, end=end)


def list_moves(changes: RunChanges) -> tuple[tuple[datetime, datetime], ...]:
    """Return from when to when runs move."""
    return tuple((each.was, each.is_now) for each in changes.moved)


def test_same_rule_changes_nothing() -> None:
    """An edit of the name alone has nothing to show."""
    changes = compare_schedules(
        make_weekly("0 7 * * 1"), make_weekly("0 7 * * MON"), "a", start=START, end=END
    )

    assert ((), (), ()) == (changes.added, changes.removed, list_moves(changes))
    assert END == changes.until


def test_same_rule_is_not_searched() -> None:
    """
    Rules due every minute are the same for all of the time, however often that is.
    """
    rule = make_weekly("* * * * *")
    changes = compare_schedules(rule, rule, "a", start=START, end=END)

    assert changes.is_empty
    assert (END, None) == (changes.until, changes.later)


def test_other_time_on_the_same_day_is_a_move() -> None:
    """From 07:00 to 08:00 each Monday moves by an hour."""
    changes = compare_schedules(
        make_weekly("0 7 * * 1"), make_weekly("0 8 * * 1"), "a", start=START, end=END
    )

    mondays = [MONDAY_SEVEN + n * WEEK for n in range(4)]
    assert tuple((monday, monday + HOUR) for monday in mondays) == list_moves(changes)
    assert ((), ()) == (changes.added, changes.removed)


def test_other_day_is_added_and_removed() -> None:
    """From Monday to Tuesday nothing moves: the Mondays go, the Tuesdays come."""
    changes = compare_schedules(
        make_weekly("0 7 * * 1"), make_weekly("0 7 * * 2"), "a", start=START, end=END
    )

    assert MONDAY_SEVEN == changes.removed[0]
    assert MONDAY_SEVEN + timedelta(days=1) == changes.added[0]
    assert () == list_moves(changes)


def test_second_run_of_a_day_is_added() -> None:
    """What both have is no change, so only the new hour is shown."""
    changes = compare_schedules(
        make_weekly("0 7 * * 1"),
        make_weekly("0 7 * * 1", "0 9 * * 1"),
        "a",
        start=START,
        end=END,
    )

    assert MONDAY_SEVEN + 2 * HOUR == changes.added[0]
    assert ((), ()) == (changes.removed, list_moves(changes))


def test_new_jitter_moves_dispatches() -> None:
    """What is compared is when runs are sent, so a new jitter shows."""
    jittered = make_weekly("0 7 * * 1", jitter="PT59M")

    changes = compare_schedules(
        make_weekly("0 7 * * 1"), jittered, "weekly", start=START, end=END
    )

    assert (MONDAY_SEVEN, jittered.due_at(MONDAY_SEVEN, "weekly")) == list_moves(
        changes
    )[0]


def test_no_schedule_before_or_after() -> None:
    """A new action only adds, one that now waits for events only loses."""
    weekly = make_weekly("0 7 * * 1")

    added = compare_schedules(None, weekly, "a", start=START, end=END)
    removed = compare_schedules(weekly, None, "a", start=START, end=END)
    nothing = compare_schedules(None, None, "a", start=START, end=END)

    assert 4 == len(added.added) == len(removed.removed)
    assert () == added.removed == removed.added == nothing.added


def test_comparison_of_many_occurrences_ends_early() -> None:
    """Rules due every minute are compared as far as MOST_COMPARED goes, and say so."""
    changes = compare_schedules(
        make_weekly("* * * * *"), make_weekly("0 7 * * *"), "a", start=START, end=END
    )

    assert START + timedelta(minutes=MOST_COMPARED) == changes.until
    assert all(at < changes.until for at in changes.removed)
    assert () == changes.added == list_moves(changes)


def test_changes_are_json() -> None:
    """Instants are UTC with a Z."""
    changes = compare_schedules(
        make_weekly("0 7 23 11 *"),
        make_weekly("0 8 23 11 *", "0 7 24 11 *"),
        "a",
        start=START,
        end=END,
    )

    assert {
        "added": ["2026-11-24T07:00:00Z"],
        "removed": [],
        "moved": [{"from": "2026-11-23T07:00:00Z", "to": "2026-11-23T08:00:00Z"}],
        "until": "2026-12-21T00:00:00Z",
        "later": None,
    } == json.loads(write_json(changes))


def make_once(*instants: str) -> Schedule:
    """Return the union of due dates in UTC."""
    when = tuple(DueDateModel(due_date=each) for each in instants)
    return make_schedule(TimingModel(when=when))


def test_another_date_is_a_move_whenever_it_is() -> None:
    """Of what runs once, the run itself moves, even to another year."""
    changes = compare_schedules(
        make_once("2026-11-30T09:00:00"),
        make_once("2027-02-01T09:00:00"),
        "a",
        start=START,
        end=END,
    )

    before = datetime(2026, 11, 30, 9, tzinfo=UTC)
    after = datetime(2027, 2, 1, 9, tzinfo=UTC)
    assert ((), (), ((before, after),)) == (
        changes.added,
        changes.removed,
        list_moves(changes),
    )
    assert END == changes.until


def test_one_date_more_is_added() -> None:
    """What both have is no change."""
    changes = compare_schedules(
        make_once("2026-11-30T09:00:00"),
        make_once("2026-11-30T09:00:00", "2028-11-30T09:00:00"),
        "a",
        start=START,
        end=END,
    )

    assert (datetime(2028, 11, 30, 9, tzinfo=UTC),) == changes.added
    assert ((), ()) == (changes.removed, list_moves(changes))


def test_first_difference_after_the_period_is_told() -> None:
    """If nothing in the period differs: a rule of the year is not lost in silence."""
    changes = compare_schedules(
        make_weekly("0 7 1 5 *"), make_weekly("0 7 2 5 *"), "a", start=START, end=END
    )

    assert changes.is_empty
    assert datetime(2027, 5, 1, 7, tzinfo=UTC) == changes.later


def test_difference_in_the_period_is_enough() -> None:
    """Then nothing is looked for after it; nor if there are too many occurrences."""
    hourly, weekly = make_weekly("0 * * * *"), make_weekly("0 7 * * 1")

    changes = compare_schedules(hourly, weekly, "a", start=START, end=END)
    full = compare_schedules(
        make_weekly("* * * * *"), make_weekly("* * * 1-11 *"), "a", start=START, end=END
    )

    assert changes.later is None
    assert (True, None) == (full.is_empty, full.later)
    assert full.until < END


def test_runs_of_users_move_with_their_user() -> None:
    """
    A longer delay moves the run of each; a user whom only one rule has is added or
    removed.
    """
    soon, late = MONDAY_SEVEN, MONDAY_SEVEN + WEEK
    old = ForeseenRuns(by_user={"ann": {soon}, "bob": {soon}, "cid": {soon}})
    new = ForeseenRuns(by_user={"ann": {late}, "cid": {soon}, "dan": {late}})

    changes = compare_runs(old, new, "a", start=START, end=END)

    assert ((late,), (soon,), ((soon, late),)) == (
        changes.added,
        changes.removed,
        list_moves(changes),
    )


def test_rule_of_time_in_place_of_an_event() -> None:
    """The runs of the users go, and those of the rule come; none of them moves."""
    old = ForeseenRuns(by_user={"ann": {MONDAY_SEVEN}})
    new = ForeseenRuns(make_weekly("0 8 * * 1"))

    changes = compare_runs(old, new, "a", start=START, end=END)

    assert (MONDAY_SEVEN,) == changes.removed
    assert MONDAY_SEVEN + HOUR == changes.added[0]
    assert () == list_moves(changes)


def test_events_that_are_not_all_known_end_the_comparison() -> None:
    """Up to there it is complete."""
    end = MONDAY_SEVEN + HOUR
    old = ForeseenRuns(
        by_user={"ann": {MONDAY_SEVEN}, "bob": {end}}, complete_until=end
    )

    changes = compare_runs(old, ForeseenRuns(), "a", start=START, end=END)

    assert (MONDAY_SEVEN,) == changes.removed
    assert end == changes.until
