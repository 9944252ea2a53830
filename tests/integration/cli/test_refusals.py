"""What several commands refuse alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli.calling import WEEKLY, Call, write_action


@pytest.mark.parametrize(
    "arguments",
    [
        ("apps", "show", "nope"),
        ("actions", "show", "nope"),
        ("actions", "run", "nope"),
        ("actions", "list", "--app", "nope"),
        ("actions", "post", str(WEEKLY), "--app", "nope"),
        ("operations", "list", "--action", "nope"),
        ("events", "send", "--app", "nope", "--event", "app.x", "--user", "u"),
    ],
)
def test_unknown_thing_is_not_found(call: Call, arguments: tuple[str, ...]):
    answer = call(*arguments)

    assert (4, "") == (answer.code, answer.out)
    assert answer.err.startswith("error: ")


NEAR = {
    "apps show shpo": "shop",
    "apps pause shpo": "shop",
    "operations list --app Shop": "shop",
    "actions show helo": "hello",
    "actions show good_mornin": "good_morning",
    "why helo --at 2026-11-23T06:00:00Z": "hello",
    "mails list --app shop --action helo": "hello",
}


def test_near_miss_is_told_what_was_meant(call: Call, shop: Path):
    """A slip in the uid or the name of an app or action costs no look into a list."""
    call("actions", "post", write_action(shop, name="good_morning"), "--app", "shop")

    answers = {line: call(*line.split()) for line in NEAR}

    assert {(4, "")} == {(answer.code, answer.out) for answer in answers.values()}
    assert [] == [
        line
        for line, answer in answers.items()
        if f" Did you mean '{NEAR[line]}'? List them with: " not in answer.err
    ]


def test_actions_of_other_apps_are_not_what_was_meant(call: Call, shop: Path):
    """With --app only the actions of that app count, for whoever may see no others."""
    call("actions", "post", write_action(shop), "--app", "shop")

    answer = call("actions", "show", "helo", "--app", "minutehand")

    assert 4 == answer.code
    assert "hello" not in answer.err


@pytest.mark.parametrize(
    "command", [("audit",), ("operations", "list"), ("preview", str(WEEKLY))]
)
@pytest.mark.parametrize("until", ["2026-11-23T05:00Z", "2026-11-23T06:00Z"])
def test_period_without_an_instant_is_refused(
    call: Call, command: tuple[str, ...], until: str
):
    answer = call(*command, "--from", "2026-11-23T07:00+01:00", "--until", until)

    assert (2, "") == (answer.code, answer.out)
    assert "is not before --until" in answer.err
    assert "2026-11-23T06:00:00Z" in answer.err


@pytest.mark.parametrize(
    "command",
    [
        ("actions", "backfill", "hello", "--from", "-1h"),
        ("actions", "pause", "hello"),
        ("actions", "run", "hello"),
        ("queues", "pause", "quick"),
        ("workers", "drain", "quick@host"),
    ],
)
def test_note_is_refused_under_its_option(call: Call, command: tuple[str, ...]):
    """Whoever typed --note reads of --note, whatever is done beside."""
    answer = call(*command, "--note", "a\x1bb")

    assert (2, "") == (answer.code, answer.out)
    told = r"'a\x1bb' contains the control character '\x1b'."
    assert answer.err.startswith(f"error: --note: {told}")


@pytest.mark.parametrize(
    ("option", "value"), [("--text", "x" * 201), ("--app", "a b"), ("--action", " ")]
)
@pytest.mark.parametrize("command", ["list", "cancel", "retry"])
def test_filter_is_refused_under_its_option(
    embedded: Call, command: str, option: str, value: str
):
    """It is no defect of ours, and no traceback is printed."""
    answer = embedded("operations", command, option, value)

    assert (2, "") == (answer.code, answer.out)
    assert answer.err.startswith(f"error: {option}: ")


@pytest.mark.parametrize(
    ("option", "value", "end"),
    [
        ("--state", "failedd", "Did you mean 'failed'?"),
        ("--reason", "step failedd", "Did you mean 'step failed'?"),
        ("--queue", "quickk", "Did you mean 'quick'?"),
        ("--queue", "no such", "'celery'."),
    ],
)
def test_value_that_is_none_of_those_is_told_the_near_one(
    call: Call, option: str, value: str, end: str
):
    """All that may be written is listed; what checked it is nobody's concern."""
    answer = call("operations", "list", option, value)

    said = " ".join(answer.err.replace("│", " ").split())
    assert (2, "") == (answer.code, answer.out)
    assert f"Invalid value for '{option}': '{value}' is not one of" in said
    assert end in said
