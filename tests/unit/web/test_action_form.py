"""An action as a form, and the form as an action."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from models.door.documents import read_action
from overview.starters.starters import STARTERS, get_starter
from web.action_form import ActionForm, Kind, apply_form, show_action

ORIGINALS = sorted((Path(__file__).parents[2] / "examples").glob("*.json"))
TEXTS = [
    *(path.read_text() for path in ORIGINALS),
    *(get_starter(kind, date(2026, 11, 22)).text for kind in STARTERS),
]
STEPS = {"send_execsum": True}


def change(text: str, days: tuple[str, ...] | None = None, /, **values: str) -> str:
    """Return *text* after these fields of its form were changed."""
    document = json.loads(text or "{}")
    form = show_action(document)
    changed = replace(form, values={**form.values, **values}, days=days or form.days)
    return apply_form(text, document, changed)


def make_text(**members: Any) -> str:
    return json.dumps({"name": "a", "operations": STEPS, **members})


@pytest.mark.parametrize("text", TEXTS)
def test_form_that_nobody_changed_changes_nothing(text: str) -> None:
    """
    Byte for byte, whatever the text has that the form does not show.
    """
    assert text == change(text)


@pytest.mark.parametrize("text", TEXTS)
def test_another_name_leaves_the_rest_as_it_is_written(text: str) -> None:
    """
    Only the name is another one.
    """
    old = json.loads(text)["name"]

    assert text.replace(json.dumps(old), '"é"', 1) == change(text, name="é")


@pytest.mark.parametrize(
    ("when", "kind", "shown"),
    [
        ({"cron_rule": "0 7 * * *"}, Kind.DAILY, {"time": "07:00"}),
        ({"cron_rule": "5 23 * * MON-FRI"}, Kind.WEEKLY, {"time": "23:05"}),
        ({"cron_rule": "*/5 * * * *"}, Kind.CRON, {"rule": "*/5 * * * *"}),
        ({"cron_rule": "0 7 * * 5L"}, Kind.CRON, {"rule": "0 7 * * 5L"}),
        ({"cron_rule": "99 7 * * *"}, Kind.CRON, {"rule": "99 7 * * *"}),
        ({"every": "PT90M"}, Kind.INTERVAL, {"every": "90 minutes"}),
        (
            {"due_date": "2026-12-01T09:00:00"},
            Kind.ONCE,
            {"date": "2026-12-01T09:00"},
        ),
        ({"due_date": "2026-12-01T09:00:07"}, Kind.AS_WRITTEN, {}),
        ({"due_date": "2026-12-01T09:00:00Z"}, Kind.AS_WRITTEN, {}),
        ({"on": "app.x"}, Kind.ON_EVENT, {"event": "app.x"}),
        (
            {"after": "app.x", "delay": "P7DT30S"},
            Kind.AFTER_EVENT,
            {"event": "app.x", "delay": "7 days 30 seconds", "at": ""},
        ),
        (
            {"after": "app.x", "delay": "P7D", "at": "09:00"},
            Kind.AFTER_EVENT,
            {"event": "app.x", "delay": "7 days", "at": "09:00"},
        ),
        (
            {"on": "app.x", "at": "09:00"},
            Kind.ON_EVENT,
            {"event": "app.x", "at": "09:00"},
        ),
        ({"calendar": "Mon *-*-* 09:00"}, Kind.AS_WRITTEN, {}),
        ([{"cron_rule": "0 7 * * *"}], Kind.AS_WRITTEN, {}),
        ({"cron_rule": 7}, Kind.AS_WRITTEN, {}),
        (7, Kind.AS_WRITTEN, {}),
    ],
)
def test_common_kinds_are_shown_as_fields(
    when: Any, kind: Kind, shown: dict[str, str]
) -> None:
    """
    What is not one of them stays as it is written.
    """
    form = show_action({"name": "a", "when": when})

    assert kind == form.kind
    assert shown == {name: form.get(name) for name in shown}


@pytest.mark.parametrize(
    ("changed", "days", "when"),
    [
        ({"time": "18:05"}, None, {"cron_rule": "5 18 * * *"}),
        ({"kind": Kind.WEEKLY}, None, {"cron_rule": "0 7 * * 1-5"}),
        ({"kind": Kind.WEEKLY}, ("6", "0"), {"cron_rule": "0 7 * * 6,0"}),
        ({"zone": "Asia/Tokyo"}, None, {"cron_rule": "0 7 * * *"}),
        ({"kind": Kind.CRON, "rule": "@daily "}, None, {"cron_rule": "@daily"}),
        ({"kind": Kind.INTERVAL, "every": "2 hours"}, None, {"every": "PT2H"}),
        (
            {"kind": Kind.INTERVAL, "every": "PT2H", "anchor": "2026-01-01T00:00"},
            None,
            {"every": "PT2H", "anchor": "2026-01-01T00:00"},
        ),
        (
            {"kind": Kind.ONCE, "date": "2026-12-01T09:00"},
            None,
            {"due_date": "2026-12-01T09:00:00"},
        ),
        ({"kind": Kind.ON_EVENT, "event": "app.x"}, None, {"on": "app.x"}),
        (
            {"kind": Kind.AFTER_EVENT, "event": "app.x", "delay": "1 week"},
            None,
            {"after": "app.x", "delay": "P1W"},
        ),
        (
            {"kind": Kind.AFTER_EVENT, "event": "x", "delay": "1 week", "at": "09:00 "},
            None,
            {"after": "x", "delay": "P1W", "at": "09:00"},
        ),
        (
            {"kind": Kind.ON_EVENT, "event": "app.x", "at": "09:00"},
            None,
            {"on": "app.x", "at": "09:00"},
        ),
    ],
)
def test_other_fields_are_another_rule(
    changed: dict[str, str], days: tuple[str, ...] | None, when: dict[str, str]
) -> None:
    """
    In the zone that the form has.
    """
    text = make_text(when={"cron_rule": "0 7 * * *", "timezone": "Europe/Paris"})

    found = json.loads(change(text, days, **changed))["when"]

    assert {**when, "timezone": changed.get("zone", "Europe/Paris")} == found


@pytest.mark.parametrize(
    ("operations", "changed", "expected"),
    [
        (STEPS, {"send_execsum": "", "refresh": "on"}, {"refresh": {"domains": "all"}}),
        (STEPS, {"refresh": "on"}, STEPS | {"refresh": {"domains": "all"}}),
        (STEPS, {"publish": "on"}, STEPS | {"publish": {"data": True}}),
        (
            {"refresh": {"domains": ["a"], "force": True}},
            {"domains": "a, b,"},
            {"refresh": {"domains": ["a", "b"], "force": True}},
        ),
        (
            {"refresh": True, "publish": "true"},
            {},
            {"refresh": True, "publish": "true"},
        ),
        (
            {"publish": True},
            {"design": ""},
            {"publish": {"data": True, "design": False, "permissions": True}},
        ),
        ({}, {"send_email": "on", "template": "t"}, {"send_email": {"template": "t"}}),
        ({}, {"call_webhook": "on", "url": "u"}, {"call_webhook": {"url": "u"}}),
        (
            {"run_task": {"name": "a", "kwargs": {"b": 1}, "queue": "c"}},
            {"task": "d", "queue": ""},
            {"run_task": {"name": "d", "kwargs": {"b": 1}}},
        ),
        ({"maintenance": True}, {}, {"maintenance": True}),
        ({"send_execsum": "false"}, {"send_execsum": "on"}, {"send_execsum": True}),
    ],
)
def test_boxes_are_steps(
    operations: Any, changed: dict[str, str], expected: dict[str, Any]
) -> None:
    """
    What the form does not show of a step stays.
    """
    text = make_text(when={"cron_rule": "0 7 * * *"}, operations=operations)

    assert expected == json.loads(change(text, **changed))["operations"]


def test_recipients_are_lists() -> None:
    """
    An empty list is left out, and so are recipients without any.
    """
    text = make_text(
        when={"cron_rule": "0 7 * * *"},
        recipients={"groups": ["all"], "only_inactive_users": True},
    )

    more = json.loads(change(text, users="ann, bob", not_activated="on"))["recipients"]
    fewer = json.loads(change(text, groups=""))["recipients"]

    assert {
        "groups": ["all"],
        "only_inactive_users": True,
        "users": ["ann", "bob"],
        "include_inactivated_users": True,
    } == more
    assert {"only_inactive_users": True} == fewer


def test_form_alone_makes_an_action() -> None:
    """
    From nothing, with the fewest fields.
    """
    form = show_action({})
    values = {**form.values, "name": "first", "send_execsum": "on", "groups": "all"}

    text = apply_form("", {}, replace(form, values=values))

    action = read_action(text)
    assert ("first", ("all",)) == (action.name, action.recipients.groups)  # type: ignore[union-attr]  # it has some
    assert '"cron_rule": "0 7 * * *"' in text


def test_what_is_not_shown_is_named() -> None:
    """
    So that nobody takes the form for the whole.
    """
    form = show_action({"name": "a", "jitter": "PT5M", "except": []})

    assert ("jitter", "except") == form.kept
    assert "" == ActionForm().get("name")


@pytest.mark.parametrize("document", [{"name": 7, "operations": [], "recipients": 3}])
def test_document_that_the_door_refuses_can_be_shown(document: Any) -> None:
    """
    And is left as it is.
    """
    text = json.dumps({**document, "when": 1})

    assert text == change(text)
