"""Tests of what the door lets in, and what it says of what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from models.door.app_documents import read_small_app
from models.door.documents import (
    ReadContext,
    action_document,
    read_action,
    read_action_object,
    read_actions,
    read_event_object,
    read_events,
)
from models.errors import InvalidDocumentError
from models.event import EventName
from models.operation_state import Overlap, Queue
from models.when import AfterEventModel, CronModel, IntervalModel
from tests.unit.models.documents import (
    ACTION,
    EVENT,
    Bad,
    action,
    find_problems,
    on_event,
    steps,
    when,
)
from tests.unit.models.door.bad_apps import APPS, EVENTS
from tests.unit.models.door.bad_documents import ACTIONS

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    ("read", "bad"),
    [
        pytest.param(read, bad, id=f"{kind}-{number}")
        for kind, read, rows in (
            ("action", read_action, ACTIONS),
            ("app", read_small_app, APPS),
            ("event", read_events, EVENTS),
        )
        for number, bad in enumerate(rows)
    ],
)
def test_bad_document_is_refused_with_reason(
    read: Callable[[str | bytes], object], bad: Bad
):
    """Each malformed one is refused with a pointer, a reason and a way out."""
    problems = find_problems(read, bad.text)

    said = [
        problem
        for problem in problems
        if problem.pointer == bad.pointer
        and bad.reason in problem.message
        and bad.hint in problem.hint
    ]
    assert said, problems
    assert all(problem.message and problem.hint for problem in problems)


def test_first_example_is_accepted_as_it_is():
    """The weekly update of the original (docs/origin.md) is read with real booleans."""
    weekly = read_action((EXAMPLES / "weekly-update.json").read_bytes())

    assert weekly.active is True
    assert CronModel(cron_rule="0 7 * * 1", timezone="Europe/Paris") == weekly.when
    assert ("refresh", "publish", "send_execsum") == weekly.operations.step_names
    assert Queue.HEAVY == weekly.operations.queue
    assert {"data": True, "design": False, "permissions": False} == (
        action_document(weekly)["operations"]["publish"]  # type: ignore[index,call-overload]
    )


def test_second_example_is_accepted_as_it_is():
    """The mail to users who stay away is read, delay and all."""
    mail = read_action((EXAMPLES / "bring-back-inactive-users.json").read_bytes())

    assert mail.recipients is not None
    assert ("all",) == mail.recipients.groups
    assert (
        AfterEventModel(after="instance.user.last_seen", delay="P7DT30S") == mail.when
    )


@pytest.mark.parametrize(
    ("rule", "pointer"),
    [
        ({"cronrule": "0 7 * * 1", "at": "09:00"}, "/when/cronrule"),
        ({"working_days": 5, "at": "09:00"}, "/when/working_days"),
        ({"evry": "PT1H", "anchor": "2026-01-01T00:00:00Z"}, "/when/evry"),
        ({"afer": "app.paid", "delay": "P1D", "at": "09:00"}, "/when/afer"),
    ],
)
def test_misspelt_kind_is_the_only_problem(rule: dict[str, object], pointer: str):
    """What stands beside it is right as soon as it is spelled well."""
    (problem,) = find_problems(read_action, when(**rule))

    assert pointer == problem.pointer
    assert "Did you mean" in problem.hint


def test_all_problems_are_told_in_document_order():
    """Nobody has to post five times to learn of five mistakes."""
    document = {
        "overlap": "skipp",
        "when": {"timezone": "Mars", "cron_rule": "61 * * * *"},
        "active": "truee",
        "nmae": "x",
        "operations": {"send_email": {"template": ""}},
        "name": "x",
        "recipients": {"groups": [1, "", "all"]},
    }

    pointers = [
        problem.pointer for problem in find_problems(read_action, json.dumps(document))
    ]

    assert [
        "/overlap",
        "/when/timezone",
        "/when/cron_rule",
        "/active",
        "/nmae",
        "/operations/send_email/template",
        "/recipients/groups/0",
        "/recipients/groups/1",
    ] == pointers


def test_problems_have_a_bound():
    """A document that is wrong everywhere is not answered with a book."""
    text = json.dumps({**ACTION, **{f"key{n}": n for n in range(150)}})

    assert 100 == len(find_problems(read_action, text))


def test_password_is_never_shown():
    """A message about an address with a password in it leaves the password out."""
    text = steps(call_webhook={"url": "https://me:secret@example.com/"})

    assert not any(
        "secret" in str(problem) for problem in find_problems(read_action, text)
    )


@pytest.mark.parametrize("word", [True, "true", "True", "yes", "on", "1", "t", "y", 1])
def test_words_for_true(word: object):
    """Booleans may be written as the original examples write them."""
    assert read_action(action(active=word)).active is True


@pytest.mark.parametrize("word", [False, "false", "FALSE", "no", "off", "0", "n", 0])
def test_words_for_false(word: object):
    """A step whose value is any word for false is not asked for."""
    read = read_action(
        steps(maintenance=True, refresh=word, publish=word, run_task=word)
    )

    assert ("maintenance",) == read.operations.step_names


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        *(
            ({"refresh": every}, {"refresh": True})
            for every in (True, "true", "all", {"domains": "all"})
        ),
        (
            {"publish": "true"},
            {"publish": dict.fromkeys(("data", "design", "permissions"), True)},
        ),
    ],
)
def test_all_of_it_has_one_canonical_form(
    asked: dict[str, object], kept: dict[str, object]
):
    """All domains, and all three parts."""
    assert kept == action_document(read_action(steps(**asked)))["operations"]


def test_schema_and_byte_order_mark_are_passed_over():
    """What editors write for themselves is neither refused nor stored."""
    plain = action()
    named = json.dumps({"$schema": "action.schema.json", **json.loads(plain)})

    for text in (f"\ufeff{plain}", b"\xef\xbb\xbf" + named.encode(), named):
        assert read_action(plain) == read_action(text)
    assert "$schema" not in action_document(read_action(named))
    lines = f"\ufeff{action(name='a')}\n{action(name='b')}\n"
    many = read_actions(lines.encode())
    assert isinstance(many, tuple)
    assert 2 == len(many)


def test_null_is_absent():
    """An optional field that is null is as if it were not there."""
    nulls = dict.fromkeys(("uid", "starts_at", "ends_at", "jitter", "overlap"))

    assert read_action(action()) == read_action(action(**nulls))


def test_zone_of_a_rule_without_one():
    """A rule without a zone gets the default zone, wherever the rule stands."""
    rules = [{"cron_rule": "0 7 * * 1"}, {"every": "PT1H", "timezone": "UTC"}]

    read = read_action(action(when=rules), ReadContext("Asia/Kolkata"))

    assert (
        CronModel(cron_rule="0 7 * * 1", timezone="Asia/Kolkata"),
        IntervalModel(every="PT1H", timezone="UTC"),
    ) == read.when


def test_stored_zone_does_not_change_with_the_default():
    """An action stays in its zone when the default zone of the installation changes."""
    read = read_action(when(cron_rule="0 7 * * 1"), ReadContext("Asia/Tokyo"))

    assert read == read_action_object(action_document(read), ReadContext("UTC"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2027-03-28T03:00:00", datetime(2027, 3, 28, 1, tzinfo=UTC)),
        ("2027-10-31T02:30:00", datetime(2027, 10, 31, 0, 30, tzinfo=UTC)),
        ("2027-10-31T02:30:00+01:00", datetime(2027, 10, 31, 1, 30, tzinfo=UTC)),
    ],
)
def test_bounds_are_local_unless_they_have_an_offset(text: str, expected: datetime):
    """A bound without an offset is local time of the rule's zone, its first pass."""
    assert expected == read_action(action(starts_at=text)).starts_at


