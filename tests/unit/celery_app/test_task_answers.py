"""What is made of a message that may be an answer; anything may be in it."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_app.task_answers import (
    FAILED,
    LARGEST_BODY,
    LONGEST_VALUE,
    SUCCEEDED,
    TOKEN,
    Message,
    make_links,
    read_answer,
)
from operations.foreign_tasks import ForeignTask

ONE = UUID(int=1)


def make(value: object, name: str = SUCCEEDED, **headers: Any) -> Message:
    """Return an answer with *value*."""
    body = json.dumps([[value], {}, {}]).encode()
    return Message({"task": name, TOKEN: str(ONE), **headers}, "application/json", body)


def test_success_has_the_value():
    """
    As JSON, whatever it is.
    """
    told = read_answer(make({"rows": [1, None]}))

    assert told is not None
    assert (ONE, True, {"rows": [1, None]}, None) == (
        told.token,
        told.succeeded,
        told.returned,
        told.note,
    )


@pytest.mark.parametrize("name", [[], {}, None, 7, ["minutehand.answers"]])
def test_name_that_is_no_text_is_no_answer(name: Any):
    """
    Whoever shares the broker may write it, and must not stop the answers of others.
    """
    assert read_answer(make(7, name)) is None


@pytest.mark.parametrize("depth", [150, 970, 100_000])
def test_value_that_is_too_deep_is_named(depth: int):
    """
    It is not kept: whatever reads it later would fail.
    """
    body = b"[[" + b"[" * depth + b"]" * depth + b"], {}, {}]"
    headers = {"task": SUCCEEDED, TOKEN: str(ONE)}

    told = read_answer(Message(headers, "application/json", body))

    assert told is not None
    assert (True, None) == (told.succeeded, told.returned)
    assert told.note is not None
    assert "within each other" in told.note


def test_failure_has_the_token_alone():
    """
    Celery gives the id of the task, and no text.
    """
    told = read_answer(make("some id", FAILED))

    assert told is not None
    assert (ONE, False, None) == (told.token, told.succeeded, told.returned)


@pytest.mark.parametrize(
    ("message", "word"),
    [
        (make("x" * LONGEST_VALUE), "cut"),
        (make("x" * LARGEST_BODY), "not kept"),
        (Message(make(1).headers, "application/x-python-serialize", b"(dp0"), "pytho"),
        (Message(make(1).headers, "application/json", b"{"), "not JSON"),
        (Message(make(1).headers, "application/json", b"[" * 100_000), "within"),
    ],
)
def test_value_that_is_not_kept_is_a_success_all_the_same(message: Message, word: str):
    """
    Only JSON is decoded, and little of it kept.
    """
    told = read_answer(message)

    assert told is not None
    assert told.succeeded
    assert word in str(told.note)
    assert len(str(told.returned)) <= LONGEST_VALUE


@given(
    st.dictionaries(st.sampled_from(["task", TOKEN, "id"]), st.text() | st.integers())
    | st.none()
    | st.lists(st.integers()),
    st.none() | st.text(),
    st.binary(),
)
def test_anything_else_is_no_answer(headers: Any, content_type: Any, body: bytes):
    """
    Nobody is asked to trust what others put into a queue.
    """
    assert read_answer(Message(headers, content_type, body)) is None


def test_callbacks_go_to_the_queue_without_its_name_being_declared():
    """
    Of the default exchange, by a key; a value is asked for unless it is not wanted.
    """
    task = ForeignTask("a", "id", token=ONE, with_value=False)

    links = make_links(task, "minutehand.answers.x")

    (good,), (bad,) = links["callbacks"], links["errbacks"]
    for each in (good, bad):
        assert ("", "minutehand.answers.x") == (
            each["options"]["exchange"],
            each["options"]["routing_key"],
        )
        assert {TOKEN: str(ONE)} == each["options"]["headers"]
    assert good["immutable"]
