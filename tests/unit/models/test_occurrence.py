"""The identity of a run: the same for everybody, and written one way."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.occurrence import (
    NAMESPACE,
    format_occurrence,
    make_manual_id,
    make_missed_id,
    make_operation_id,
    str_to_uuid,
)
from tests.unit.models.fields.moments import make_instants, zones

SIX = datetime(2026, 11, 23, 6, tzinfo=UTC)
PAGE = (Path(__file__).parents[3] / "docs" / "identity.md").read_text()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("weekly | 2026-11-23 06:00:00+00:00", "3771f246-cc92-5326-b56a-8665f62de245")],
)
def test_published_vectors_hold_for_ever(text: str, expected: str):
    """Another id would run every occurrence of the window again."""
    assert UUID(expected) == str_to_uuid(text)
    assert UUID("6b0d4f2e-3a51-5c7e-9d8a-4f1f0c9b7e21") == NAMESPACE


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_id_is_what_any_uuid5_gives(text: str):
    """Whoever knows the namespace can compute it."""
    assert uuid5(NAMESPACE, text) == str_to_uuid(text)


def test_texts_are_those_of_the_page():
    """Each kind of run has its own form."""
    ids = {
        "weekly | 2026-11-23 06:00:00+00:00": make_operation_id("weekly", SIX),
        "weekly | 2026-11-23 06:00:00+00:00 | toco@tou.can": make_operation_id(
            "weekly", SIX, "toco@tou.can"
        ),
        "weekly | 2026-11-23 06:00:00+00:00 | Zoë": make_operation_id(
            "weekly", SIX, "Zoë"
        ),
        "weekly | manual | 2026-W48": make_manual_id("weekly", "2026-W48"),
        "weekly | missed | 2026-11-23 06:00:00+00:00": make_missed_id("weekly", SIX),
    }
    row = r"^\| `(weekly .*)` \| `([0-9a-f-]{36})` \|$"
    found = dict(re.findall(row, PAGE, re.MULTILINE))
    published = {text.replace("\\|", "|"): UUID(id_) for text, id_ in found.items()}

    assert ids == published
    assert 2 == PAGE.count(str(NAMESPACE))


@given(make_instants(1971, 2200), zones)
def test_one_instant_is_written_one_way(instant: datetime, zone: ZoneInfo):
    """In whatever zone it is given, to whatever fraction of the second."""
    text = format_occurrence(instant.astimezone(zone))

    assert format_occurrence(instant) == text
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00", text)
    assert instant.replace(microsecond=0) == datetime.fromisoformat(text)


def test_seconds_tell_occurrences_apart():
    """They are kept; fractions are cut."""
    assert make_operation_id("a", SIX) != make_operation_id("a", SIX.replace(second=1))
    later = SIX + timedelta(microseconds=999_999)
    assert make_operation_id("a", SIX) == make_operation_id("a", later)


def test_naive_instants_are_refused():
    """Python would read them in the zone of the host."""
    with pytest.raises(ValueError, match="no UTC offset"):
        format_occurrence(SIX.replace(tzinfo=None))
