"""Every problem of a text has a line and a column."""

from __future__ import annotations

import json
from typing import Any

import pytest

from models.door import places
from models.door.documents import read_action, read_actions
from models.door.places import Places
from models.errors import Problem
from tests.unit.models.documents import find_problems

GOOD = """{
    "name": "daily",
    "operations": {"send_execsum": true},
    "when": {"cron_rule": "0 7 * * *"}
}"""


def find_all(text: str | bytes) -> list[tuple[tuple[int, int] | None, Problem]]:
    """Return the place of each problem of *text*, and the problem."""
    found = Places(text)
    return [(found.locate(each), each) for each in find_problems(read_action, text)]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param("", (1, 1), id="nothing"),
        pytest.param("\n \n", (1, 1), id="blank"),
        pytest.param("\ufeff{}", (1, 1), id="byte order mark"),
        pytest.param('{"name":\n "caf\u00e9 '.encode() + b'\xff"}', (2, 8), id="utf-8"),
        pytest.param("7", (1, 1), id="not an object"),
        pytest.param("{\n'name': 1}", (2, 1), id="quotes"),
        pytest.param('{\n"name" 1}', (2, 8), id="colon"),
        pytest.param('{"name": "a"\n  "b": 1}', (2, 3), id="comma"),
        pytest.param('{"name": "a\n"}', (1, 12), id="line break in a text"),
        pytest.param('{"name": ', (1, 10), id="end"),
        pytest.param("{}\n{}", (2, 1), id="two documents"),
        pytest.param('{"a": [1,\n' + "[" * 40 + "]" * 40 + "]}", (2, 31), id="deep"),
        pytest.param("[" * 50_000, (1, 33), id="deeper than Python goes"),
        pytest.param('{"name": "[[[",\n"a": ' + "[" * 50_000, (2, 37), id="text"),
    ],
)
def test_text_that_is_no_document_has_a_place(
    text: str | bytes, place: tuple[int, int]
) -> None:
    """Whatever is wrong before anybody looks at what it says."""
    assert place == find_all(text)[0][0]


@pytest.mark.parametrize(
    ("old", "new", "pointer", "place"),
    [
        ('"name"', '"nam"', "/nam", (2, 5)),
        ('"name": "daily"', '"name": 7', "/name", (2, 13)),
        ('"send_execsum"', '"send_execsums"', "/operations/send_execsums", (3, 20)),
        ('"cron_rule"', '"cron"', "/when/cron", (4, 14)),
        ("0 7 * * *", "61 7 * * *", "/when/cron_rule", (4, 27)),
        ('{"cron_rule": "0 7 * * *"}', "{}", "/when", (4, 13)),
        ('    "name": "daily",\n', "", "/name", (1, 1)),
        ('"name": "daily"', '"name": "\\u0000"', "/name", (2, 13)),
        ('"name": "daily"', f'"name": {"9" * 5000}', "/name", (2, 13)),
        ('"name": "daily"', '"name": "a", "name": "b"', "/name", (2, 18)),
    ],
)
def test_problem_of_a_document_has_a_place(
    old: str, new: str, pointer: str, place: tuple[int, int]
) -> None:
    """That of the key if the key is wrong, of the second if it appears twice."""
    found = find_all(GOOD.replace(old, new))

    assert (place, pointer) == next(
        (where, each.pointer) for where, each in found if each.pointer == pointer
    )


def test_several_problems_have_a_place_each() -> None:
    """In the order of the document; what was probably meant is beside them."""
    text = (
        GOOD.replace("name", "nmae")
        .replace('"0 7', '"61 7')
        .replace('* *"}', '* *"},\n    "overlap": "skp"')
    )

    found = find_all(text)

    assert [(2, 5), (4, 27), (5, 16), (1, 1)] == [place for place, _ in found]
    assert ["name", None, "skip", None] == [each.instead for _, each in found]
    assert [True, False, False, False] == [each.about_key for _, each in found]


def test_key_of_what_is_not_there_is_the_place_of_what_lacks_it() -> None:
    """There is no better one."""
    assert (1, 7) == Places('{"a": {"b": 1}}').find("/a/c", of_key=True)


class _Counting(json.JSONDecoder):
    calls = 0

    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        self.calls += 1
        return super().raw_decode(s, idx)


def test_text_with_many_problems_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends a hundred at the end of a long list must not keep a server busy."""
    counting = _Counting(parse_int=str)
    monkeypatch.setattr(places, "_SKIPPER", counting)
    text = json.dumps([{"id": number} for number in range(1000)])

    several = places.Places(text)
    found = [several.find(f"/{number}/id") for number in range(900, 1000)]

    assert (1, text.index(" 999}") + 2) == found[-1]
    assert counting.calls < 2000


def test_entries_of_json_lines_have_places() -> None:
    """An object with a number for a key is none of them."""
    lines = Places('{"a": 1}\n\n{"a": 2, "b": {"a": 3}}')

    assert (1, 7) == lines.find("/0/a")
    assert (3, 15) == lines.find("/1/b", of_key=False)
    assert (3, 21) == lines.find("/1/b/a")
    assert (1, 7) == Places('{"1": {"a": 2}}').find("/1")


def test_line_of_json_lines_that_is_no_json_has_a_place() -> None:
    """In the whole text, which its message tells as well."""
    (problem,) = find_problems(read_actions, '{"a": 1}\n\n{"a" 2}')

    assert ("/1", (3, 6)) == (problem.pointer, problem.place)
    assert problem.message.startswith("Line 3, column 6: a colon")


def test_nothing_has_nothing_to_show() -> None:
    """A body without a letter is refused, and the refusal has nothing to quote."""
    assert Places(b"  ").show("") is None
