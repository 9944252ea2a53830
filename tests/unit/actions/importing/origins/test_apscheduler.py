"""A job of APScheduler becomes an action that is due when its own trigger fires."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from hypothesis import given
from hypothesis import strategies as st

from actions.importing.origins.apscheduler import APSCHEDULER
from actions.importing.origins.imported import Imported, ImportVerdict
from actions.importing.readers.databases import read_job
from tests.unit.actions.importing.documents import (
    NOW,
    find_first,
    get_document,
    get_step,
    get_when,
    import_one,
)
from tests.unit.models.fields.moments import make_instants

PARIS = ZoneInfo("Europe/Paris")


def cron(**fields: Any) -> CronTrigger:
    return CronTrigger(**{"timezone": "UTC", **fields})


def import_job(trigger: Any, **changes: Any) -> Imported:
    """Import what APScheduler would have stored of a job."""
    state = {
        "version": 1,
        "id": "it",
        "func": "shop.jobs:report",
        "trigger": trigger,
        "executor": "default",
        "args": ("fr",),
        "kwargs": {"limit": 5},
        "name": "report",
        "misfire_grace_time": 1,
        "coalesce": True,
        "max_instances": 1,
        "next_run_time": NOW,
        **changes,
    }
    return import_one(read_job("it", pickle.dumps(state)), APSCHEDULER)


def ask_trigger(trigger: Any, count: int) -> list[datetime]:
    """Return when the trigger fires, first from NOW on."""
    found: list[datetime] = []
    last = trigger.get_next_fire_time(None, NOW)
    while last is not None and len(found) < count:
        found.append(last.astimezone(UTC))
        last = trigger.get_next_fire_time(last, last)
    return found


def field(*texts: str) -> st.SearchStrategy[str]:
    return st.sampled_from(texts)


CRON = st.fixed_dictionaries(
    {
        "year": field("*", "*", "2026-2028", "2027", "2026,2028", "2027-2099/2"),
        "month": field("*", "*", "1-3", "*/2", "feb", "jun-aug,dec"),
        "day": field(
            *("*", "*", "last", "2nd fri", "last mon", "1-7", "*/3", "15,last"),
            *("1st mon,3rd wed", "5th tue", "10-20/5,last sun"),
        ),
        "day_of_week": field("*", "*", "mon-fri", "sat", "*/2", "0,4"),
        "hour": field("*", "7", "9-17", "*/6", "22-23"),
        "minute": field("0", "*/15", "30", "5-59/10"),
        "second": field("0", "0", "*/15", "30", "*"),
        "start_date": st.sampled_from([None, "2027-02-03 10:00:00"]),
        "end_date": st.sampled_from([None, "2027-12-01 09:00:00"]),
    }
)


@given(CRON)
def test_cron_trigger_fires_when_the_action_is_due(fields: dict[str, Any]):
    """Whatever its fields, what is imported has the same first twenty occurrences."""
    trigger = CronTrigger(**fields, timezone="UTC")
    found = import_job(trigger)

    if found.document is None:
        refused = ("single years", "No day matches", "never due", "It is over")
        assert any(words in found.notes[0] for words in refused), found.notes
    else:
        assert ask_trigger(trigger, 20) == find_first(found.document, 20)


@given(st.integers(60, 10**7), make_instants(2026, 2028))
def test_interval_trigger_keeps_its_grid(seconds: int, start: datetime):
    """The grid of an interval is that of its start, to the second."""
    start = start.replace(microsecond=0)
    trigger = IntervalTrigger(seconds=seconds, start_date=start, timezone="UTC")
    found = import_job(trigger)

    assert found.document is not None
    assert ImportVerdict.EXACT is found.verdict
    assert ask_trigger(trigger, 10) == find_first(found.document, 10)


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        (cron(week="1-10"), "Weeks 1-10"),
        (cron(week="*/2"), "P2W"),
        (cron(year="2020"), "passed"),
        (DateTrigger(datetime(2026, 11, 1, 9, tzinfo=PARIS)), "has passed"),
        (AndTrigger([cron(hour=7)]), "in common"),
        (OrTrigger([cron(hour=7), cron(hour=9)]), "a list of rules"),
        (CalendarIntervalTrigger(months=1, timezone=PARIS), "such as P1M"),
        ("no trigger", "could not be read"),
    ],
)
def test_what_cannot_be_says_what_to_do(trigger: Any, words: str):
    """What is over, or no rule, is told."""
    found = import_job(trigger)

    assert ImportVerdict.CANNOT_BE is found.verdict
    assert words in found.notes[0]


@pytest.mark.parametrize(
    ("trigger", "when"),
    [
        (cron(day="last"), {"cron_rule": "0 0 L * *", "timezone": "UTC"}),
        (cron(day="2nd fri", hour=9), {"cron_rule": "0 9 * * 5#2", "timezone": "UTC"}),
        (
            DateTrigger(datetime(2026, 12, 1, 9, tzinfo=PARIS)),
            {"due_date": "2026-12-01T09:00:00+01:00", "timezone": "Europe/Paris"},
        ),
    ],
)
def test_triggers(trigger: Any, when: Any):
    """The common ones become rules that people can read."""
    found = import_job(trigger)

    assert (when, ImportVerdict.EXACT) == (get_when(found), found.verdict)


def test_years_are_in_the_calendar():
    """Also such as have a hole between them."""
    holed = get_when(import_job(cron(year="2027,2029")))

    assert holed["calendar"].startswith("2027,2029-")


def test_task_is_the_function_with_its_arguments():
    """The colon of a reference becomes a dot, as Celery names tasks."""
    step = get_step(import_job(cron(hour=7)))

    assert step["name"] == "shop.jobs.report"
    assert (step["args"], step["kwargs"]) == (["fr"], {"limit": 5})


@pytest.mark.parametrize(
    ("changes", "member", "value"),
    [
        ({}, "jitter", "PT2M"),
        ({}, "overlap", "skip"),
        ({"max_instances": 3}, "overlap", "allow"),
        ({}, "catch_up", None),
        ({"misfire_grace_time": None}, "catch_up", {"runs": "latest"}),
        (
            {"misfire_grace_time": 3600, "coalesce": False},
            "catch_up",
            {"runs": "all", "within": "PT1H"},
        ),
        ({"next_run_time": None}, "active", False),
    ],
)
def test_policies_are_kept(changes: dict[str, Any], member: str, value: Any):
    """Jitter, grace, coalescing, instances and pauses each have their member."""
    trigger = IntervalTrigger(hours=1, start_date=NOW, timezone="UTC", jitter=90)
    document = get_document(import_job(trigger, **changes))

    assert document.get(member) == value


def test_argument_that_json_has_not_is_named():
    """Dates and objects of the project cannot be sent as JSON."""
    dated = import_job(cron(hour=7), args=(timedelta(1),))
    owned = import_job(cron(hour=7), kwargs={"shop": Shop()})

    assert "a timedelta" in dated.notes[0]
    assert "Shop" in owned.notes[0]


class Shop:
    """Something of a project's own."""
