"""A crontab of Celery becomes a rule that is due when Celery's own is."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from celery.schedules import ParseException, crontab
from hypothesis import given
from hypothesis import strategies as st

from actions.importing.origins.celery_schedules import (
    Crontab,
    Interval,
    Solar,
    Unknown,
    schedule_as,
)
from actions.importing.origins.imported import ActionDraft, Defaults, ImportVerdict
from actions.importing.origins.tasks import Task, run_task
from tests.unit.actions.importing.documents import (
    DEFAULTS,
    NOW,
    find_first,
    get_when,
    import_one,
)

UTC_DEFAULTS = replace(DEFAULTS, timezone="UTC")
APP = Celery("oracle", set_as_current=False, broker="memory://")


def fill(draft: ActionDraft, schedule: Any, defaults: Defaults) -> None:
    schedule_as(draft, schedule, defaults)
    run_task(draft, Task("proj.task"), defaults)


def ask_celery(fields: dict[str, str], count: int) -> list[datetime]:
    """Return when beat would send, if it looked at every instant."""
    found: list[datetime] = []
    last = NOW - timedelta(seconds=1)
    for _ in range(count):
        rule = crontab(**fields, nowfun=lambda last=last: last, app=APP)
        last += rule.remaining_estimate(last)
        found.append(last)
    return found


def spans(low: int, high: int, *more: str) -> st.SearchStrategy[str]:
    """Make lists of numbers, ranges (also those that wrap around) and steps."""
    numbers = st.integers(low, high).map(str)
    ranges = st.tuples(numbers, numbers).map("-".join)
    steps = st.integers(2, 7).map(str)
    stepped = st.tuples(ranges, steps).map("/".join)
    starred = steps.map("*/{}".format)
    term = st.one_of(numbers, ranges, stepped, starred, st.sampled_from(("*", *more)))
    return st.one_of(st.just("*"), st.lists(term, min_size=1, max_size=3).map(",".join))


FIELDS = st.fixed_dictionaries(
    {
        "minute": spans(0, 59),
        "hour": spans(0, 23),
        "day_of_month": spans(1, 28),
        "month_of_year": spans(1, 12, "mar", "september-february"),
        "day_of_week": spans(0, 6, "mon-fri", "sunday", "fri-mon"),
    }
)


@given(FIELDS)
def test_crontab_is_due_when_celery_says(fields: dict[str, str]):
    """
    Whatever text Celery reads, the rule has the same first twenty occurrences.
    """
    found = import_one(Crontab(**fields, timezone="UTC"), fill, UTC_DEFAULTS)

    assert found.document is not None, found.notes
    assert ask_celery(fields, 20) == find_first(found.document, 20)


@given(st.text("0123456789*/-,montue ", max_size=12))
def test_what_celery_refuses_cannot_be(text: str):
    """
    Where Celery finds no minutes, neither do we; where it does, they are the same.
    """
    try:
        expected = crontab(minute=text.replace(" ", ""), app=APP).minute
    except (ParseException, ValueError):
        expected = set()
    found = import_one(Crontab(minute=text), fill)

    if found.document is not None:
        assert set(Crontab(minute=text).read().minutes) == expected
    else:
        assert found.notes


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (Interval(10.0), "below a minute"),
        (Interval(0), "below a minute"),
        (Interval(90.5), "fraction"),
        (Solar("sunset", 48.8, 2.3), "due date"),
        (Unknown("<project.Moon>"), "post due dates"),
        (Crontab(day_of_week="7"), "refuses '7'"),
        (Crontab(day_of_month="31", month_of_year="2"), "never due"),
    ],
)
def test_what_cannot_be_says_what_to_do(schedule: Any, words: str):
    """
    No entry is dropped without a word.
    """
    found = import_one(schedule, fill)

    assert found.verdict is ImportVerdict.CANNOT_BE
    assert words in " ".join(found.notes)


def test_night_of_a_clock_change_is_a_difference():
    """
    At seven nothing differs; at half past two, two nights a year do.
    """
    seven = import_one(Crontab(0, 7, timezone="Europe/Paris"), fill)
    night = import_one(Crontab(30, 2, timezone="Europe/Paris"), fill)
    in_utc = import_one(Crontab(30, 2, timezone="UTC"), fill)

    assert (ImportVerdict.EXACT, ()) == (seven.verdict, seven.notes)
    assert ImportVerdict.DIFFERS is night.verdict
    assert "28 March 2027" in night.notes[0]
    assert ImportVerdict.EXACT is in_utc.verdict


def test_text_is_kept_where_it_means_the_same():
    """
    Whoever wrote */15 finds it again.
    """
    kept = import_one(Crontab("*/15", "9-17", day_of_week="mon-fri"), fill)
    wraps = import_one(Crontab(0, "22-3"), fill)
    listed = import_one(Crontab([0, 30], 7), fill)

    assert get_when(kept)["cron_rule"] == "*/15 9-17 * * mon-fri"
    assert get_when(wraps)["cron_rule"] == "0 0-3,22,23 * * *"
    assert get_when(listed)["cron_rule"] == "0,30 7 * * *"
