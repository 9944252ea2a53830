"""Bulk changes are read at the door, and what is wrong is said where it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from models.door.documents import read_model
from models.fields.strict_model import DocumentModel
from models.requests.actions import BackfillModel
from models.requests.bulk_changes import BulkChangeModel
from models.requests.notes import NoteModel, PauseModel
from models.requests.operations import RetryModel
from tests.unit.models.documents import find_problems


def read(**given: Any) -> BulkChangeModel:
    return read_model(BulkChangeModel, json.dumps(given), noun="bulk change")


def test_filter_is_kept_as_it_was_written():
    """And is read again from what is stored."""
    wanted = {"app": "shop", "state": ["failed"], "from": "2026-01-05T00:00:00Z"}
    asked = read(kind="retry", filter=wanted, expected_count=3)

    assert wanted == asked.chosen
    assert asked.filter == type(asked.filter).model_validate(asked.chosen)


@pytest.mark.parametrize(
    ("given", "pointer", "words"),
    [
        ({"kind": "pauze"}, "/kind", "Did you mean 'pause'"),
        ({"kind": "pause", "filter": {"aap": "x"}}, "/filter/aap", "mean 'app'"),
        ({"kind": "pause", "filter": {"reason": "x"}}, "/filter/reason", "known"),
        ({"kind": "cancel", "filter": {"state": ["gone"]}}, "/filter/state/0", "gone"),
        (
            {"kind": "pause", "filter": {"state": "deleted"}},
            "/filter/state",
            "not a known value. Write one of: active, inactive, paused, quarantined",
        ),
        ({"kind": "pause", "filter": 3}, "/filter", "not an object"),
        ({"kind": "pause", "expected_count": None}, "", "'expected_count' is missing"),
        ({"kind": "pause", "expected_count": "3"}, "/expected_count", ""),
        ({"kind": "pause", "expected_count": -1}, "/expected_count", ""),
        ({"kind": "run", "until": "2026-01-05T00:00:00Z"}, "", "'until' is for pauses"),
        ({"kind": "pause", "until": "tomorrow"}, "/until", ""),
        ({"kind": "pause", "note": "x" * 1001}, "/note", "at most 1000"),
        ({}, "/kind", "missing"),
    ],
)
def test_what_is_wrong_is_told(given: dict[str, Any], pointer: str, words: str):
    """With the place, and what to write instead."""
    problems = find_problems(read, **{"filter": {}, "expected_count": 1, **given})

    told = [each for each in problems if each.pointer == pointer]
    assert told, problems
    assert words in str(told[0])


def test_count_needs_no_expectation():
    """Who only counts changes nothing."""
    assert read(kind="pause", filter={}, dry_run=True).expected_count is None


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (BulkChangeModel, {"kind": "run", "filter": {}, "dry_run": True}),
        (BackfillModel, {"from": "2026-01-05T00:00:00Z"}),
        (PauseModel, {}),
        (RetryModel, {}),
        (NoteModel, {}),
    ],
)
@pytest.mark.parametrize(
    "note", ["two\nlines", "a\x1b[2Jclear", "a\u202eturn", "x" * 1001]
)
def test_note_that_no_list_could_show_is_refused(
    model: type[DocumentModel], given: dict[str, Any], note: str
):
    """Whatever it is about: a terminal that lists it would do as it says."""
    assert read_model(model, json.dumps({**given, "note": "why"}), noun="request")

    (problem,) = find_problems(
        read_model, model, json.dumps({**given, "note": note}), noun="request"
    )

    assert "/note" == problem.pointer
