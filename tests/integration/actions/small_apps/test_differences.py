"""What applying a document would change is told, and nothing changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa

from actions.small_apps.app_row import PartChange
from actions.small_apps.apply import ApplyTerms
from actions.small_apps.differences import MOST_ENTRIES, AppDifference, foresee_apply
from models.door.app_documents import read_small_app
from models.errors import InvalidDocumentError, StaleError
from tests.integration.actions.small_apps.shop import (
    ADA,
    WHOLE,
    apply,
    export,
    fetch_changes,
)


def _foresee(
    engine: sa.Engine, document: dict[str, Any], **options: Any
) -> AppDifference:
    model = read_small_app(json.dumps({"uid": "shop", **document}))
    return foresee_apply(engine, model, ApplyTerms(**options))


def test_new_app_is_told_whole_and_not_made(engine: sa.Engine):
    found = _foresee(engine, WHOLE)

    assert (True, 0) == (found.created, found.revision)
    assert {
        "settings": PartChange(4, 0, 0),
        "users": PartChange(3, 0, 0),
        "groups": PartChange(2, 0, 0),
        "domains": PartChange(2, 0, 0),
        "templates": PartChange(2, 0, 0),
        "documents": PartChange(2, 0, 0),
        "holidays": PartChange(2, 0, 0),
    } == found.counts
    assert apply(engine, {}).created
    assert ["created"] == [row.change for row in fetch_changes(engine)]


def test_each_entry_says_what_becomes_of_it(engine: sa.Engine):
    """Names and pointers of what is added, changed and removed; no values."""
    apply(engine, WHOLE)
    before = export(engine)

    found = _foresee(
        engine,
        {
            "name": "Shops",
            "notices": None,
            "users": [{**ADA, "name": "Ada L", "groups": ["boss"]}, {"id": "new"}],
            "domains": [
                {"name": "a", "source": {"url": "https://example.com/?hunter2"}}
            ],
            "documents": {"design": {"color": ["blue", {"a/b": 1}], "x/y": 1}},
            "holidays": {"fr": ["2026-12-25"]},
        },
    )

    assert {
        ("settings", "name", "changed", ("",)),
        ("settings", "notices", "removed", ()),
        ("users", "ada", "changed", ("/name", "/groups")),
        ("users", "bob@example.com", "removed", ()),
        ("users", "eve", "removed", ()),
        ("users", "new", "added", ()),
        ("groups", "boss", "added", ()),
        ("groups", "manager", "removed", ()),
        ("groups", "stock", "removed", ()),
        ("domains", "a", "changed", ("/source/url",)),
        ("domains", "b", "removed", ()),
        ("documents", "design", "changed", ("/color", "/x~1y")),
        ("holidays", "fr", "changed", ("",)),
    } == {(e.part, e.name, e.change, e.pointers) for e in found.entries}
    assert (False, 1, 0) == (found.created, found.revision, found.unlisted)
    assert "hunter2" not in str(found)
    assert before == export(engine)


def test_same_document_differs_in_nothing(engine: sa.Engine):
    apply(engine, WHOLE)

    found = _foresee(engine, WHOLE)

    assert ({}, []) == (found.counts, found.entries)
    assert 1 == found.revision


def test_names_are_bounded_and_counts_are_not(engine: sa.Engine):
    users = [{"id": f"u{number}"} for number in range(MOST_ENTRIES)]

    found = _foresee(engine, {"users": users})

    assert PartChange(MOST_ENTRIES, 0, 0) == found.counts["users"]
    assert (MOST_ENTRIES, 1) == (len(found.entries), found.unlisted)


def test_what_would_be_refused_is_refused(engine: sa.Engine):
    """A stale revision, a file without a folder."""
    apply(engine, WHOLE)

    with pytest.raises(StaleError):
        _foresee(engine, {"name": "B"}, expected_revision=7)
    with pytest.raises(InvalidDocumentError, match="no folder"):
        _foresee(engine, {"domains": [{"name": "a", "source": {"file": "a.csv"}}]})


def test_events_are_counted_and_not_recorded(engine: sa.Engine):
    """A dry run says how many would be recorded; the real one then records as many."""
    users = {"users": [{**ADA, "last_seen_at": "2026-01-01T00:00:00Z"}]}

    found = _foresee(engine, users, raise_events=True)

    assert 2 == found.events
    assert 2 == apply(engine, users, raise_events=True).events
