"""What a refusal offers to write is not refused in turn."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from models.door.documents import read_action_object
from models.errors import InvalidDocumentError, Problem
from tests.unit.models.documents import Bad
from tests.unit.models.door.bad_documents import BOUNDS, FIELDS
from tests.unit.models.door.bad_rules import WHEN
from tests.unit.models.door.bad_steps import RECIPIENTS, STEPS

ROWS = [*FIELDS, *BOUNDS, *WHEN, *STEPS, *RECIPIENTS]

#: A field with its value; an object; text that stands alone; a bound.
_MEMBER = re.compile(r'(?:Write|instance,) "(\w+)": ')
_OBJECT = re.compile(r"[Ww]rite (?:an interval: |a due date: )?(?=\{\")")
_LIST = re.compile(r"such as (?=\[)")
_TEXT = re.compile(r'[Ww]rite "?((?:PT?[0-9]|[0-9])[0-9A-Z:-]*)"?[.,]')
_BOUND = re.compile(r"at most ([0-9]+)[.,]")

_DECODER = json.JSONDecoder()


def find_problems(document: Any) -> tuple[Problem, ...]:
    """Return what the door says of a document."""
    try:
        read_action_object(copy.deepcopy(document))
    except InvalidDocumentError as error:
        return error.problems
    return ()


def find_offers(problem: Problem) -> Iterator[Any]:
    """Yield the values that a hint offers for the place of its problem."""
    key = problem.pointer.rpartition("/")[2]
    for member in _MEMBER.finditer(problem.hint):
        if member[1] == key:
            yield _DECODER.raw_decode(problem.hint, member.end())[0]
    for found in _OBJECT.finditer(problem.hint):
        text = problem.hint[found.end() :]
        if "..." not in text:
            yield _DECODER.raw_decode(text)[0]
    for found in _LIST.finditer(problem.hint):
        yield _DECODER.raw_decode(problem.hint, found.end())[0]
    for found in _TEXT.finditer(problem.hint):
        yield found[1]
    if problem.instead is not None and not problem.about_key:
        yield problem.instead


def find_place(document: Any, pointer: str) -> tuple[Any, Any]:
    """Return what holds the value at *pointer*, and under which key."""
    *parts, last = pointer.split("/")[1:]
    place = document
    for part in parts:
        place = place[int(part) if isinstance(place, list) else part]
    return place, int(last) if isinstance(place, list) else last


def put(document: Any, pointer: str, value: Any) -> Any:
    """Return *document* with another value at *pointer*."""
    changed = copy.deepcopy(document)
    place, key = find_place(changed, pointer)
    place[key] = value
    return changed


def follow(document: Any, problem: Problem) -> Iterator[tuple[str, Any]]:
    """Yield the documents in which a hint was followed, each with what was changed."""
    pointer = problem.pointer
    for offer in find_offers(problem):
        place = pointer
        if isinstance(offer, dict) and pointer.startswith("/when/"):
            # an object is a whole rule
            place = "/".join(pointer.split("/")[: 3 if "/when/0" in pointer else 2])
        yield place, put(document, place, offer)
    bound = _BOUND.search(problem.hint)
    if bound is not None and "working_day" in pointer:
        yield pointer, put(document, pointer, int(bound[1]))
    if problem.instead is not None and problem.about_key:
        changed = copy.deepcopy(document)
        place, key = find_place(changed, pointer)
        place[problem.instead] = place.pop(key)
        yield f"{pointer.rpartition('/')[0]}/{problem.instead}", changed


@pytest.mark.parametrize("bad", ROWS, ids=range(len(ROWS)))
def test_hint_can_be_followed(bad: Bad) -> None:
    """
    Of every problem of a table of bad documents: what is there then is accepted, or,
    after a key was renamed, at least the key is.
    """
    document = json.loads(bad.text)
    for problem in find_problems(document):
        for place, changed in follow(document, problem):
            said = [
                each
                for each in find_problems(changed)
                if each.about_key == problem.about_key and each.pointer == place
            ]
            assert said == [], problem


def test_hints_of_the_tables_have_offers() -> None:
    """The test above is about something."""
    documents = [json.loads(bad.text) for bad in ROWS]
    followed = [
        place
        for document in documents
        for problem in find_problems(document)
        for place, _ in follow(document, problem)
    ]

    assert len(followed) > 80
