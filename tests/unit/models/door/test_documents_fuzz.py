"""Properties of the door: whatever comes, a model or a reasoned refusal."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from models.door.action_schema import make_action_schema
from models.door.app_documents import read_small_app, read_small_app_object
from models.door.documents import (
    action_document,
    read_action,
    read_action_object,
    read_events,
)
from models.errors import InvalidDocumentError
from models.timing import make_timing, timing_text
from models.when import TimingModel
from tests.unit.models.documents import ACTION
from tests.unit.models.door.bad_apps import APPS, EVENTS
from tests.unit.models.door.bad_documents import ACTIONS
from tests.unit.models.json_values import nest

pytestmark = pytest.mark.slow  # thousands of documents

#: Most of what is random is refused at the first word.
MANY = 4 * settings().max_examples

CREATED_AT = datetime(2026, 11, 23, 6, 0, 30, tzinfo=UTC)
HOLIDAYS = {"fr": [(CREATED_AT.date(), CREATED_AT.date())]}
SCHEMA = jsonschema.Draft202012Validator(make_action_schema())

#: Words of our documents, so that random ones get past the first door.
VOCABULARY = """
name uid active operations when recipients starts_at ends_at except instead jitter
catch_up weekdays Sat Sun before working_day 09:00 overlap cron_rule due_date every
calendar on after delay timezone anchor users groups retries retry_after rest_after ping
if refreshed expect takes
domains refresh publish send_email template true all yes from until runs within source
file url sql database templates subject text documents id email event user at key
holidays 2026-12-25 2026-12-01T09:00:00Z PT5M P1D daily instance.user.created app.paid
Europe/Paris
"""
WORDS = st.sampled_from(VOCABULARY.split())
TEXTS = WORDS | st.text(max_size=20)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | TEXTS
    | st.sampled_from(["0 7 * * 1", "@daily", "Mon..Fri 09:00", "0 7 30 2 *"])
)
VALUES = nest(SCALARS, TEXTS)

TIMES: list[object] = [
    {"cron_rule": "0 7 * * 1", "timezone": "Europe/Paris"},
    {"due_date": "2026-12-01T09:00:00"},
    {"every": "PT24H"},
    {"every": "P1M", "anchor": "2026-01-31T00:00:00", "timezone": "Asia/Tokyo"},
    {"calendar": "Mon..Fri *-*-* 09:00:00", "timezone": "Europe/Paris"},
    {"working_day": -3, "at": "09:00", "timezone": "Europe/Paris"},
]
ROOT: dict[str, object] = {
    **ACTION,
    "uid": "weekly",
    "operations": {
        "refresh": {"domains": ["a", "b"], "force": True},
        "publish": {"data": "true", "design": "false", "permissions": "false"},
        "send_email": {"template": "inactive"},
        "send_execsum": "true",
        "maintenance": "no",
        "call_webhook": {"url": "https://example.com/hook"},
        "run_task": {
            "name": "t",
            "args": [1, None],
            "kwargs": {"a": [1.5, {}]},
            "priority": 3,
        },
    },
    "recipients": {"users": ["a@b.c"], "groups": ["all"], "only_inactive_users": "1"},
    "starts_at": "2026-12-01T00:00:00",
    "ends_at": "2027-12-01T00:00:00Z",
    "except": [
        "2026-12-25",
        {"from": "2026-12-31", "until": "2027-01-02"},
        {"calendar": "fr"},
        {"weekdays": ["Sat", "Sun"]},
    ],
    "instead": "before",
    "jitter": "PT5M",
    "catch_up": {"runs": "latest", "within": "P1D"},
    "overlap": "queue",
    "retries": 5,
    "retry_after": "PT1M",
    "rest_after": 3,
    "ping": "https://hc-ping.com/x",
    "expect": {"within": "PT30M", "takes": "PT10M"},
    "if": {"refreshed": True},
}
VALID = [{**ROOT, "when": when} for when in TIMES] + [
    # Rules of several zones: a bound needs an offset.
    {**ROOT, "when": TIMES, "starts_at": "2026-12-01T00:00:00+01:00"},
    {**ACTION, "when": {"after": "instance.user.last_seen", "delay": "P7DT30S"}},
    {**ACTION, "when": {"on": "app.paid"}, "starts_at": "2026-12-01T00:00:00"},
]


def check_refusal(error: InvalidDocumentError) -> None:
    """Fail unless every problem has a pointer, a reason and a hint."""
    assert error.problems
    for problem in error.problems:
        assert problem.pointer == "" or problem.pointer.startswith("/")
        assert problem.message
        assert problem.hint


def check_action(read: Callable[[], Any]) -> bool:
    """Fail unless *read* refuses, or returns an action that survives storing."""
    try:
        action = read()
    except InvalidDocumentError as error:
        check_refusal(error)
        return False

    text = json.dumps(action_document(action), allow_nan=False)
    assert action == read_action(text)
    assert text == json.dumps(action_document(read_action(text)))

    try:
        timing = make_timing(action, holidays=HOLIDAYS, created_at=CREATED_AT)
    except InvalidDocumentError as error:
        check_refusal(error)
    else:
        if timing is not None:
            stored = timing_text(timing)
            assert timing == TimingModel.model_validate_json(stored)
            assert stored == timing_text(TimingModel.model_validate_json(stored))
    return True


@st.composite
def mutated(draw: st.DrawFn) -> object:
    """Draw a valid action in which a few random places are something else."""
    document: Any = copy.deepcopy(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(0, 3))):
        place: Any = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            inner = place[key]
            if isinstance(inner, dict | list) and draw(st.booleans()):
                place = inner
                continue
            change = draw(st.sampled_from(["replace", "remove", "rename", "move"]))
            _change(draw, place, key, change)
            break

    return document


def _change(draw: st.DrawFn, place: Any, key: Any, change: str) -> None:
    if change == "replace":
        place[key] = draw(VALUES)
    elif change == "remove":
        del place[key]
    elif isinstance(place, dict) and change == "rename":
        place[draw(TEXTS)] = place.pop(key)
    elif isinstance(place, dict):
        place[draw(TEXTS)] = draw(VALUES)


@settings(max_examples=MANY)
@given(VALUES)
def test_random_json_is_read_or_refused(value: object):
    """Random JSON is never a traceback, whoever reads it."""
    check_action(lambda: read_action_object(value))
    try:
        read_small_app_object(value)
    except InvalidDocumentError as error:
        check_refusal(error)


@settings(max_examples=MANY)
@given(mutated())
@example({**ACTION, "operations": {"run_task": {"name": "t", "kwargs": {"a": None}}}})
@example({**ACTION, "operations": {"refresh": {"domains": "all", "force": True}}})
@example({**ACTION, "except": [{"weekdays": [" sATurday"]}]})
def test_mutated_actions_are_read_or_refused(document: object):
    """
    A valid action with a few changes is refused with reasons, or survives storing; and
    an editor, which has the schema, marks nothing that could be posted.
    """
    if check_action(lambda: read_action_object(copy.deepcopy(document))):
        SCHEMA.validate(document)


@settings(max_examples=MANY)
@given(st.sampled_from([*ACTIONS, *APPS, *EVENTS]), st.data())
def test_torn_texts_are_read_or_refused(bad: Any, data: st.DataObject):
    """A text with a piece cut out or put in is never a traceback."""
    text = bad.text if isinstance(bad.text, bytes) else bad.text[:2000].encode()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    torn = text[:start] + data.draw(st.binary(max_size=5)) + text[end:]

    check_action(lambda: read_action(torn))
    for read in (read_small_app, read_events):
        try:
            read(torn)
        except InvalidDocumentError as error:
            check_refusal(error)


@settings(max_examples=MANY)
@given(st.text(max_size=60) | st.binary(max_size=60))
def test_random_texts_are_read_or_refused(text: str | bytes):
    """Random text and bytes are never a traceback."""
    check_action(lambda: read_action(text))
