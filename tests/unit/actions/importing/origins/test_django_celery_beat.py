"""A row of django-celery-beat becomes an action, whatever its schedule is."""

from __future__ import annotations

from typing import Any

import pytest

from actions.importing.origins.celery_schedules import DJANGO_CELERY_BEAT
from actions.importing.origins.imported import Imported
from tests.unit.actions.importing.documents import (
    get_document,
    get_step,
    get_when,
    import_one,
)

STARS = dict.fromkeys(
    ("minute", "hour", "day_of_month", "month_of_year", "day_of_week"), "*"
)
IN_TOKYO, IN_PARIS = {"timezone": "Asia/Tokyo"}, {"timezone": "Europe/Paris"}
TOKYO = {**STARS, **IN_TOKYO}
SEVEN = {**TOKYO, "minute": "0", "hour": "7"}
ONCE = {"one_off": True}


def django(kind: str, schedule: Any, **columns: Any) -> Imported:
    task = {
        "name": "it",
        "task": "proj.task",
        "args": "[1]",
        "kwargs": "{}",
        "enabled": True,
        "one_off": False,
        "headers": "{}",
        **columns,
    }
    fields = {**task, "kind": kind, "schedule": schedule}
    return import_one(fields, DJANGO_CELERY_BEAT)


@pytest.mark.parametrize(
    ("kind", "schedule", "columns", "when"),
    [
        ("crontab", SEVEN, {}, {"cron_rule": "0 7 * * *", **IN_TOKYO}),
        ("crontab", SEVEN, ONCE, {"due_date": "2026-11-22T22:00:00+00:00", **IN_TOKYO}),
        ("interval", {"every": 3, "period": "days"}, {}, {"every": "P3D", **IN_PARIS}),
        (
            "interval",
            {"every": 2, "period": "hours"},
            {"last_run_at": "2026-11-01 01:02:03.5"},
            {"every": "PT2H", **IN_PARIS, "anchor": "2026-11-01T01:02:03+00:00"},
        ),
        (
            "clocked",
            {"clocked_time": "2026-12-01 08:00:00"},
            ONCE,
            {"due_date": "2026-12-01T08:00:00+00:00", **IN_PARIS},
        ),
    ],
)
def test_schedules_of_django(kind: str, schedule: Any, columns: Any, when: Any):
    """Zones of rows, days of the calendar, grids from the last run, and due dates."""
    assert get_when(django(kind, schedule, **columns)) == when


@pytest.mark.parametrize(
    ("kind", "schedule", "columns", "words"),
    [
        ("interval", {"every": 3, "period": "days"}, {}, "PT72H"),
        ("clocked", {"clocked_time": "2026-01-01 08:00:00"}, {}, "has passed"),
        ("crontab", TOKYO, ONCE, "runs once"),
        (
            *("crontab", TOKYO),
            {**ONCE, "enabled": False, "last_run_at": "2026-01-01 08:00:00"},
            "ran once, as it should",
        ),
        ("crontab", TOKYO, {**ONCE, "total_run_count": 1}, "ran once, as it should"),
        ("crontab", TOKYO, {"description": "for the board"}, "for the board"),
        ("crontab", TOKYO, {"args": "{"}, "could not be read"),
        ("", None, {}, "no schedule"),
        ("solar", {"event": "dawn", "latitude": 1, "longitude": 2}, {}, "the sun"),
    ],
)
def test_what_is_said_of_rows_of_django(
    kind: str, schedule: Any, columns: Any, words: str
):
    """What differs, what is not kept, and why one cannot be."""
    assert words in " ".join(django(kind, schedule, **columns).notes)


def test_columns_of_django():
    """Disabled is not active, dates are bounds, ``expire_seconds`` is ``expires``."""
    found = django(
        "crontab",
        TOKYO,
        enabled=False,
        start_time="2026-12-01 00:00:00",
        expires="2027-12-01 00:00:00",
        priority=9,
        expire_seconds=90,
        headers='{"a": 1}',
        queue="q",
    )
    document, step = get_document(found), get_step(found)

    assert document["active"] is False
    assert document["starts_at"] == "2026-12-01T00:00:00+00:00"
    assert document["ends_at"] == "2027-12-01T00:00:00+00:00"
    assert (step["args"], step["priority"], step["expires"]) == ([1], 9, "PT1M30S")
    assert (step["headers"], step["queue"]) == ({"a": 1}, "q")