def test_bounds_of_an_event_action():
    """Actions on events may have bounds, catch-up and overlap too."""
    read = read_action(
        on_event(
            starts_at="2026-12-01T00:00:00Z", overlap="queue", catch_up={"runs": "all"}
        )
    )

    assert datetime(2026, 12, 1, tzinfo=UTC) == read.starts_at
    assert Overlap.QUEUE == read.overlap


def test_mail_to_nobody_is_told():
    """A mail that no one is named to get is accepted, and can be warned about."""
    silent = read_action(
        '{"name": "x", "when": {"cron_rule": "0 7 * * 1"},'
        ' "operations": {"send_email": {"template": "t"}, "send_execsum": true}}'
    )

    assert ("send_email", "send_execsum") == silent.mails_to_nobody


def test_event_action_needs_no_recipients():
    """Without recipients the mail goes to the user of the event."""
    assert read_action(on_event(recipients=None)).recipients is None


def test_recipients_are_kept_once_and_in_order():
    """A name that stands twice counts once, where it came first."""
    groups = ["b", "a", " b ", "a"]

    read = read_action(action(recipients={"groups": groups}))

    assert read.recipients is not None
    assert ("b", "a") == read.recipients.groups


def test_absent_parts_of_an_app_differ_from_empty_ones():
    """An absent part stays as it is, an empty one is emptied."""
    read = read_small_app('{"uid": "shop", "users": [], "holidays": {}}')

    assert ((), None, {}, None) == (
        read.users,
        read.domains,
        read.holidays,
        read.templates,
    )


