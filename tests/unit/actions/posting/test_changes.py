"""What an edit changes is shown before it is saved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from actions.occurrences import Schedule, make_schedule
from actions.posting.changes import MOST_COMPARED, compare_schedules
from models.when import CronModel, TimingModel

START = datetime(2026, 11, 21, tzinfo=UTC)
END = START + timedelta(days=30)
MONDAY_SEVEN = datetime(2026, 11, 23, 7, tzinfo=UTC)
WEEK = timedelta(days=7)
HOUR = timedelta(hours=1)


def make_weekly(*rules: str, jitter: str | None = None) -> Schedule:
    """Return the union of cron rules in UTC."""
    when = tuple(CronModel(cron_rule=rule) for rule in rules)
    return make_schedule(TimingModel(when=when, jitter=jitter))


def test_same_rule_changes_nothing() -> None:
    """
    An edit of the name alone has nothing to show.
    """
    changes = compare_schedules(
        make_weekly("0 7 * * 1"), make_weekly("0 7 * * MON"), "a", start=START, end=END
    )

    assert ((), (), ()) == (changes.added, changes.removed, changes.moved)
    assert END == changes.until


def test_other_time_on_the_same_day_is_a_move() -> None:
    """
    From 07:00 to 08:00 each Monday moves by an hour.
    """
    changes = compare_schedules(
        make_weekly("0 7 * * 1"), make_weekly("0 8 * * 1"), "a", start=START, end=END
    )

    mondays = [MONDAY_SEVEN + n * WEEK for n in range(4)]
    assert tuple((monday, monday + HOUR) for monday in mondays) == changes.moved
    assert ((), ()) == (changes.added, changes.removed)


def test_other_day_is_added_and_removed() -> None:
    """
    From Monday to Tuesday nothing moves: the Mondays go, the Tuesdays come.
    """
    changes = compare_schedules(
        make_weekly("0 7 * * 1"), make_weekly("0 7 * * 2"), "a", start=START, end=END
    )

    assert MONDAY_SEVEN == changes.removed[0]
    assert MONDAY_SEVEN + timedelta(days=1) == changes.added[0]
    assert () == changes.moved


def test_second_run_of_a_day_is_added() -> None:
    """
    What both have is no change, so only the new hour is shown.
    """
    changes = compare_schedules(
        make_weekly("0 7 * * 1"),
        make_weekly("0 7 * * 1", "0 9 * * 1"),
        "a",
        start=START,
        end=END,
    )

    assert MONDAY_SEVEN + 2 * HOUR == changes.added[0]
    assert ((), ()) == (changes.removed, changes.moved)


def test_new_jitter_moves_dispatches() -> None:
    """
    What is compared is when runs are sent, so a new jitter shows.
    """
    jittered = make_weekly("0 7 * * 1", jitter="PT59M")

    changes = compare_schedules(
        make_weekly("0 7 * * 1"), jittered, "weekly", start=START, end=END
    )

    assert (MONDAY_SEVEN, jittered.due_at(MONDAY_SEVEN, "weekly")) == changes.moved[0]


def test_no_schedule_before_or_after() -> None:
    """
    A new action only adds, one that now waits for events only loses.
    """
    weekly = make_weekly("0 7 * * 1")

    added = compare_schedules(None, weekly, "a", start=START, end=END)
    removed = compare_schedules(weekly, None, "a", start=START, end=END)
    nothing = compare_schedules(None, None, "a", start=START, end=END)

    assert 4 == len(added.added) == len(removed.removed)
    assert () == added.removed == removed.added == nothing.added


def test_comparison_of_many_occurrences_ends_early() -> None:
    """
    Rules due every minute are compared as far as MOST_COMPARED goes, and say so.
    """
    changes = compare_schedules(
        make_weekly("* * * * *"), make_weekly("0 7 * * *"), "a", start=START, end=END
    )

    assert START + timedelta(minutes=MOST_COMPARED) == changes.until
    assert all(at < changes.until for at in changes.removed)
    assert () == changes.added == changes.moved


def test_changes_are_json() -> None:
    """
    Instants are UTC with a Z.
    """
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
    } == changes.as_json()
