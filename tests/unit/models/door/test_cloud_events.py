"""CloudEvents 1.0, in each of the three forms in which HTTP carries them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from models.door.documents import read_cloud_event_object, read_events
from models.door.sent_events import read_cloud_event_headers, read_cloud_events
from models.errors import InvalidDocumentError
from tests.unit.models.documents import find_problems

EVENT = {
    "specversion": "1.0",
    "id": "A234-1234-1234",
    "source": "https://shop.example.com/users",
    "type": "instance.user.last_seen",
    "subject": "zoë@example.com",
    "time": "2026-11-23T07:00:00.123456789+01:00",
}


def _refuse(value: object) -> str:
    return " ".join(map(str, find_problems(read_cloud_event_object, value)))


def test_structured_event_is_read():
    """Type, subject and time are ours; data and attributes of others are left alone."""
    event = read_cloud_event_object(
        {
            **EVENT,
            "datacontenttype": "application/json",
            "dataschema": "https://example.com/schema",
            "data": {"deep": [1, None]},
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "partitionkey": "7",
            "dataref": "https://example.com/data",
        }
    )

    assert EVENT["type"] == event.type
    assert EVENT["subject"] == event.subject
    assert datetime(2026, 11, 23, 6, 0, 0, 123456, tzinfo=UTC) == event.time


def test_headers_say_the_same():
    """Binary mode: percent signs are decoded, other headers are not read."""
    headers = {f"ce-{name}": value for name, value in EVENT.items()}
    headers |= {"ce-subject": "zo%C3%AB%40example.com", "content-type": "text/plain"}

    assert read_cloud_event_object(EVENT) == read_cloud_event_headers(headers)


def test_header_that_is_no_text_is_refused():
    """Percent signs that are not UTF-8."""
    with pytest.raises(InvalidDocumentError, match="ce-subject is not UTF-8"):
        read_cloud_event_headers({"ce-subject": "%ff"})


def test_batch_is_read_in_order_and_may_be_empty():
    """A list, and nothing but a list."""
    batch = read_cloud_events(json.dumps([EVENT, {**EVENT, "id": "2"}]))

    assert [EVENT["id"], "2"] == [each.id for each in batch]
    assert () == read_cloud_events("[]")
    with pytest.raises(InvalidDocumentError, match="not a list"):
        read_cloud_events(json.dumps(EVENT))
    with pytest.raises(InvalidDocumentError, match="/1/id"):
        read_cloud_events(json.dumps([EVENT, {**EVENT, "id": ""}]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"specversion": "0.3"}, "/specversion"),
        ({"type": "instance.user.create"}, "Did you mean 'instance.user.created'"),
        ({"type": "com.example.user"}, "app.<name>"),
        ({"subject": None}, "/subject"),
        ({"id": "x" * 201}, "/id"),
        ({"source": 7}, "/source"),
        ({"time": "yesterday"}, "/time"),
        ({"Type": "x"}, "/Type"),
    ],
)
def test_refusal_says_where_and_what(change: dict[str, Any], said: str):
    """In the words of every other document."""
    assert said in _refuse({**EVENT, **change})


@pytest.mark.parametrize("name", ["tme", "timestamp", "times"])
def test_misspelled_time_is_not_taken_for_an_extension(name: str):
    """It would be "now" without anybody noticing."""
    event = {key: value for key, value in EVENT.items() if key != "time"}

    assert "Did you mean 'time'?" in _refuse({**event, name: EVENT["time"]})


@pytest.mark.parametrize("name", ["id", "source", "type", "subject", "specversion"])
def test_what_must_be_there_is_missed(name: str):
    """A misspelled one is an extension, so the real one is missing."""
    event = {key: value for key, value in EVENT.items() if key != name}

    assert f"{name!r} is missing" in _refuse({**event, f"{name}x": "1.0"})


def test_list_may_have_both_forms():
    """What has a specversion is a CloudEvent; each is refused by its own rules."""
    plain = {"event": "app.x", "user": "ada"}

    found = read_events(json.dumps([plain, EVENT]))

    assert ["UserEventModel", "CloudEventModel"] == [type(e).__name__ for e in found]
    text = json.dumps([{**plain, "subject": "x"}, {**EVENT, "user": 7}])
    (problem,) = find_problems(read_events, text)
    assert "/0/subject" == problem.pointer
