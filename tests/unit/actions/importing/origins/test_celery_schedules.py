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

from actions.importing.origins.celery_schedules import CELERY_BEAT
from actions.importing.origins.imported import Imported, ImportVerdict
from tests.unit.actions.importing.documents import (
    DEFAULTS,
    NOW,
    find_first,
    get_document,
    get_when,
    import_one,
)

APP = Celery("oracle", set_as_current=False, broker="memory://")


def beat(timezone: str | None = "Europe/Paris", **schedule: Any) -> Imported:
    """Import an entry with this schedule, a crontab unless it says another kind."""
    schedule = {"kind": "crontab", **schedule}
    entry = {"task": "proj.task", "schedule": schedule, "timezone": timezone}
    return import_one(entry, CELERY_BEAT, replace(DEFAULTS, timezone="UTC"))


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
    """Whatever text Celery reads, the rule has the same first twenty occurrences."""
    document = get_document(beat("UTC", **fields))

    assert ask_celery(fields, 20) == find_first(document, 20)


@given(st.text("0123456789*/-,montue ", max_size=12))
def test_what_celery_refuses_cannot_be(text: str):
    """Where Celery finds no minutes, nor do we; where it does, they are the same."""
    try:
        expected = crontab(minute=text.replace(" ", ""), app=APP).minute
    except (ParseException, ValueError):
        expected = set()
    found = beat("UTC", minute=text)

    if found.document is None:  # Celery passes over what follows "0-0"
        assert found.verdict is ImportVerdict.CANNOT_BE
    else:
        first = find_first(found.document, 60)
        assert {each.minute for each in first} == expected


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ({"kind": "interval", "seconds": 0.5}, "in a loop"),
        ({"kind": "interval", "seconds": 0}, "below a second"),
        ({"kind": "interval", "seconds": 90.5}, "fraction"),
        (
            {"kind": "solar", "event": "sunset", "latitude": 1, "longitude": 2},
            "due date",
        ),
        ({"kind": "unknown", "text": "<project.Moon>"}, "post due dates"),
        ({"day_of_week": "7"}, "refuses '7'"),
        ({"minute": "5/10"}, "refuses '5/10'"),
        ({"minute": "*/0"}, "refuses '*/0'"),
        ({"day_of_month": "31", "month_of_year": "2"}, "never due"),
    ],
)
def test_what_cannot_be_says_what_to_do(schedule: Any, words: str):
    """No entry is dropped without a word."""
    found = beat(**schedule)

    assert found.verdict is ImportVerdict.CANNOT_BE
    assert words in " ".join(found.notes)


@pytest.mark.parametrize(
    ("schedule", "when", "difference"),
    [
        ({"minute": 0, "hour": 7}, {"cron_rule": "0 7 * * *"}, ""),
        # text is kept where it means the same
        (
            {"minute": "*/15", "hour": "9-17", "day_of_week": "mon-fri"},
            {"cron_rule": "*/15 9-17 * * mon-fri"},
            "",
        ),
        ({"minute": [0, 30], "hour": 7}, {"cron_rule": "0,30 7 * * *"}, ""),
        (
            {"minute": 0, "hour": "20-3"},
            {"cron_rule": "0 0-3,20-23 * * *"},
            "28 March 2027",
        ),
        (
            {"minute": 0, "hour": 0, "day_of_month": "1", "day_of_week": "mon"},
            {"calendar": "Mon *-*-01 00:00"},
            "must both hold",
        ),
        ({"minute": 30, "hour": 2}, {"cron_rule": "30 2 * * *"}, "28 March 2027"),
        ({"kind": "interval", "seconds": 1800}, {"every": "PT30M"}, "fixed grid"),
        ({"kind": "interval", "seconds": 90}, {"every": "PT1M30S"}, "fixed grid"),
    ],
)
def test_schedules(schedule: Any, when: Any, difference: str):
    """What is not the same is said: two day fields, nights of clock changes, a grid."""
    found = beat(**schedule)

    assert {**when, "timezone": "Europe/Paris"} == get_when(found)
    assert bool(difference) == (found.verdict is ImportVerdict.DIFFERS)
    assert difference in "".join(found.notes)


def test_zone_of_the_host_is_told():
    """An application without a zone goes by its host's; UTC has no such nights."""
    found = beat(None, minute=30, hour=2)

    assert found.verdict is ImportVerdict.EXACT
    assert "Read in UTC" in found.notes[0]


def test_seconds_are_exact():
    """Beat, too, sends each, whether or not the former one is over."""
    found = beat(kind="interval", seconds=10.0)

    assert found.verdict is ImportVerdict.EXACT
    assert found.document is not None
    assert "allow" == found.document["overlap"]
    assert "PT10S" == get_when(found)["every"]
