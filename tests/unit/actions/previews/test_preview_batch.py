"""A batch answers line for line, whatever stands on a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.previews.preview import preview_batch_line

ACTION = {
    "name": "weekly",
    "operations": {"publish": {"data": True}},
    "when": {"cron_rule": "0 7 * * 1", "timezone": "Europe/Paris"},
}
FROM, UNTIL = "2026-11-23T06:00:00Z", "2026-12-07T06:00:00Z"


def ask(**changes: object) -> dict[str, object]:
    """Return the answer to a line; a value of None leaves its key out."""
    line = {"id": "a", "action": ACTION, "from": FROM, "until": UNTIL, **changes}
    kept = {key: value for key, value in line.items() if value is not None}
    answer = json.loads(preview_batch_line(json.dumps(kept)))
    assert isinstance(answer, dict)
    return answer


def ask_when(when: object, **changes: object) -> dict[str, object]:
    """Return the answer about another rule."""
    return ask(action={**ACTION, "when": when}, **changes)


def test_range_includes_from_and_not_until() -> None:
    """Mondays at 07:00 in Paris, from one of them to another."""
    assert {
        "id": "a",
        "occurrences": ["2026-11-23T06:00:00Z", "2026-11-30T06:00:00Z"],
    } == ask()


@pytest.mark.parametrize("uid", ["x", 7, 0, "", [1], {"n": 1}])
def test_id_comes_back_as_it_is(uid: object) -> None:
    """Any JSON value identifies a line."""
    assert uid == ask(id=uid)["id"]


def test_past_due_date_is_an_occurrence() -> None:
    """A preview creates nothing, so the past is no reason to refuse."""
    answer = ask_when({"due_date": "2020-01-01T00:00"}, **{"from": "2019-01-01T00:00Z"})

    assert ["2020-01-01T00:00:00Z"] == answer["occurrences"]


def test_interval_without_anchor_counts_from_the_minute_of_from() -> None:
    """There is no creation, so the range itself is the anchor."""
    answer = ask_when({"every": "PT168H"}, **{"from": "2026-11-23T06:00:30Z"})

    assert ["2026-11-30T06:00:00Z"] == answer["occurrences"]


def test_zone_of_rules_without_one_can_be_given() -> None:
    """The default zone is that of the settings."""
    line = {
        "id": 1,
        "action": {**ACTION, "when": {"cron_rule": "0 7 * * 1"}},
        "from": FROM,
        "until": "2026-11-24T00:00:00Z",
    }

    answer = preview_batch_line(json.dumps(line), default_timezone="Europe/Paris")

    assert ["2026-11-23T06:00:00Z"] == json.loads(answer)["occurrences"]


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"id": None}, "/id"),
        ({"action": None}, "/action"),
        ({"from": None}, "/from"),
        ({"until": None}, "/until"),
        ({"from": 5}, "/from"),
        ({"from": "2026-11-23T06:00:00"}, "/from"),
        ({"until": "tomorrow"}, "/until"),
        ({"until": "2026-11-01T00:00:00Z"}, "/until"),
        ({"action": []}, "/action"),
        ({"action": {**ACTION, "nmae": "x"}}, "/action/nmae"),
        (
            {"action": {**ACTION, "when": {"cron_rule": "61 * * * *"}}},
            "/action/when/cron_rule",
        ),
        (
            {"action": {**ACTION, "when": {"on": "instance.user.created"}}},
            "/action/when",
        ),
        (
            {"action": {**ACTION, "except": [{"calendar": "xx"}]}},
            "/action/except/0/calendar",
        ),
    ],
)
def test_error_points_into_the_line(changes: dict[str, object], pointer: str) -> None:
    """The pointer leads from the line to what is wrong with it."""
    answer = ask(**changes)

    error = answer["error"]
    assert isinstance(error, dict)
    assert pointer == error["pointer"]
    assert error["message"]
    assert "occurrences" not in answer


def test_too_many_occurrences_are_an_error() -> None:
    """A line never grows without bounds."""
    answer = ask_when({"calendar": "*:*:*"})

    assert "more than 100,000 occurrences" in json.dumps(answer["error"])


def test_all_problems_are_listed_if_there_are_several() -> None:
    """The first is the error itself, and all stand under problems."""
    answer = ask(action={**ACTION, "nmae": 1, "naem": 2})

    error = answer["error"]
    assert isinstance(error, dict)
    assert ["/action/nmae", "/action/naem"] == [
        each["pointer"] for each in error["problems"]
    ]


@pytest.mark.parametrize("line", ["", "nonsense", "[1]", "3", "null", "[" * 9999])
def test_line_that_is_no_object_is_an_error(line: str) -> None:
    """A broken line has no id, and does not stop the others."""
    answer = json.loads(preview_batch_line(line, number=3))

    assert None is answer["id"]
    assert "" == answer["error"]["pointer"]
    assert "Line 1" not in answer["error"]["message"]


@given(st.text() | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_no_line_raises(line: str) -> None:
    """Whatever is read, one JSON object comes back, on one line."""
    answer = preview_batch_line(line)

    assert "\n" not in answer
    assert {"id", "error"} == set(json.loads(answer))


def test_documented_example_is_true() -> None:
    """The example in docs/previews.md gives the answer printed below it."""
    text = (Path(__file__).parents[4] / "docs/previews.md").read_text("utf-8")
    lines = [line for line in text.splitlines() if line.startswith('{"id"')]

    question, answer = lines

    assert json.loads(answer) == json.loads(preview_batch_line(question))
