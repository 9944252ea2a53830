"""Options of a task that an action keeps under the same name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from actions.importing.origins.celery_beat import BeatEntry, fill_from_beat
from actions.importing.origins.django_celery_beat import DjangoRow, fill_from_django
from actions.importing.origins.imported import Imported, ImportVerdict
from tests.unit.actions.importing.documents import get_step, import_one


def beat(**options: Any) -> Imported:
    """Row 7: an entry of beat with arguments and options."""
    schedule = {"kind": "crontab", "minute": 0, "hour": 7}
    entry = BeatEntry("it", "proj.task", (1,), {"a": 2}, options, schedule, "UTC")
    return import_one(entry, fill_from_beat)


def test_row_7_arguments_and_options():
    """
    Queue, priority and expiry are those of the entry.
    """
    found = beat(queue="mails", priority=3, expires=3600)

    assert get_step(found) == {
        "name": "proj.task",
        "args": [1],
        "kwargs": {"a": 2},
        "queue": "mails",
        "priority": 3,
        "expires": "PT1H",
    }
    assert ImportVerdict.EXACT is found.verdict


def test_headers_and_exchange_are_kept():
    """
    With an exchange there is no queue.
    """
    step = get_step(beat(exchange="shop", routing_key="mail", headers={"a": "b"}))

    assert (step["exchange"], step["routing_key"]) == ("shop", "mail")
    assert step["headers"] == {"a": "b"}
    assert "queue" not in step


def test_instant_at_which_tasks_expire_ends_the_action():
    """
    A task that is sent after it would be dropped by each worker.
    """
    found = beat(expires=datetime(2027, 1, 1, tzinfo=UTC).isoformat())
    assert found.document is not None

    assert found.document["ends_at"] == "2027-01-01T00:00:00+00:00"
    assert "expires" not in get_step(found)
    assert ImportVerdict.DIFFERS is found.verdict


def test_columns_of_django_are_options():
    """
    ``expire_seconds`` is how long a task may wait.
    """
    stars = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    row = {
        "name": "it",
        "task": "t",
        "args": "[]",
        "kwargs": "{}",
        "enabled": 1,
        "priority": 9,
        "expire_seconds": 90,
        "headers": '{"a": 1}',
        "queue": "q",
    }
    schedule = {**dict.fromkeys(stars, "*"), "timezone": "UTC"}

    step = get_step(import_one(DjangoRow(row, "crontab", schedule), fill_from_django))

    assert (step["priority"], step["expires"]) == (9, "PT1M30S")
    assert (step["headers"], step["queue"]) == ({"a": 1}, "q")
