"""What a few fields say of an action, and what they put into its document."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from models.door.documents import read_action
from models.errors import RuleError
from web.editor.builders import BUILDERS, is_typed, open_builders, put_when, show_when
from web.editor.starters import STARTERS, get_starter
from web.forms import Form

ORIGINALS = sorted((Path(__file__).parents[3] / "examples").glob("*.json"))
TEXTS = [
    *(path.read_text() for path in ORIGINALS),
    *(get_starter(kind, date(2026, 11, 22)).text for kind in STARTERS),
]

_NOTHING = Form()


def make_form(**fields: str | list[str]) -> Form:
    """Return what a page sends, of which names are as those of its fields."""
    pairs: list[tuple[str, str]] = []
    for name, value in fields.items():
        values = value if isinstance(value, list) else [value]
        pairs += [(name, each) for each in values]
    return Form(tuple(pairs))


def show(when: Any, **members: Any) -> dict[str, str] | None:
    """Return the fields of a rule that are not empty, by the ends of their names."""
    fields = show_when({"when": when, **members})
    if fields is None:
        return None
    return {name.removeprefix("when_"): value for name, value in fields if value}


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("text", TEXTS)
def test_what_a_builder_shows_changes_nothing(text: str, name: str) -> None:
    """Whatever a document has; what it says in another way is not shown."""
    document = json.loads(text)
    built = open_builders(document, _NOTHING)

    if BUILDERS[name].show(document) is None:
        assert "when" == name
    else:
        assert document == BUILDERS[name].put(document, built)


@pytest.mark.parametrize(
    ("when", "shown"),
    [
        ({"cron_rule": "0 7 * * *"}, {"kind": "daily", "time": "07:00"}),
        ({"cron_rule": "00 07 * * *"}, {"kind": "cron", "rule": "00 07 * * *"}),
        (
            {"cron_rule": "5 9 L * *", "timezone": "Asia/Tokyo"},
            {
                "kind": "monthly",
                "nth": "-1",
                "of": "day",
                "time": "09:05",
                "zone": "Asia/Tokyo",
            },
        ),
        (
            {"cron_rule": "0 9 * * 1#2"},
            {"kind": "monthly", "nth": "2", "of": "1", "time": "09:00"},
        ),
        (
            {"cron_rule": "0 9 * * 5L"},
            {"kind": "monthly", "nth": "-1", "of": "5", "time": "09:00"},
        ),
        (
            {"working_day": -1, "at": "17:00"},
            {"kind": "monthly", "nth": "-1", "of": "workday", "time": "17:00"},
        ),
        ({"cron_rule": "*/5 * * * *"}, {"kind": "cron", "rule": "*/5 * * * *"}),
        ({"cron_rule": "0 7 1 * 1"}, {"kind": "cron", "rule": "0 7 1 * 1"}),
        ({"every": "PT90M"}, {"kind": "interval", "every": "90 minutes"}),
        ({"every": "P"}, {"kind": "interval", "every": "P"}),
        (
            {"due_date": "2026-12-01T09:00:00"},
            {"kind": "once", "date": "2026-12-01", "time": "09:00"},
        ),
        (
            {"after": "app.paid", "delay": "P7D", "at": "09:00"},
            {"kind": "event", "event": "app.paid", "delay": "7 days", "time": "09:00"},
        ),
        ({"on": "app.paid"}, {"kind": "event", "event": "app.paid"}),
        (
            {"after_action": "nightly", "on": "failure", "delay": "PT90M"},
            {
                "kind": "after",
                "former": "nightly",
                "ending": "failure",
                "delay": "90 minutes",
            },
        ),
        (
            {"calendar": "Mon *-*-01 09:00"},
            {"kind": "calendar", "calendar": "Mon *-*-01 09:00"},
        ),
        (
            {"due_date": "2026-12-01T09:00:00+01:00"},
            {"kind": "once", "date": "2026-12-01", "time": "09:00:00+01:00"},
        ),
        ({"due_date": "2026-12-01 09:00:30"}, None),
        ({"due_date": "2026-02-31T09:00:00"}, None),
        ({"working_day": True, "at": "17:00"}, None),
        ({"cron_rule": ["0 7 * * *"]}, None),
        ([{"cron_rule": "0 7 * * *"}], None),
        ("daily", None),
        ({}, {}),
    ],
)
def test_rule_is_shown_if_fields_can_say_it(
    when: Any, shown: dict[str, str] | None
) -> None:
    """Else nothing is, so that nobody believes what it does not say."""
    assert shown == show(when)


def test_weekdays_are_ticked() -> None:
    """From Monday on."""
    for days, ticked in (("1-5", [*"12345"]), ("1,6,0", [*"160"])):
        fields = show_when({"when": {"cron_rule": f"0 17 * * {days}"}}) or []
        assert ("when_kind", "weekdays") == fields[0]
        assert ticked == [value for name, value in fields if name == "when_day"]


def test_working_days_are_those_that_are_not_excepted() -> None:
    """From Monday to Friday, unless the document names its own weekend."""
    fridays: list[Any] = [{"weekdays": ["Fri", "Sat"]}]
    form = make_form(when_kind="working", when_time="5 pm", when_holidays="fr, de")

    plain = put_when({}, form)
    own = put_when({"except": fridays}, form)

    named = [{"calendar": "fr"}, {"calendar": "de"}]
    assert {"when": {"cron_rule": "0 17 * * 1-5"}, "except": named} == plain
    assert {"cron_rule": "0 17 * * *"} == own["when"]
    assert [*fridays, *named] == own["except"]
    for document in (plain, own):
        fields = dict(show_when(document) or [])
        assert "working" == fields["when_kind"]
        assert "fr, de" == fields["when_holidays"]


def test_monthly_invoice_on_the_last_working_day() -> None:
    """Its holidays are added to the days that are excepted already."""
    form = make_form(
        when_kind="monthly",
        when_nth="-1",
        when_of="workday",
        when_time="5:00 PM",
        when_holidays="fr",
        when_zone="Europe/Paris",
    )
    document: dict[str, Any] = {
        "name": "a",
        "except": ["2026-12-28"],
        "overlap": "skip",
    }

    made = put_when(document, form)

    assert {
        "name": "a",
        "when": {"working_day": -1, "at": "17:00", "timezone": "Europe/Paris"},
        "except": ["2026-12-28", {"calendar": "fr"}],
        "overlap": "skip",
    } == made


@pytest.mark.parametrize(
    ("fields", "when"),
    [
        (
            {"kind": "once", "date": "2026-12-12", "time": "1700"},
            {"due_date": "2026-12-12T17:00:00"},
        ),
        (
            {"kind": "event", "event": "app.paid", "delay": "7 days", "time": "9h00"},
            {"after": "app.paid", "delay": "P7D", "at": "09:00"},
        ),
    ],
)
def test_rule_is_what_hands_typed(fields: dict[str, str], when: Any) -> None:
    """Dates, times and durations in the forms that people know."""
    form = make_form(**{f"when_{name}": each for name, each in fields.items()})

    assert {"when": when} == put_when({}, form)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "No kind is chosen"),
        (
            {"when_kind": "daily", "when_time": "5"},
            "'5' is not a time of day. Write 05",
        ),
        ({"when_kind": "daily", "when_time": "13pm"}, "is not a time of day"),
        ({"when_kind": "daily", "when_time": "07:00:30"}, "is not a time of day"),
        ({"when_kind": "daily"}, "No time is chosen. Write hours and minutes"),
        ({"when_kind": "weekdays", "when_time": "07:00"}, "No weekday"),
        ({"when_kind": "once", "when_time": "07:00"}, "No date"),
        ({"when_kind": "after"}, "No action is chosen"),
        ({"when_kind": "interval"}, "No interval is chosen"),
        ({"when_kind": "event"}, "No event is chosen"),
        ({"when_kind": "cron"}, "No rule is chosen"),
        ({"when_kind": "calendar"}, "No rule is chosen"),
    ],
)
def test_fields_that_say_nothing_are_refused(fields: dict[str, str], told: str) -> None:
    """With what to do."""
    with pytest.raises(RuleError, match=told):
        put_when({}, make_form(**fields))


def test_action_is_built_from_nothing() -> None:
    """The three builders make what the door accepts, in the usual order."""
    form = make_form(
        when_kind="weekdays",
        when_day=["1", "3"],
        when_time="17h00",
        who_groups="all",
        who_include_inactive_users="include_inactive_users",
        what_name="report",
        what_refresh="refresh",
        what_refresh_domains="a, b",
        what_publish="publish",
        what_publish_data="data",
        what_send_execsum="send_execsum",
    )

    made: Any = {}
    for name in BUILDERS:
        made = BUILDERS[name].put(made, form)

    assert {
        "name": "report",
        "operations": {
            "refresh": {"domains": ["a", "b"]},
            "publish": {"data": True},
            "send_execsum": True,
        },
        "when": {"cron_rule": "0 17 * * 1,3"},
        "recipients": {"groups": ["all"], "include_inactive_users": True},
    } == made
    assert list(made) == ["name", "operations", "when", "recipients"]
    assert read_action(json.dumps(made)).name == "report"


def test_what_the_fields_do_not_have_stays() -> None:
    """Other arguments, steps of packages, and how a switch was written."""
    task = {"name": "a.b", "kwargs": {"x": 1}}
    document: dict[str, Any] = {
        "name": "a",
        "operations": {
            "publish": "yes",
            "run_task": task,
            "own_step": 7,
            "send_execsum": False,
        },
        "recipients": {"users": ["x"], "only_inactive_users": True},
        "uid": "b",
    }
    built = open_builders(document, _NOTHING)
    renamed = Form((("what_name", "c"), *(e for e in built.fields if "_name" not in e)))
    fields = {
        name: value for name, value in built.fields if name != "what_run_task_queue"
    }
    queued = make_form(**fields, what_run_task_queue="q")
    for typed, kept in (('{"y": [2]}', {"y": [2]}), ("{", "{")):
        given = make_form(**dict(built.fields) | {"what_run_task_kwargs": typed})
        put: Any = BUILDERS["what"].put(document, given)
        assert kept == put["operations"]["run_task"]["kwargs"]

    assert document == BUILDERS["what"].put(document, built)
    assert {**document, "name": "c"} == BUILDERS["what"].put(document, renamed)
    changed: Any = BUILDERS["what"].put(document, queued)
    assert {**task, "queue": "q"} == changed["operations"]["run_task"]
    assert document == BUILDERS["who"].put(document, built)


def test_what_follows_a_failure_has_fields() -> None:
    """Durations in words; what is no number is the door's, and 0 is one."""
    fields = {
        "what_retries": "0",
        "what_retry_after": "90 s",
        "what_rest_after": "x",
        "what_if_refreshed": "refreshed",
    }
    document: Any = {"name": "a", "if": {"refreshed": True}, "retry_after": "PT1M"}

    made = BUILDERS["what"].put({"name": "a"}, make_form(what_name="a", **fields))
    shown = dict(BUILDERS["what"].show(made) or [])
    kept = BUILDERS["what"].put(document, open_builders(document, _NOTHING))
    emptied = BUILDERS["what"].put(document, make_form(what_name="a"))

    assert {
        "name": "a",
        "if": {"refreshed": True},
        "retries": 0,
        "retry_after": "PT90S",
        "rest_after": "x",
    } == made
    assert fields | {"what_retry_after": "90 seconds"} == {k: shown[k] for k in fields}
    assert (document, {"name": "a"}) == (kept, emptied)


def test_what_was_typed_stays_until_the_document_is_asked_for() -> None:
    """The others follow the document."""
    document: dict[str, Any] = {"name": "a", "when": {"cron_rule": "0 7 * * *"}}
    opened = open_builders(document, _NOTHING)
    typed = make_form(**dict(opened.fields) | {"when_time": "08"})
    later: dict[str, Any] = {"name": "b", "when": {"cron_rule": "0 9 * * *"}}

    kept = open_builders(later, typed)
    anew = open_builders(later, typed, anew="when")

    assert [False, True, False] == [is_typed(name, typed) for name in BUILDERS]
    assert ("b", "08") == (kept.get("what_name"), kept.get("when_time"))
    assert "09:00" == anew.get("when_time")
    assert kept.get("when_shown") == anew.get("when_shown")
