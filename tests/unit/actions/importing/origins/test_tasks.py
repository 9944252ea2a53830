"""What an entry ran, as ``run_task``."""

from __future__ import annotations

from typing import Any

import pytest

from actions.importing.origins.celery_schedules import CELERY_BEAT
from actions.importing.origins.imported import UNREADABLE, Imported, ImportVerdict
from tests.unit.actions.importing.documents import (
    DEFAULTS,
    get_document,
    get_step,
    import_one,
)

SEVEN = {"kind": "crontab", "minute": 0, "hour": 7}
EXACT, DIFFERS = ImportVerdict.EXACT, ImportVerdict.DIFFERS


def send(*args: Any, kwargs: Any = None, **options: Any) -> Imported:
    """Import an entry of beat."""
    entry = {
        "task": "proj.task",
        "args": args,
        "kwargs": kwargs,
        "options": options,
        "schedule": SEVEN,
        "timezone": "UTC",
    }
    return import_one(entry, CELERY_BEAT)


@pytest.mark.parametrize(
    ("options", "step", "verdict"),
    [
        ({}, {"queue": DEFAULTS.queue}, EXACT),
        ({"queue": "mails"}, {"queue": "mails"}, EXACT),
        # Celery passes over an exchange without a key, and a key without an exchange
        ({"queue": "mails", "exchange": "x"}, {"queue": "mails"}, EXACT),
        ({"queue": "mails", "routing_key": "x"}, {"queue": "mails"}, EXACT),
        ({"exchange": "x"}, {"queue": DEFAULTS.queue}, EXACT),
        ({"routing_key": "x"}, {"queue": DEFAULTS.queue}, EXACT),
        (
            {"exchange": "shop", "routing_key": "mail"},
            {"exchange": "shop", "routing_key": "mail"},
            EXACT,
        ),
        # and over a queue beside both
        (
            {"queue": "mails", "exchange": "shop", "routing_key": "mail"},
            {"exchange": "shop", "routing_key": "mail"},
            EXACT,
        ),
        (
            {"queue": "q", "priority": 3, "expires": 3600, "headers": {"a": "b"}},
            {"queue": "q", "priority": 3, "expires": "PT1H", "headers": {"a": "b"}},
            EXACT,
        ),
        ({"priority": None, "headers": {}, "link": []}, {"queue": "celery"}, EXACT),
        (
            {"time_limit": 600, "soft_time_limit": 0.5, "serializer": "json"},
            {"queue": "celery", "time_limit": "PT10M", "soft_time_limit": "PT1S"},
            EXACT,
        ),
        ({"time_limit": [1]}, {"queue": "celery"}, DIFFERS),
        ({"zeal": 5, "fate": "x"}, {"queue": "celery"}, DIFFERS),
        ({"expires": "2027-01-01T00:00:00"}, {"queue": "celery"}, DIFFERS),
        ({"expires": [1]}, {"queue": "celery"}, DIFFERS),
    ],
)
def test_options_are_keys_of_the_step(
    options: dict[str, Any], step: dict[str, Any], verdict: ImportVerdict
):
    """A queue or an exchange, and what run_task calls the same; others differ."""
    found = send(**options)

    assert {"name": "proj.task", **step} == get_step(found)
    assert verdict is found.verdict


def test_what_is_not_kept_is_told():
    """Each option is one difference; an instant of expiry ends the action."""
    both = send(zeal=5, fate="x")
    ended = send(expires="2027-01-01T00:00:00+00:00")

    assert ["'fate'" in both.notes[0], "'zeal'" in both.notes[1]] == [True] * 2
    assert get_document(ended)["ends_at"] == "2027-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("serializer", "pickle", "must accept that (accept_content)"),
        ("countdown", 30, "'countdown', 30, is not kept"),
    ],
)
def test_what_an_option_did_is_told(option: str, value: object, word: str):
    """Where run_task has nothing like it."""
    found = send(**{option: value})

    assert word in found.notes[0]
    assert {"name": "proj.task", "queue": "celery"} == get_step(found)


def test_arguments_are_kept():
    """In their order and by their names."""
    step = get_step(send(1, [2], kwargs={"a": 3}))

    assert (step["args"], step["kwargs"]) == ([1, [2]], {"a": 3})


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ([{"deep": [{UNREADABLE: "datetime(2026, 1, 1)"}]}], "datetime(2026, 1, 1)"),
        (float("nan"), "/operations/run_task/args/0"),
    ],
)
def test_what_json_has_not_is_named(argument: Any, words: str):
    """In lists and objects, too; Python would write NaN, and the door refuses it."""
    found = send(argument)

    assert found.verdict is ImportVerdict.CANNOT_BE
    assert words in found.notes[0]