def test_whole_small_app_is_read():
    """All parts of a small app are read, times in UTC."""
    text = """{
      "uid": "shop", "name": "Shop", "timezone": "Europe/Paris",
      "users": [{"id": "u1", "email": "ada@example.com", "name": "Ada",
                 "locale": "en-GB", "groups": ["manager"], "disabled": "false",
                 "expires_at": null, "last_seen_at": "2026-01-01T01:00:00.25+01:00"}],
      "domains": [{"name": "a", "source": {"file": "a.csv"}},
                  {"name": "b", "source": {"url": "https://x.y/b", "format": "json"}},
                  {"name": "c", "source": {"sql": "select 1", "connection": "erp"}}],
      "templates": {"inactive": {"subject": "Hello", "html": "<p>Hello</p>"}},
      "documents": {"design": {"a": [1, null]}, "permissions": {}},
      "holidays": {"fr": ["2026-12-25", {"from": "2026-12-31", "until": "2027-01-01"}]}
    }"""

    read = read_small_app(text)

    assert read.users is not None
    assert read.holidays is not None
    assert datetime(2026, 1, 1, 0, 0, 0, 250_000, UTC) == read.users[0].last_seen_at
    assert date(2026, 12, 25) == read.holidays["fr"][0]
    assert "expires_at" in read.users[0].model_fields_set
    assert "created_at" not in read.users[0].model_fields_set


def test_key_of_a_template_called_like_a_marker():
    """A template may even be called "[key]", which pydantic uses as a marker."""
    problems = find_problems(read_small_app, '{"uid": "a", "templates": {"[key]": 5}}')

    assert "/templates/[key]" == problems[0].pointer


def test_templates_are_read_to_a_bound_whatever_is_wrong_with_them():
    """Those that end in a mistake count, too, or many of them would take minutes."""
    text = "{{ " + "a " * 30_000 + "'"
    templates = {name: {"subject": "b", "text": text} for name in "cd"}
    document = json.dumps({"uid": "a", "templates": templates})

    problems = find_problems(read_small_app, document)

    assert ["/templates/c/text"] == [each.pointer for each in problems]


@pytest.mark.parametrize("join", [lambda two: f"[{','.join(two)}]", "\n\n".join])
def test_many_events_are_a_list_or_lines(join: Callable[[list[str]], str]):
    """Events come as a JSON list or as JSON lines."""
    texts = [json.dumps({**EVENT, "user": name}) for name in ("u1", "u2")]

    expected = tuple(read_event_object(json.loads(text)) for text in texts)
    assert expected == read_events(join(texts))
    assert expected == read_events(join(texts).encode())


@pytest.mark.parametrize("join", [lambda two: f"[{','.join(two)}]", "\n\n".join])
def test_many_actions_are_a_list_or_lines(join: Callable[[list[str]], str]):
    """Actions come as a JSON list or as JSON lines, and one alone as itself."""
    texts = [json.dumps({**ACTION, "name": name}) for name in ("a", "b")]
    one, many = read_actions(texts[0]), read_actions(join(texts))

    assert isinstance(many, tuple)
    assert not isinstance(one, tuple)
    assert (one.name, ["a", "b"]) == ("a", [each.name for each in many])


@pytest.mark.parametrize("mistake", [("7 *", '7 *",'), ("{", "{,"), ('",', '"')])
def test_mistake_in_one_action_over_several_lines_is_told_once(
    mistake: tuple[str, str],
):
    """Not line by line, as of JSON lines: each line of it is no document."""
    text = json.dumps({**ACTION, "when": {"cron_rule": "0 7 * * *"}}, indent=2)

    problems = find_problems(read_actions, text.replace(*mistake, 1))

    assert 1 == len(problems)
    assert re.search(r"Line \d+, column \d+", problems[0].message)


def test_problems_of_many_actions_say_of_which():
    """The number of the action leads the pointer; an empty list is no post."""
    text = json.dumps([ACTION, {**ACTION, "when": {"cron_rule": "61 * * * *"}}])

    assert "/1/when/cron_rule" == find_problems(read_actions, text)[0].pointer
    assert "list is empty" in find_problems(read_actions, "[]")[0].message


def test_one_event_over_several_lines():
    """One event that is written over several lines is one event."""
    text = json.dumps({**EVENT, "at": "2026-12-01T09:00:00+01:00"}, indent=2)

    (event,) = read_events(text)

    assert event == read_event_object(json.loads(text))
    assert datetime(2026, 12, 1, 8, tzinfo=UTC) == event.at
    assert EventName.USER_LAST_SEEN == event.event


def test_decoded_value_that_json_does_not_have():
    """A decoded value that no JSON could be is refused, not stored."""
    for strange in ({1: 2}, {"name": {1, 2}}, {"name": 10**5000}, {"a": object()}):
        with pytest.raises(InvalidDocumentError):
            read_action_object(strange)
