"""What is made of a stored result; anything may be in it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_app.task_results import read_failure


def make(said: object, kind: object = "ValueError", status: str = "FAILURE") -> bytes:
    """Return a result as Celery stores it."""
    result = {"exc_type": kind, "exc_message": said, "exc_module": "os"}
    return json.dumps({"status": status, "result": result}).encode()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (["no such shop", 7], "ValueError: no such shop, 7"),
        ("no such\n\n shop", "ValueError: no such shop"),
        ([], "ValueError"),
        (["a\0b\ud800"], "ValueError: a\ufffdb\ufffd"),
    ],
)
def test_failure_is_told_in_a_line(said: object, expected: str):
    """
    That the database can store.
    """
    assert expected == read_failure(make(said))


def test_failure_is_told_within_bounds():
    """
    However long it is.
    """
    told = read_failure(make(["x" * 100_000]))

    assert told is not None
    assert len(told) < 1_100


@pytest.mark.parametrize(
    "stored", [b"", b"\x80\x04", make([], status="SUCCESS"), b"[" * 100_000]
)
def test_what_is_no_failure_tells_nothing(stored: bytes):
    """
    No result, one in pickle, a success, and one that is too deep.
    """
    assert read_failure(stored) is None


_JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(
    st.binary() | _JSON.map(json.dumps).map(str.encode) | st.builds(make, _JSON, _JSON)
)
def test_anything_may_be_stored(stored: bytes):
    """
    Others write there.
    """
    told = read_failure(stored)

    assert told is None or "\n" not in told
