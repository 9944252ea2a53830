"""What an edit changes is shown before it is saved."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

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


def compare(old: Schedule | None, new: Schedule | None, uid: str = "a") -> RunChanges:
    """Compare rules of time; None: there is no such rule."""
    return compare_runs(ForeseenRuns(old), ForeseenRuns(new), uid, start=START, end=END)


def make_once(*instants: str) -> Schedule:
    """Return the union of due dates in UTC."""
    when = tuple(DueDateModel(due_date=each) for each in instants)
    return make_schedule(TimingModel(when=when))


def list_moves(changes: RunChanges) -> tuple[tuple[datetime, datetime], ...]:
    """Return from when to when runs move."""
    return tuple((each.was, each.is_now) for each in changes.moved)


MONDAYS = [MONDAY_SEVEN + n * WEEK for n in range(4)]
TUESDAYS = [each + 24 * HOUR for each in MONDAYS]
SEVEN, ONCE = make_weekly("0 7 * * 1"), make_once("2026-11-30T09:00:00")
IN_2026, IN_2027 = (
    datetime(year, month, day, 9, tzinfo=UTC)
    for year, month, day in ((2026, 11, 30), (2027, 2, 1))
)
EACH_MINUTE = make_weekly("* * * * *")


NOTHING: tuple[list[datetime], list[datetime], list[object]] = [], [], []
LATER = [(monday, monday + HOUR) for monday in MONDAYS]
BOTH_DATES = make_once("2026-11-30T09:00:00", "2027-02-01T09:00:00")
TWO_RUNS = make_weekly("0 7 * * 1", "0 9 * * 1")
CASES = {
    "same rule": (SEVEN, make_weekly("0 7 * * MON"), *NOTHING),
    # however often it is due, it is not searched
    "each minute": (EACH_MINUTE, EACH_MINUTE, *NOTHING),
    "other time of a day": (SEVEN, make_weekly("0 8 * * 1"), [], [], LATER),
    "other day": (SEVEN, make_weekly("0 7 * * 2"), TUESDAYS, MONDAYS, []),
    "second run of a day": (SEVEN, TWO_RUNS, [m + 2 * HOUR for m in MONDAYS], [], []),
    "new": (None, SEVEN, MONDAYS, [], []),
    "waits for events now": (SEVEN, None, [], MONDAYS, []),
    "never by time": (None, None, *NOTHING),
    # what runs once moves whenever it is, even to another year
    "other date": (
        *(ONCE, make_once("2027-02-01T09:00:00")),
        *([], [], [(IN_2026, IN_2027)]),
    ),
    "one date more": (ONCE, BOTH_DATES, [IN_2027], [], []),
}


@pytest.mark.parametrize(
    ("old", "new", "added", "removed", "moved"), CASES.values(), ids=CASES
)
def test_runs_are_added_removed_or_moved(
    old: Schedule | None,
    new: Schedule | None,
    added: list[datetime],
    removed: list[datetime],
    moved: list[tuple[datetime, datetime]],
) -> None:
    """What both have is no change."""
    changes = compare(old, new)

    assert (added, removed, moved) == (
        [*changes.added],
        [*changes.removed],
        [*list_moves(changes)],
    )
    assert (END, None) == (changes.until, changes.later)


def test_new_jitter_moves_dispatches() -> None:
    """What is compared is when runs are sent, so a new jitter shows."""
    jittered = make_weekly("0 7 * * 1", jitter="PT59M")

    changes = compare(SEVEN, jittered, "weekly")

    assert (MONDAY_SEVEN, jittered.due_at(MONDAY_SEVEN, "weekly")) == list_moves(
        changes
    )[0]


def test_comparison_of_many_occurrences_ends_early() -> None:
    """Rules due every minute are compared as far as MOST_COMPARED goes, and say so."""
    changes = compare(EACH_MINUTE, make_weekly("0 7 * * *"))

    assert START + timedelta(minutes=MOST_COMPARED) == changes.until
    assert all(at < changes.until for at in changes.removed)
    assert () == changes.added == list_moves(changes)


def test_changes_are_json() -> None:
    """Instants are UTC with a Z."""
    changes = compare(
        make_weekly("0 7 23 11 *"), make_weekly("0 8 23 11 *", "0 7 24 11 *")
    )

    assert {
        "added": ["2026-11-24T07:00:00Z"],
        "removed": [],
        "moved": [{"from": "2026-11-23T07:00:00Z", "to": "2026-11-23T08:00:00Z"}],
        "until": "2026-12-21T00:00:00Z",
        "later": None,
    } == json.loads(write_json(changes))


def test_first_difference_after_the_period_is_told() -> None:
    """If nothing in the period differs: a rule of the year is not lost in silence."""
    changes = compare(make_weekly("0 7 1 5 *"), make_weekly("0 7 2 5 *"))

    assert changes.is_empty
    assert datetime(2027, 5, 1, 7, tzinfo=UTC) == changes.later


def test_difference_in_the_period_is_enough() -> None:
    """Then nothing is looked for after it; nor if there are too many occurrences."""
    changes = compare(make_weekly("0 * * * *"), SEVEN)
    full = compare(EACH_MINUTE, make_weekly("* * * 1-11 *"))

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
