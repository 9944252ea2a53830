"""Cursors say where a list goes on, and whoever makes one up gets no further."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from starlette.requests import Request

from serving.cursors import read_cursor, write_cursor
from serving.refusals import HttpError

POSITION = (
    datetime(2026, 11, 23, 6, 0, 0, 123456, tzinfo=UTC),
    UUID("3771f246-cc92-5326-b56a-8665f62de245"),
    "Zoë",
    7,
)


def _request(path: str = "/things", query: str = "state=failed&limit=5") -> Request:
    scope = {
        "type": "http",
        "method": "GET",
        "scheme": "http",
        "server": ("localhost", 80),
        "path": path,
        "query_string": query.encode(),
        "headers": [],
    }
    return Request(scope)


def _make_up(position: list[list[Any]]) -> str:
    """Return a cursor that has the right digest, and this position."""
    text = base64.urlsafe_b64decode(write_cursor(("x",), _request()) + "==")
    digest, _ = json.loads(text)
    made = json.dumps([digest, *position])
    return base64.urlsafe_b64encode(made.encode()).decode().rstrip("=")


def test_position_comes_back():
    cursor = write_cursor(POSITION, _request())

    assert POSITION == read_cursor(cursor, _request(query="limit=9&state=failed"))


@pytest.mark.parametrize(
    ("path", "query"), [("/others", "state=failed"), ("/things", "state=missed")]
)
def test_other_list_has_other_cursors(path: str, query: str):
    """Another path, or other filters."""
    cursor = write_cursor(POSITION, _request())

    with pytest.raises(HttpError, match="another list"):
        read_cursor(cursor, _request(path, query))


@pytest.mark.parametrize(
    "position",
    [
        [["s", "\ud800"]],
        [["s", "a\0b"]],
        [["s", 5]],
        [["i", 10**30]],
        [["i", "5"]],
        [["i", True]],
        [["t", "0001-01-01T00:00:00+14:00"]],
        [["t", "9999-12-31T23:59:59-14:00"]],
        [["t", "2026-01-01T00:00:00"]],
        [["t", 5]],
        [["u", "x"]],
        [["x", "y"]],
        [["s"]],
        [5],
        [None],
        [],
    ],
)
def test_made_up_position_is_refused(position: list[list[Any]]):
    """Before a database is asked for what it cannot compare."""
    with pytest.raises(HttpError, match="cursor"):
        read_cursor(_make_up(position), _request())


@pytest.mark.parametrize("text", ["", "x", "%", "é", "bnVsbA", "W10", "NQ", "e30"])
def test_other_text_is_no_cursor(text: str):
    """Nor is JSON of another shape."""
    with pytest.raises(HttpError, match="cursor"):
        read_cursor(text, _request())
